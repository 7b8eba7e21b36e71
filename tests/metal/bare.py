# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bare servers: machines of a separate libvirtd, and sushy-tools as their management controller, with TLS and one account."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import time
import typing as t
import urllib.error
import urllib.request
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The client that these tests compare with, the emulator, the server of the role, and the validator of interoperability profiles.
PACKAGES = ("sushy-tools==2.2.0", "sushy==5.14.0", "bcrypt", "gunicorn==23.0.0", "redfish-interop-validator==3.0.4")
USER = "operator"


def environment(name: str = "metal", packages: t.Sequence[str] = PACKAGES, options: t.Sequence[str] = ("--system-site-packages",)) -> pathlib.Path:
    """Return the folder of a virtual environment, created once for this checkout; by default with the emulator and the distribution's libvirt."""
    target = ROOT / ".cache" / f"venv-{name}"
    stamp = target / "packages"
    if not stamp.exists() or stamp.read_text("utf-8") != repr(packages):
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["/usr/bin/python3", "-m", "venv", *options, str(target)], check=True)
        subprocess.run([str(target / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--retries", "5", *packages], check=True)
        stamp.write_text(repr(packages), "utf-8")
    return target


def haproxy() -> tuple[str, dict[str, str]]:
    """Return path and environment of HAProxy of the distribution, which is not installed, but downloaded once for this checkout."""
    target = ROOT / ".cache" / "haproxy"
    if not target.exists():
        part = ROOT / ".cache" / f"haproxy-{os.getpid()}"
        part.mkdir(parents=True)
        argv = ["apt-get", "-o", "APT::Sandbox::User=root", "download", "haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1"]
        subprocess.run(argv, check=True, cwd=part, capture_output=True)
        for package in part.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(part)], check=True)
            package.unlink()
        part.rename(target)
    return str(target / "usr" / "sbin" / "haproxy"), {"LD_LIBRARY_PATH": str(next((target / "usr" / "lib").glob("*-linux-gnu")))}


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def certificate(folder: pathlib.Path, names: str = "IP:127.0.0.1,DNS:localhost") -> tuple[pathlib.Path, pathlib.Path]:
    """Create a certificate that is its own authority; the files of the certificate and the key."""
    cert, key = folder / "bmc.pem", folder / "bmc.key"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=bmc"]
    subprocess.run([*argv, "-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return cert, key


class Server:
    """A server with TLS, of which a subclass knows how it is started; a context manager."""

    certificate: pathlib.Path
    log: pathlib.Path
    url: str
    _process: subprocess.Popen[bytes] | None = None

    def start(self, argv: t.Sequence[str], env: t.Mapping[str, str] | None = None) -> None:
        """Start it; return when it answers."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=env)
        context = ssl.create_default_context(cafile=str(self.certificate))
        end = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/redfish/v1/", timeout=10, context=context):
                    return
            except (OSError, urllib.error.URLError):
                assert self._process.poll() is None and time.monotonic() < end, self.log.read_text(errors="replace")[-2000:]
                time.sleep(0.5)

    def __exit__(self, *unused: object) -> None:
        assert self._process
        self._process.terminate()
        self._process.wait(30)


class Emulator(Server):
    """One process of sushy-tools."""

    def __init__(self, folder: pathlib.Path, uri: str, password: str, address: str = "127.0.0.1") -> None:
        self.folder, self.uri, self.address, self.port = folder, uri, address, free_port()
        self.certificate, key = certificate(folder, f"IP:{address}")
        self.log = folder / "emulator.log"
        python = str(environment() / "bin" / "python")
        hashed = "import bcrypt, sys; print(bcrypt.hashpw(sys.stdin.read().encode(), bcrypt.gensalt(4)).decode())"
        line = subprocess.run([python, "-c", hashed], input=password, check=True, capture_output=True, text=True).stdout.strip()
        (folder / "htpasswd").write_text(f"{USER}:{line}\n", "utf-8")
        settings = {
            "LISTEN_IP": address,
            "LISTEN_PORT": self.port,
            "SSL_CERT": str(self.certificate),
            "SSL_KEY": str(key),
            "AUTH_FILE": str(folder / "htpasswd"),
            "LIBVIRT_URI": uri,
            "STATE_DIR": str(folder / "state"),
            "BOOT_LOADER_MAP": {"UEFI": {"x86_64": "/usr/share/OVMF/OVMF_CODE_4M.fd"}, "Legacy": {"x86_64": None}},
        }
        (folder / "state").mkdir(exist_ok=True)
        (folder / "emulator.conf").write_text("".join(f"SUSHY_EMULATOR_{key} = {value!r}\n" for key, value in settings.items()), "utf-8")
        self.url = f"https://{address}:{self.port}"

    def __enter__(self) -> Emulator:
        self.start([str(environment() / "bin" / "sushy-emulator"), "--config", str(self.folder / "emulator.conf")])
        return self

    def bmc(self, password: str, system: str, **more: t.Any) -> dict[str, t.Any]:
        """Return the option ``bmc`` of a module for one of its systems."""
        account = {"address": f"{self.address}:{self.port}", "user": USER, "password": password}
        return {**account, "verify_ca": str(self.certificate), "system": system, **more}

    def client(self, script: str, password: str) -> str:
        """Run a script with sushy, an independent client; ``system`` is a function that returns a system by its UUID. The output."""
        head = (
            "import sushy, sys\nfrom sushy import auth\n"
            f"root = sushy.Sushy({self.url + '/redfish/v1/'!r}, auth=auth.BasicAuth({USER!r}, sys.stdin.read()), verify={str(self.certificate)!r})\n"
            "system = lambda uuid: root.get_system('/redfish/v1/Systems/' + uuid)\n"
        )
        argv = [str(environment() / "bin" / "python"), "-c", head + script]
        done = subprocess.run(argv, input=password, capture_output=True, text=True, timeout=180, check=False, env={**os.environ, "PYTHONWARNINGS": "ignore"})
        assert not done.returncode, done.stderr[-2000:]
        return done.stdout


def domain(
    name: str, disk: pathlib.Path, *, uefi: bool, network: str, memory: int = 1024, serial: str = "", mac: str = "", secure: bool = True
) -> str:
    """Return the document of a machine with one disk and one NIC; Secure Boot is left to libvirt, or off."""
    features = "" if secure else "<firmware><feature enabled='no' name='secure-boot'/></firmware>"
    boot = features if uefi else "<boot dev='hd'/>"
    os_tag = f"<os{' firmware=' + repr('efi') if uefi else ''}><type arch='x86_64' machine='{'q35' if uefi else 'pc'}'>hvm</type>{boot}</os>"
    return (
        f"<domain type='qemu'><name>{name}</name>"
        f"<uuid>{uuid.uuid5(uuid.NAMESPACE_DNS, name)}</uuid><memory unit='MiB'>{memory}</memory><vcpu>2</vcpu>{os_tag}<features><acpi/></features>"
        f"<cpu mode='maximum'/><devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{disk}'/>"
        f"<target dev='vda' bus='virtio'/>{f'<serial>{serial}</serial>' if serial else ''}</disk>"
        f"<interface type='bridge'>{f'<mac address={mac!r}/>' if mac else ''}<source bridge='{network}'/><model type='virtio'/>"
        # without the loader of QEMU, UEFI loads the one of the boot server
        f"{'<rom enabled=' + repr('no') + '/>' if uefi else ''}</interface>"
        f"<serial type='file'><source path='{disk}.console'/></serial><video><model type='none'/></video></devices></domain>"
    )
