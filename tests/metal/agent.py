# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ironic boots and writes: its agent in the system of the role boot_server, boot loaders for virtual media, and the image of the role cloud_image."""

from __future__ import annotations

import hashlib
import importlib.util
import pathlib
import platform
import shutil
import subprocess
import tempfile
import types

import bare
import netboot

PACKAGES = ("ironic-python-agent==13.0.0",)
FOLDER = netboot.CACHE / "agent"
#: The agent is started by the Python of the system in memory, with packages that were installed for the one of this machine.
RELEASE = platform.freedesktop_os_release()["VERSION_CODENAME"]
IMAGE, MIB = "debian.qcow2", "1024"
#: Of the agent, beside those that the system has: it reads the hardware with lshw, and cleans with fuser of psmisc.
PROGRAMS = ("lshw", "psmisc")
#: Boot loaders of the distribution, which Ironic puts on its media: signed ones for UEFI, ISOLINUX for BIOS.
LOADERS = ("shim-signed", "grub-efi-amd64-signed", "isolinux", "syslinux-common")
#: The loader is on a file system of its own in the medium; Ironic writes the configuration next to the kernel.
GRUB = "search --file --set=root /EFI/BOOT/grub.cfg\nconfigfile /EFI/BOOT/grub.cfg\n"
UNIT = """\
[Unit]
Description=Agent of Ironic
After=systemd-networkd.service

[Service]
Environment=PYTHONPATH=/opt/agent
ExecStart=/usr/bin/python3 -c "from ironic_python_agent.cmd import agent; agent.run()"
Restart=on-failure
StandardOutput=journal+console
StandardError=journal+console
"""


def _digest(*paths: pathlib.Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:16]


def _recipe(role: str, name: str) -> tuple[pathlib.Path, types.ModuleType]:
    path = bare.ROOT / "roles" / role / "files" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def files() -> pathlib.Path:
    """Return a folder with vmlinuz, initrd, esp.img, isolinux.bin, ldlinux.c32 and the image; it is built once for each version of what it is made of."""
    boot, module = _recipe("boot_server", "build_boot_system")
    cloud, unused = _recipe("cloud_image", "build_cloud_image")
    inputs = _digest(pathlib.Path(__file__), boot, cloud)
    stamp = FOLDER / "inputs"
    if not stamp.exists() or stamp.read_text("utf-8") != inputs:
        FOLDER.mkdir(parents=True, exist_ok=True)
        key = netboot.key().with_suffix(".pub").read_text("utf-8").strip()
        common = (str(FOLDER), "--release", RELEASE, "--inputs")
        more = [word for name in PROGRAMS for word in ("--package", name)]
        _run("/usr/bin/python3", str(boot), *common, "-".join([RELEASE, *PROGRAMS, _digest(boot)]), *more, "--key", key)
        _run("/usr/bin/python3", str(cloud), *common, f"{RELEASE}-{MIB}-{_digest(cloud)}", "--size", MIB, IMAGE.partition(".")[0])
        with tempfile.TemporaryDirectory(dir=FOLDER) as place:
            work = pathlib.Path(place)
            _add_agent(work, module)
            _loaders(work)
        stamp.write_text(inputs, "utf-8")
    return FOLDER


def _run(*argv: str, cwd: pathlib.Path | None = None) -> None:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert not done.returncode, done.stdout + done.stderr


def _add_agent(work: pathlib.Path, boot: types.ModuleType) -> None:
    """Append the agent to the system in memory as a second archive, which the kernel unpacks over the first one."""
    root = work / "root"
    packages = next((bare.environment("agent", PACKAGES, ()) / "lib").glob("python3*")) / "site-packages"
    shutil.copytree(packages, root / "opt" / "agent", ignore=shutil.ignore_patterns("pip", "pip-*", "setuptools*", "pkg_resources", "tests"))
    boot.put(root, "etc/systemd/system/agent.service", UNIT)
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir()
    (wanted / "agent.service").symlink_to("../agent.service")
    for path in (root, *root.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    boot.pack(root, work / "agent")
    # Ironic unpacks a file that begins with the mark of zstd, and fails for two archives; a multiple of 4 bytes, as the beginning of an archive must be
    empty = subprocess.run(["cpio", "--create", "--format=newc", "--quiet"], input=b"", capture_output=True, check=True).stdout
    system = (FOLDER / "initrd").read_bytes()
    (work / "ramdisk").write_bytes(empty + system + bytes(-len(system) % 4) + (work / "agent").read_bytes())
    (work / "ramdisk").replace(FOLDER / "ramdisk")


def _loaders(work: pathlib.Path) -> None:
    _run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *LOADERS, cwd=work)
    unpacked = work / "loaders"
    for archive in work.glob("*.deb"):
        _run("dpkg-deb", "--extract", str(archive), str(unpacked))
    for name in ("isolinux.bin", "ldlinux.c32"):
        shutil.copy(next(path for path in unpacked.rglob(name) if path.parent.name != "efi64"), FOLDER / name)
    system = work / "esp.img"
    with system.open("wb") as stream:
        stream.truncate(8 << 20)
    _run("mformat", "-i", str(system), "-v", "ESP", "::")
    _run("mmd", "-i", str(system), "::/EFI", "::/EFI/BOOT", "::/boot", "::/boot/grub")
    (work / "grub.cfg").write_text(GRUB, "utf-8")
    for source, target in (
        (unpacked / "usr/lib/shim/shimx64.efi.signed", "EFI/BOOT/BOOTX64.EFI"),
        (unpacked / "usr/lib/grub/x86_64-efi-signed/gcdx64.efi.signed", "EFI/BOOT/grubx64.efi"),
        (work / "grub.cfg", "boot/grub/grub.cfg"),
    ):
        _run("mcopy", "-i", str(system), str(source), f"::/{target}")
    system.replace(FOLDER / "esp.img")
