# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a missing volume may be created: never in place of one the VM had, unless ``recreate_disks`` names it."""

from __future__ import annotations

import difflib
import posixpath
import types
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage


class History(t.NamedTuple):
    """The volumes that a VM had.

    ``open`` are the paths its running guest uses, ``had`` those in its definitions that once
    existed. ``places`` maps a target (of a container: the mount point) to the path in its definition.
    """

    open: frozenset[str] = frozenset()
    had: frozenset[str] = frozenset()
    places: t.Mapping[str, str] = types.MappingProxyType({})


def refuse_missing(
    vm_name: str,
    disk: model_parts.Disk,
    pool: model_storage.Pool,
    source: model_storage.DiskSource,
    history: History,
    *,
    path: str,
    recreate: bool,
    protected: bool,
    twin: str | None = None,
) -> None:
    """Check a disk whose volume is missing.

    :arg twin: path of the volume under the name it has in the other format, ``None`` where there is none.
    """
    lost = next((each for each in (source.path, twin) if each is not None and each in history.open | history.had), None)
    if lost is None:
        lost = _elsewhere(disk, source, history)
        if lost is not None and not (recreate and not protected):
            raise model_errors.RefusedError(
                f"the VM has the volume {lost}, wanted is {source.path}, which does not exist; volumes are not moved to another pool or path.",
                f"{path}.pool",
                f"Shut the VM down, move the volume to {source.path} and run again; or keep its pool." + _or_recreate(disk.name, protected),
            )
        return
    name = posixpath.basename(lost)
    what = f"the volume {name} of the pool {pool.name} is missing: {lost} does not exist"
    if lost in history.open:
        raise model_errors.RefusedError(
            f"{what}, but the running VM still has it open; its content is gone when the VM stops.", path, _rescue(vm_name, disk, lost)
        )
    if recreate and not protected:
        return
    raise model_errors.RefusedError(
        f"{what}, but the VM was created with it; it is not replaced by an empty one.",
        path,
        f"Restore {lost} from a backup, or mount the file system or start the pool that holds it, and run again." + _or_recreate(name, protected),
    )


def _elsewhere(disk: model_parts.Disk, source: model_storage.DiskSource, history: History) -> str | None:
    """The path of the VM's volume of this name, if it differs from the wanted path."""
    there = history.places.get(disk.mount if disk.mount is not None else disk.target)
    if there is None or there not in history.open | history.had or posixpath.basename(there) != disk.name or there == source.path:
        return None
    return there


def _or_recreate(name: str, protected: bool) -> str:
    if protected:
        return " The disk is protected, so recreate_disks does not apply to it."
    return f" Only if its content is no longer needed: recreate_disks: [{name}] creates it again."


def _rescue(vm_name: str, disk: model_parts.Disk, lost: str) -> str:
    if disk.format == "dir":
        return (
            f"If its file system was unmounted, mount it again. Otherwise copy the files of the container before you stop it, from "
            f"/proc/PID/root with the PID that pgrep -P $(virsh -c lxc:///system domid {vm_name}) prints."
        )
    return (
        f"Do not stop the VM before its content is copied: virsh suspend {vm_name}; find the open file with ls -l /proc/PID/fd (PID of its QEMU "
        f"process, the link ends in '(deleted)'); cp --sparse=always /proc/PID/fd/N {lost}; then virsh destroy {vm_name} and run again."
    )


def unknown_disk(name: str, path: str, known: t.Iterable[str]) -> model_errors.InputError:
    """The error for an entry of an option that matches no disk."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, 1)
    hint = f"Did you mean {near[0]}?" if near else f"The disks are: {', '.join(names) or 'none'}."
    return model_errors.InputError(f"none of the VMs of this call has a disk {model_errors.shown(name)}.", path, hint)
