# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenStack Ironic in one process, without other services, and the command line tool of its client."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import os
import pathlib
import secrets
import subprocess
import threading
import time
import typing as t
import urllib.error
import urllib.request

import agent
import bare

PACKAGES = ("ironic==39.0.0", "python-ironicclient==6.3.0")
SETTINGS = """
[DEFAULT]
host = standalone
auth_strategy = http_basic
http_basic_auth_user_file = {folder}/htpasswd
rpc_transport = none
enabled_hardware_types = redfish
enabled_bios_interfaces = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = direct
enabled_inspect_interfaces = redfish
enabled_network_interfaces = noop
enabled_raid_interfaces = no-raid
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
state_path = {folder}/state
log_file = {folder}/ironic.log
tempdir = {folder}/temp
isolinux_bin = {folder}/http/isolinux.bin
ldlinux_c32 = {folder}/http/ldlinux.c32
[agent]
certificates_path = {folder}/state
deploy_logs_local_path = {folder}/logs
image_download_source = local
[api]
host_ip = {address}
port = {port}
[conductor]
automated_clean = false
bootloader = {http}/esp.img
deploy_kernel = {http}/vmlinuz
deploy_ramdisk = {http}/ramdisk
[database]
connection = sqlite:///{folder}/ironic.sqlite
[deploy]
erase_devices_priority = 0
erase_devices_metadata_priority = 10
http_root = {folder}/http
http_url = {http}
iso_master_path = {folder}/isos
[oslo_concurrency]
lock_path = {folder}/lock
[pxe]
images_path = {folder}/images
instance_master_path = {folder}/masters
[redfish]
kernel_append_params = console=ttyS0 quiet rootfstype=ramfs
[service_catalog]
endpoint_override = {api}
"""


class Ironic:
    """One process of Ironic; a context manager.

    :arg address: where it listens, also for controllers and for its agent.
    """

    def __init__(self, folder: pathlib.Path, address: str) -> None:
        self._bin = bare.environment("ironic", PACKAGES, ()) / "bin"
        self._folder, self._password = folder, secrets.token_hex(12)
        for name in ("state", "http", "lock", "temp", "programs"):
            (folder / name).mkdir()
        # xorriso understands the options of the program whose name it has
        (folder / "programs" / "mkisofs").symlink_to("/usr/bin/xorriso")
        for path in agent.files().iterdir():
            (folder / "http" / path.name).symlink_to(path)
        hashed = "import bcrypt, sys; print(bcrypt.hashpw(sys.stdin.read().encode(), bcrypt.gensalt(4)).decode())"
        line = subprocess.run([str(self._bin / "python"), "-c", hashed], input=self._password, check=True, capture_output=True, text=True).stdout.strip()
        (folder / "htpasswd").write_text(f"admin:{line}\n", "utf-8")
        # controllers download images from here
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder / "http"))
        self._http = http.server.ThreadingHTTPServer((address, 0), handler)
        self.http = f"http://{address}:{self._http.server_port}"
        port = bare.free_port()
        self._api = f"http://{address}:{port}"
        self._settings = folder / "ironic.conf"
        values = {"folder": folder, "address": address, "port": port, "api": self._api, "http": self.http}
        self._settings.write_text(SETTINGS.format(**values), "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Ironic:
        create = [str(self._bin / "ironic-dbsync"), "--config-file", str(self._settings), "create_schema"]
        subprocess.run(create, check=True, capture_output=True, timeout=300)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        with (self._folder / "output").open("wb") as output:
            argv = [str(self._bin / "ironic"), "--config-file", str(self._settings)]
            env = {**os.environ, "PATH": f"{self._folder / 'programs'}:{os.environ['PATH']}"}
            self._process = subprocess.Popen(argv, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=env)
        end = time.monotonic() + 180
        while True:
            try:
                if self.get("drivers")["drivers"]:
                    return self
            except (OSError, urllib.error.URLError):
                pass
            assert self._process.poll() is None and time.monotonic() < end, self.log[-4000:]
            time.sleep(1)

    def __exit__(self, *unused: object) -> None:
        assert self._process
        self._http.shutdown()
        self._http.server_close()
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)

    @property
    def images(self) -> pathlib.Path:
        """The folder that its HTTP server serves."""
        return self._folder / "http"

    @property
    def log(self) -> str:
        """What it logged."""
        return (self._folder / "ironic.log").read_text("utf-8", errors="replace")

    def get(self, path: str, method: str = "GET", body: t.Any = None) -> t.Any:
        """Return the answer of its API."""
        headers = {"X-OpenStack-Ironic-API-Version": "latest", "Content-Type": "application/json"}
        headers["Authorization"] = "Basic " + base64.b64encode(f"admin:{self._password}".encode()).decode()
        sent = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self._api}/v1/{path}", headers=headers, method=method, data=sent)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def run(self, *argv: str, fails: bool = False) -> str:
        """Run a command of ``baremetal``; its output."""
        env = {key: value for key, value in os.environ.items() if not key.startswith(("OS_", "PYTHON"))}
        env |= {"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "admin", "OS_PASSWORD": self._password, "OS_ENDPOINT": self._api}
        done = subprocess.run([str(self._bin / "baremetal"), *argv], env=env, capture_output=True, text=True, timeout=300, check=False)
        assert bool(done.returncode) is fails, f"{done.stdout}\n{done.stderr}\n{self.log[-4000:]}"
        return done.stdout + done.stderr

    def wait(self, node: str, timeout: float = 120, **wanted: t.Any) -> t.Mapping[str, t.Any]:
        """Wait until a node has some values, at most ``timeout`` seconds; the node."""
        end = time.monotonic() + timeout
        while True:
            found = self.get(f"nodes/{node}")
            if all(found[key] == value for key, value in wanted.items()):
                return t.cast("t.Mapping[str, t.Any]", found)
            assert time.monotonic() < end and not found["provision_state"].endswith("failed"), f"{found}\n{self.log[-4000:]}"
            time.sleep(1)
