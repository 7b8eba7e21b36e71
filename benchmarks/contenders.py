# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The contenders of the benchmark: vm_define, community.libvirt, the floor, a ping."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing as t
import uuid
import zipfile

from benchmarks import process

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"
CACHE = ROOT / ".cache" / "benchmarks"
PEER_CACHE = CACHE / "newest-peer"
#: libvirt's binding comes from the distribution, so modules run with the distribution's Python.
PYTHON = "/usr/bin/python3"
PLAYBOOK = str(ROOT / ".venv" / "bin" / "ansible-playbook")
PREFIX = "bench"
#: Parallel starts, the default of the module.
PARALLEL = 4
_COLLECTION = "ansible_collections/community/libvirt/"


def fetch_peer() -> str:
    """Download the newest community.libvirt from PyPI's ``ansible`` package, once; return its version.

    The newest ``ansible`` may require a newer Python than this one; its collection does not.
    """
    manifest = PEER_CACHE / _COLLECTION / "MANIFEST.json"
    if not manifest.is_file():
        shutil.rmtree(CACHE, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--python-version", "3.99", "--only-binary", ":all:", "--dest", str(CACHE / "download"), "ansible"], check=True)
        (wheel,) = (CACHE / "download").glob("ansible-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(CACHE / "part", [name for name in archive.namelist() if name.startswith(_COLLECTION)])
        # the final name means that it is complete
        os.rename(CACHE / "part", PEER_CACHE)
        wheel.unlink()
    return str(json.loads(manifest.read_text("utf-8"))["collection_info"]["version"])


def details(count: int) -> list[dict[str, t.Any]]:
    """Return VM details of diskless emulated guests with 32 MiB."""
    return [
        {
            "id": f"{PREFIX}{index}",
            "name": f"{PREFIX}{index}",
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{PREFIX}{index}")),
            "hypervisor": "qemu",
            "cpu": 1,
            "memory_mb": 32,
            "mac": f"52:54:00:be:{index >> 8:02x}:{index & 255:02x}",
        }
        for index in range(count)
    ]


class Contenders:
    """All contenders, on one libvirtd.

    :arg uri: of a libvirtd that only the benchmark uses.
    :arg folder: for plays and output; removed by the caller.
    """

    def __init__(self, uri: str, folder: pathlib.Path) -> None:
        self.uri = uri
        self.folder = folder
        self.template = (HERE / "domain.xml.j2").read_text("utf-8")
        self.env = {
            "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": os.pathsep.join([str(ROOT / ".cache" / "collections"), str(PEER_CACHE)]),
            "ANSIBLE_LIBRARY": str(HERE / "library"),
            "ANSIBLE_NOCOLOR": "1",
        }
        (folder / "ansible.cfg").write_text("", "utf-8")
        shutil.copy(HERE / "domain.xml.j2", folder)

    def ping(self) -> process.Cost:
        """Run ``ansible.builtin.ping``, the lower bound of any module."""
        return self._play("ping", [{"ansible.builtin.ping": {}}])

    def read(self) -> process.Cost:
        """Run a minimal module that reads every domain twice."""
        return self._play("read", [{"read_domains": {"uri": self.uri}}])

    def ours(self, count: int, start: bool, *, check: bool = False) -> process.Cost:
        """Run one task of vm_define for all VMs."""
        return self._play("ours", self._our_tasks(count, start), check=check)

    def ours_payload(self, count: int, start: bool) -> pathlib.Path:
        """Return the payload that Ansible sends to the host for this task, to run it without Ansible."""
        remote = self.folder / f"payload{count}"
        self._play("ours", self._our_tasks(count, start), env={"ANSIBLE_KEEP_REMOTE_FILES": "1", "ANSIBLE_REMOTE_TMP": str(remote)})
        (payload,) = remote.rglob("AnsiballZ_vm_define.py")
        return payload

    def peer(self, count: int, start: bool, *, check: bool = False) -> process.Cost:
        """Run community.libvirt as documented: define in a loop, start in a loop."""
        xml = "{{ lookup('ansible.builtin.template', 'domain.xml.j2', template_vars=item) }}"
        loop = {"loop": details(count), "loop_control": {"label": "{{ item.name }}"}}
        tasks: list[dict[str, t.Any]] = [{"community.libvirt.virt": {"uri": self.uri, "command": "define", "xml": xml, "autostart": True}, **loop}]
        if start:
            tasks.append({"community.libvirt.virt": {"uri": self.uri, "name": "{{ item.name }}", "state": "running"}, **loop})
        return self._play("peer", tasks, check=check)

    def cloud(self, count: int) -> process.Cost:
        """Run community.libvirt's virt_cloud_instance in a loop for VMs that exist: it looks them up by name and compares nothing."""
        module = {
            "uri": self.uri,
            "name": "{{ item.name }}",
            "base_image": "/nonexistent/image.qcow2",
            "disks": [{"path": "/nonexistent/disk.qcow2", "size": 1}],
            "memory": 32,
        }
        return self._play("cloud", [{"community.libvirt.virt_cloud_instance": module, "loop": details(count), "loop_control": {"label": "{{ item.name }}"}}])

    def floor(self, action: str, count: int, start: bool) -> process.Cost:
        """Run the same calls from Python without Ansible."""
        wanted = self.folder / "floor.json"
        domains = [{"name": vm["name"], "uuid": vm["uuid"], "xml": self._filled(vm)} for vm in details(count)]
        wanted.write_text(json.dumps({"prefix": PREFIX, "parallel": PARALLEL, "start": start, "domains": domains}), "utf-8")
        return process.run([PYTHON, str(HERE / "floor.py"), action, self.uri, str(wanted)], {}, self.folder)

    def clean(self) -> None:
        """Remove every domain of the benchmark; not measured."""
        self.floor("clean", 0, False)

    def _our_tasks(self, count: int, start: bool) -> list[dict[str, t.Any]]:
        module = {
            "cluster": PREFIX,
            "uri": self.uri,
            "template": "{{ lookup('ansible.builtin.file', 'domain.xml.j2') }}",
            "state": "running" if start else "present",
            "parallel": PARALLEL,
            "vms": details(count),
        }
        return [{"reduced.footprint.vm_define": module}]

    def _play(self, name: str, tasks: list[dict[str, t.Any]], *, check: bool = False, env: t.Mapping[str, str] | None = None) -> process.Cost:
        play = self.folder / f"{name}.yml"
        # JSON is YAML
        play.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]), "utf-8")
        argv = [PLAYBOOK, "-i", "localhost,", "-c", "local", "-e", f"ansible_python_interpreter={PYTHON}", *(["--check"] if check else []), str(play)]
        return process.run(argv, {**self.env, **(env or {})}, self.folder)

    def _filled(self, vm: t.Mapping[str, t.Any]) -> str:
        text = self.template
        for key, value in vm.items():
            text = text.replace(f"{{{{ {key} }}}}", str(value))
        return text


def changed(cost: process.Cost) -> int:
    """Count the tasks and loop items that Ansible reports as changed."""
    return sum(line.startswith("changed: [") for line in cost.output.splitlines())
