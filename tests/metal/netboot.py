# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role boot_server configures, run without systemd on a bridge of these tests: DHCP, TFTP and HTTP, and the system that servers boot."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
import typing as t
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLE = ROOT / "roles" / "boot_server"
CACHE = ROOT / ".cache" / "metal"
#: Kernel and system, which are built once for each version of the script that builds them.
SYSTEM = CACHE / "system"
RELEASE = "bookworm"
DHCP, HTTP = "footprint-boot-dhcp.service", "footprint-boot-http.service"
#: Builds the system and writes the files as the role does, with its variables and templates.
PLAY = """
- hosts: boot
  connection: local
  gather_facts: false
  vars: {role_path: "{{ role }}", __boot_server_place: {ifname: "{{ bridge }}"}}
  vars_files: ["{{ role }}/defaults/main.yml", "{{ role }}/vars/Debian.yml", "{{ role }}/vars/main.yml"]
  tasks:
    - ansible.builtin.assert: {that: __boot_server_problems | length == 0, fail_msg: "{{ __boot_server_problems }}"}
    - ansible.builtin.script:
        cmd: build_boot_system.py {{ system | quote }} {{ __boot_server_arguments | map('quote') | join(' ') }}
        executable: /usr/bin/python3
        creates: "{{ system }}/manifest-{{ __boot_server_inputs }}.json"
    - ansible.builtin.script:
        cmd: build_root.py {{ system | quote }} {{ __boot_server_root_arguments | map('quote') | join(' ') }}
        executable: /usr/bin/python3
        creates: "{{ system }}/root-{{ __boot_server_root_inputs }}.json"
      when: boot_server_root
    - ansible.builtin.copy:
        content: "{{ item.content }}"
        dest: "{{ folder }}/{{ item.path | basename }}"
        mode: "0644"
      loop: "{{ __boot_server_configuration }}"
"""


def key() -> pathlib.Path:
    """Return the ssh key of the operator; it is part of the system, so it is kept."""
    path = CACHE / "key"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


class BootServer:
    """The services of the role on a bridge; a context manager.

    :arg inventory: with the servers, and the host ``boot``.
    :arg root: whether to serve the system that is installed as well; with a small kernel, because emulated machines unpack it slowly.
    """

    def __init__(self, folder: pathlib.Path, bridge: str, address: str, inventory: pathlib.Path, *, root: bool = False) -> None:
        self.folder, self.bridge, self.address, self.inventory, self.root = folder, bridge, address, inventory, root
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> BootServer:
        self.folder.mkdir(parents=True)
        # dnsmasq gives up root
        self.folder.chmod(0o755)
        for name in ("templates", "files"):
            (self.folder / name).symlink_to(ROLE / name)
        (self.folder / "play.yml").write_text(PLAY, "utf-8")
        given = {
            "role": str(ROLE), "bridge": self.bridge, "folder": str(self.folder), "boot_server_address": self.address, "boot_server_release": RELEASE,
            "boot_server_keys": [key().with_suffix(".pub").read_text("utf-8").strip()], "system": str(SYSTEM),
            "boot_server_root": self.root, "boot_server_root_kernel": "linux-image-cloud-amd64",
        }  # fmt: skip
        values = json.dumps(given)
        argv = [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "-i", str(self.inventory), str(self.folder / "play.yml"), "-e", values]
        environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections")}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert not done.returncode, done.stdout + done.stderr
        for name in ("vmlinuz", "initrd", *(("root.tar.zst", "root.json") if self.root else ())):
            (self.folder / name).symlink_to(SYSTEM / name)
        for unit in (DHCP, HTTP):
            line = next(line for line in (self.folder / unit).read_text("utf-8").splitlines() if line.startswith("ExecStart="))
            self._start(unit, line.partition("=")[2])
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://{self.address}:8070/boot.ipxe", timeout=5) as answer:
                    assert answer.read().startswith(b"#!ipxe")
                    return self
            except (OSError, urllib.error.URLError):
                assert time.monotonic() < end, self.log()
                time.sleep(0.5)

    def _start(self, unit: str, line: str) -> None:
        for path, here in (("/etc/reduced.footprint/boot", ""), ("/var/lib/reduced.footprint/boot/system", ""), ("/var/lib/reduced.footprint-boot-dhcp", "")):
            line = line.replace(path, f"{self.folder}{here}")
        if unit == DHCP:
            configuration = self.folder / "dnsmasq.conf"
            configuration.write_text(configuration.read_text("utf-8").replace("/var/lib/reduced.footprint-boot-dhcp", str(self.folder)), "utf-8")
        with (self.folder / f"{unit}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(shlex.split(line), stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def __exit__(self, *unused: object) -> None:
        for process in self._processes:
            process.terminate()
            process.wait(30)

    def log(self) -> str:
        """What the services logged."""
        return "\n".join((self.folder / f"{unit}.log").read_text("utf-8", "replace")[-4000:] for unit in (DHCP, HTTP))


def _call(folder: pathlib.Path, inventory: pathlib.Path, values: t.Mapping[str, t.Any], playbook: str) -> tuple[list[str], dict[str, str]]:
    argv = [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), f"reduced.footprint.{playbook}", "-i", str(inventory)]
    argv += ["-e", json.dumps({"expert_mode": True, "ansible_ssh_private_key_file": str(key()), **values})]
    environment = {
        **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }  # fmt: skip
    return argv, environment


def ansible(
    folder: pathlib.Path, inventory: pathlib.Path, *more: str, values: t.Mapping[str, t.Any], timeout: float = 2400, playbook: str = "discover_servers"
) -> subprocess.CompletedProcess[str]:
    """Run a playbook."""
    argv, environment = _call(folder, inventory, values, playbook)
    return subprocess.run(
        [*argv, *more], env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
    )


@contextlib.contextmanager
def started(
    folder: pathlib.Path, inventory: pathlib.Path, values: t.Mapping[str, t.Any], playbook: str = "discover_servers"
) -> t.Iterator[subprocess.Popen[bytes]]:
    """Start a playbook as a process group of its own."""
    argv, environment = _call(folder, inventory, values, playbook)
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, env=environment, cwd=folder, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()
