# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the storage tests have in common: a host to ask for VMs, and ways to look at what came of it."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import typing as t

import libvirt

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult, VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source

POOL = "footprint-test"
MIB = 1024 * 1024
# a screen needs a port, and two libvirts on one machine race for it
TEMPLATE = re.sub(r"(?s) *<graphics.*?</graphics>\n", "", template_source("default"))


class StorageHost:
    """A real libvirt."""

    def __init__(self, qemu: str, lxc: str, folder: pathlib.Path) -> None:
        self.uris = {"qemu": qemu, "lxc": lxc}
        self.folder = folder
        self.images = folder / "images"
        self.connections = {kind: libvirt.open(uri) for kind, uri in self.uris.items()}

    def close(self) -> None:
        """End the connections."""
        for connection in self.connections.values():
            connection.close()

    def clear(self) -> None:
        """No domain, no volume, no image."""
        for connection in self.connections.values():
            for domain in connection.listAllDomains():
                persistent = domain.isPersistent()
                if domain.isActive():
                    domain.destroy()
                if persistent:
                    domain.undefine()
        for entry in self.folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self.images.mkdir()

    def call(self, *vms: t.Mapping[str, t.Any], kind: str = "qemu", check: bool = False, **options: t.Any) -> DefineResult:
        """One call about some VMs."""
        details = [dict({"cpu": 1, "memory_mb": 32, "hypervisor": kind}, **vm) for vm in vms]
        asked = dict({"cluster": "storage", "uri": self.uris[kind], "pool": POOL, "template": TEMPLATE, "shutdown_timeout": 0, "force": True}, **options)
        return define_vms(DefineRequest(vms=details, **asked), check_mode=check)

    def one(self, vm: t.Mapping[str, t.Any], **options: t.Any) -> VmResult:
        """One call about one VM; in check mode first, which has to tell the same."""
        foreseen = self.call(vm, check=True, **options)
        result = self.call(vm, **options)
        told, said = result.vms[0], foreseen.vms[0]
        assert told.error is None, told.error
        assert foreseen.diff == result.diff
        assert (said.changed, said.actions, said.changes, said.restart_required, said.state) == (
            told.changed,
            told.actions,
            told.changes,
            told.restart_required,
            told.state,
        )
        assert not self.call(vm, **options).vms[0].changed
        return told

    def image(self, name: str, form: str = "qcow2", size: str = "8M") -> pathlib.Path:
        """A base image with something in it."""
        path = self.images / name
        subprocess.run(["qemu-img", "create", "-q", "-f", form, str(path), size], check=True)
        subprocess.run(["qemu-io", "-f", form, "-c", "write -P 0x5a 1M 64k", str(path)], check=True, stdout=subprocess.DEVNULL)
        return path

    def root_image(self, name: str = "root") -> None:
        """A root whose init does nothing but be there."""
        tree = self.folder / ".tree"
        for part in ("sbin", "bin", "dev", "proc", "sys", "etc", "tmp"):
            (tree / part).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "sbin" / "init")
        (tree / "etc" / "inittab").write_text("::respawn:/sbin/init sleep 1000\n")
        subprocess.run(["tar", "--create", "--file", str(self.images / f"{name}.tar"), "--directory", str(tree), "."], check=True)
        shutil.rmtree(tree)

    def facts(self, path: str | os.PathLike[str]) -> dict[str, t.Any]:
        """What qemu-img says of a disk, also while a guest has it."""
        argv = ["qemu-img", "info", "--force-share", "--output=json", str(path)]
        return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)

    def domain(self, name: str, kind: str = "qemu") -> t.Any:
        """A domain as libvirt has it."""
        return self.connections[kind].lookupByName(name)

    def volumes(self) -> list[str]:
        """What stands in the pool beside the images."""
        return sorted(entry.name for entry in self.folder.iterdir() if entry != self.images)
