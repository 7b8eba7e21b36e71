# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Common helpers of the storage tests: a host for VMs, and functions that inspect the results."""

from __future__ import annotations

import json
import multiprocessing
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


def killed(owner: t.Any, step: str, after: bool, work: t.Callable[[], t.Any]) -> None:
    """Do something in a process that is killed before or after a step of a class."""

    def attempt() -> None:
        true = getattr(owner, step)

        def deadly(*arguments: t.Any, **options: t.Any) -> t.Any:
            if after:
                true(*arguments, **options)
            os.kill(os.getpid(), 9)

        setattr(owner, step, deadly)
        work()

    victim = multiprocessing.get_context("fork").Process(target=attempt)
    victim.start()
    victim.join(60)
    assert victim.exitcode == -9


class StorageHost:
    """A real libvirtd."""

    def __init__(self, qemu: str, lxc: str, folder: pathlib.Path) -> None:
        self.uris = {"qemu": qemu, "lxc": lxc}
        self.folder = folder
        self.images = folder / "images"
        self.connections = {kind: libvirt.open(uri) for kind, uri in self.uris.items()}

    def close(self) -> None:
        """Close the connections."""
        for connection in self.connections.values():
            connection.close()

    def clear(self) -> None:
        """Remove all domains, volumes and images."""
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
        """Run ``vm_define`` for some VMs."""
        details = [dict({"cpu": 1, "memory_mb": 32, "hypervisor": kind}, **vm) for vm in vms]
        given = dict({"cluster": "storage", "uri": self.uris[kind], "pool": POOL, "template": TEMPLATE, "shutdown_timeout": 0, "force": True}, **options)
        return define_vms(DefineRequest(vms=details, **given), check_mode=check)

    def one(self, vm: t.Mapping[str, t.Any], **options: t.Any) -> VmResult:
        """Run ``vm_define`` for one VM, first in check mode, which must report the same result."""
        foreseen = self.call(vm, check=True, **options)
        result = self.call(vm, **options)
        applied, predicted = result.vms[0], foreseen.vms[0]
        assert applied.error is None, applied.error
        assert foreseen.diff == result.diff
        assert (predicted.changed, predicted.actions, predicted.changes, predicted.restart_required, predicted.state) == (
            applied.changed,
            applied.actions,
            applied.changes,
            applied.restart_required,
            applied.state,
        )
        assert not self.call(vm, **options).vms[0].changed
        return applied

    def image(self, name: str, form: str = "qcow2", size: str = "8M") -> pathlib.Path:
        """Create a base image with content."""
        path = self.images / name
        subprocess.run(["qemu-img", "create", "-q", "-f", form, str(path), size], check=True)
        subprocess.run(["qemu-io", "-f", form, "-c", "write -P 0x5a 1M 64k", str(path)], check=True, stdout=subprocess.DEVNULL)
        return path

    def root_image(self, name: str = "root") -> None:
        """Create a root whose init only waits."""
        tree = self.folder / ".tree"
        for part in ("sbin", "bin", "dev", "proc", "sys", "etc", "tmp"):
            (tree / part).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "sbin" / "init")
        (tree / "etc" / "inittab").write_text("::respawn:/sbin/init sleep 1000\n")
        subprocess.run(["tar", "--create", "--file", str(self.images / f"{name}.tar"), "--directory", str(tree), "."], check=True)
        shutil.rmtree(tree)

    def facts(self, path: str | os.PathLike[str]) -> dict[str, t.Any]:
        """Return the information of qemu-img about a disk, also while a guest uses it."""
        argv = ["qemu-img", "info", "--force-share", "--output=json", str(path)]
        return json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)

    def domain(self, name: str, kind: str = "qemu") -> t.Any:
        """Return the record of a domain."""
        return self.connections[kind].lookupByName(name)

    def volumes(self) -> list[str]:
        """List the files of the pool without the images."""
        return sorted(entry.name for entry in self.folder.iterdir() if entry != self.images)
