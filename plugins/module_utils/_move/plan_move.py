# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Obstacles of a move, its method, the files to copy, the phase at which to resume, and whether to wait for the destination. No I/O.

The mappings are those of ``_move.io_look``.
"""

from __future__ import annotations

import os.path
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._move import model_journal
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import AUTO, COPY, DISK, LIVE, Item, MoveSpec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, MOVED, MOVING

Facts = t.Mapping[str, t.Any]

# the first libvirt version with a configurable disks URI
_LEAST_LIBVIRT = 6_008_000
_QEMU = "qemu:///system"
_SHARED = "Remove it there if no VM needs it. If both servers share this storage, it is the disk of this VM: do not remove it, such a VM cannot be moved."


def items_of(vm: Facts) -> list[Item]:
    """The files and folders of a VM."""
    return [Item(**each) for each in vm["items"]]


def find_problems(spec: MoveSpec, vm: Facts, there: Facts) -> list[Problem]:
    """Return all obstacles of a move with their hints, for every method."""
    problems = [*_of_the_vm(vm), *_of_the_host(spec, vm, there)]
    if there.get("reason") is None:
        problems += [*_of_the_names(vm, there), *_of_the_space(vm, there)]
    return problems


def _of_the_vm(vm: Facts) -> t.Iterator[Problem]:
    if vm["id"] is None:
        yield Problem(f"the domain {vm['name']} is not managed by this collection.", "Adopt it first, with vm_define and adopt: true.", "id")
    if not vm["persistent"]:
        yield Problem("the domain is transient: it would be lost when it stops.", "Define it persistently first.", "id")
    if vm["state"] in ("paused", "suspended", "crashed"):
        yield Problem(f"the VM is {vm['state']}.", "Resume it, or shut it down.", "id")
    if vm["saved"]:
        yield Problem("the VM has a managed save image, which cannot be moved.", "Start the VM, or remove the image (virsh managedsave-remove).", "id")
    if vm["snapshots"]:
        yield Problem("the VM has snapshots, which cannot be moved.", "Remove them first (vm_snapshot with state: absent).", "id")
    for device in vm["passed"]:
        yield Problem(f"the VM uses a {device} of the source.", "Detach it first.", "id")
    for reason in vm["unfit"]:
        yield Problem(f"{reason}.", "Move it into a storage pool of type dir first, or detach it.", "id")
    for path in vm["only_live"]:
        yield Problem(
            f"{path} is attached only in the live or only in the persistent configuration.", "Restart the VM, or change both configurations to match.", "id"
        )


def _of_the_host(spec: MoveSpec, vm: Facts, there: Facts) -> t.Iterator[Problem]:
    name, path = spec.destination.name, "destination.host"
    if there.get("reason") is not None:
        yield Problem(f"{name} is not usable as a virt host for this VM: {there['reason']}", "Run the role virt_host on it first.", path)
        return
    if vm["host"]["name"] == there["name"] and vm["host"]["uuid"] == there["host"]["uuid"]:
        yield Problem(f"{name} is the source itself.", "Set another host as destination.", path)
    missing = [tool for tool in ("rsync", *(("qemu-img",) if vm["type"] != "lxc" else ())) if not there["tools"].get(tool)]
    if missing:
        yield Problem(f"{', '.join(missing)} is missing on {name}.", "Install the missing packages there.", TOOLS_PATH)
    if not vm["rsync"]:
        yield Problem("rsync is missing on the source.", "Install rsync.", TOOLS_PATH)
    yield from cannot_run(name, vm, there, path)
    for folder, pool in vm["pools"].items():
        if folder not in there["pools"]:
            yield Problem(f"{name} has no active storage pool at {folder} (pool {pool} on the source).", "Create it there first (role virt_host).", path)
        elif there["pools"][folder].get("unmounted"):
            point = there["pools"][folder]["unmounted"]
            yield Problem(f"the storage pool at {folder} of {name} is on the file system of {point}, which is not mounted.", "Mount it there first.", path)


def cannot_run(name: str, vm: Facts, there: Facts, path: str) -> t.Iterator[Problem]:
    """Yield why a host cannot run a VM at present, apart from its disks and from other VMs.

    :arg name: of the host; ``vm`` are at least the requirements of the VM (``_move.io_look``), and whether it is to run.
    """
    if vm["arch"] and there["arch"] != vm["arch"] and vm["type"] != "qemu":
        yield Problem(f"{name} has the architecture {there['arch']}, the VM has {vm['arch']}.", "Use a host with the same architecture.", path)
    if there["machine"]:
        yield Problem(f"{name} does not support this VM: {there['machine']}.", "Use the same version of QEMU on both hosts.", path)
    for kind, what in (("bridges", "bridge"), ("links", "link")):
        for each in vm[kind]:
            if each not in there[kind]:
                yield Problem(f"{name} has no {what} {each}.", "Create it there first (role virt_host).", path)
    for each in vm["networks"]:
        if not there["networks"].get(each):
            yield Problem(f"{name} has no active network {each}.", "Define and start it there first.", path)
    if vm["active"] and there["memory_available"] < vm["memory"]:
        yield Problem(
            f"{name} has {size_text(there['memory_available'])} of memory available, the VM needs {size_text(vm['memory'])}.", "Free memory there.", path
        )


def _of_the_names(vm: Facts, there: Facts) -> t.Iterator[Problem]:
    from_this_move = arriving(there)
    domain = there["domain"]
    if there["state"] in (MOVING, MOVED):
        yield Problem(
            f"the destination still has the old copy of the VM, which was moved from there to {there['to']}.",
            "Confirm that move first: run vm_move with state: confirmed on the destination.",
            "destination.host",
        )
    elif domain is not None and (domain["active"] or not from_this_move):
        yield Problem(
            f"the VM already exists at the destination ({domain['name']}, {domain['state']}).",
            "Find out which of the two domains is the valid one, and remove the other.",
            "destination.host",
        )
    elif domain is None and there["owns"]:
        yield Problem(
            "the destination has a record that it has the VM, whose disks were kept when it was removed there.",
            f"Find out which disks are valid. If those at the destination are not, remove them and /etc/reduced.footprint/vms/{vm['uuid']}.json there.",
            "destination.host",
        )
    if there["name_taken"]:
        yield Problem(f"another domain at the destination has the name {vm['name']} (UUID {there['name_taken']}).", "Rename or remove it.", "destination.host")
    for mac, name in there["macs_taken"].items():
        yield Problem(f"the domain {name} at the destination has the MAC {mac}.", "Change the MAC of one of the two domains.", "destination.host")
    if domain is not None:
        # already reported
        return
    for item in items_of(vm):
        # what arrived with an earlier attempt is removed
        if item.path in there["existing"] and item.path not in there["arrived"] and not item.base:
            yield Problem(f"{item.path} already exists at the destination.", _SHARED, "destination.host")


def _of_the_space(vm: Facts, there: Facts) -> t.Iterator[Problem]:
    for item in items_of(vm):
        if item.base and item.path in there["existing"] and item.kind == "file" and there["existing"][item.path] != vm["sizes"].get(item.path):
            yield Problem(
                f"the base image {item.path} at the destination has different content.",
                "Copy the image of the source to the destination, or rename one of them.",
                "destination.host",
            )
    for folder, needed in needed_bytes(vm, there).items():
        pool = there["pools"].get(folder)
        if pool is not None and pool["available"] < needed:
            yield Problem(
                f"the pool {pool['name']} at the destination has {size_text(pool['available'])} available, the VM needs {size_text(needed)}.",
                "Free space, or enlarge the pool.",
                "destination.host",
            )


def needed_bytes(vm: Facts, there: Facts) -> dict[str, int]:
    """Return the bytes still to copy, by pool folder; base images in a subfolder count for the pool."""
    needed: dict[str, int] = {}
    for item in items_of(vm):
        folder = max((each for each in vm["pools"] if item.path.startswith(f"{each}/")), key=len, default=os.path.dirname(item.path))
        present = item.base and item.path in there["existing"]
        needed[folder] = needed.get(folder, 0) + (0 if present else max(0, item.size - there["half"].get(item.path, 0)))
    return needed


def return_problems(items: t.Iterable[Item], there: Facts, name: str) -> list[Problem]:
    """Return the obstacles of a return with all data: only the files that were moved are copied back.

    :arg there: where the VM has its data at the destination (``_move.io_look.written``).
    """
    moved, now = {item.path for item in items if not item.base}, set(there["paths"])
    pairs = (("new", (now - moved).union(there["layers"])), ("missing", moved - now))
    differing = [f"{what} {', '.join(sorted(paths))}" for what, paths in pairs if paths]
    problems = []
    if differing:
        problems.append(
            Problem(
                f"the files of the VM on {name} are not those that were moved there: {'; '.join(differing)}.",
                "There, merge the files that a snapshot added (virsh blockcommit --active --pivot), attach what is missing and detach what is new. "
                f"To keep these files instead, complete the move (state: moved, then confirmed), and move the VM back with a new move from {name}.",
                "state",
            )
        )
    if there["snapshots"]:
        problems.append(Problem(f"the VM has snapshots on {name}, which cannot be moved.", "Remove them there first (vm_snapshot, absent).", "state"))
    if there["saved"]:
        hint = "Start the VM there, or remove the image (virsh managedsave-remove)."
        problems.append(Problem(f"the VM has a managed save image on {name}, which cannot be moved.", hint, "state"))
    return problems


def added_files(items: t.Iterable[Item], there: Facts) -> list[str]:
    """The files, folders and devices of the VM at the destination that were not moved there; a disk without a path has no file."""
    found = {*there["paths"], *there["layers"]} - {item.path for item in items}
    return sorted(path for path in found if path.startswith("/"))


def arriving(there: Facts) -> bool:
    """Whether the destination has data of an earlier attempt of this move."""
    return there.get("state") == ARRIVING


def live_blockers(vm: Facts, there: Facts) -> list[str]:
    """Return the reasons against a live migration; empty if it is possible."""
    if vm["type"] == "lxc":
        return ["containers cannot be migrated live"]
    if vm["state"] != "running":
        return ["the VM is not running"]
    here, other = vm["host"], there["host"]
    reasons = []
    if vm["uri"] != _QEMU:
        reasons.append(f"its connection URI is {vm['uri']}, not {_QEMU}")
    if here["uuid"] == other["uuid"]:
        reasons.append("both hosts have the same host UUID (set host_uuid_source = \"machine-id\" in libvirtd.conf on both)")
    if min(here["libvirt"], other["libvirt"]) < _LEAST_LIBVIRT:
        reasons.append("libvirt is older than 6.8 on one of the hosts")
    if here["libvirt"] > other["libvirt"] or (here["hypervisor"] or 0) > (other["hypervisor"] or 0):
        reasons.append("libvirt or QEMU is older at the destination")
    passed = vm["cpu_mode"] in ("host-passthrough", "maximum")
    if passed and vm["type"] == "kvm" and here["cpu"] != other["cpu"]:
        reasons.append(f"its CPU is {vm['cpu_mode']} and the hosts' CPUs differ")
    if passed and vm["type"] == "qemu" and here["hypervisor"] != other["hypervisor"]:
        reasons.append(f"its CPU is {vm['cpu_mode']} and the emulators differ")
    if there["cpu"]:
        reasons.append(f"its CPU is not supported at the destination ({there['cpu']})")
    if vm["changed"]:
        reasons.append("its changed definition takes effect only after a restart")
    return reasons


def choose(method: str, reasons: t.Sequence[str]) -> str:
    """Choose the method of the move."""
    if method == LIVE and reasons:
        raise RefusedError(f"the VM cannot be moved live: {'; '.join(reasons)}.", "method", "Use method: copy or method: auto.")
    return COPY if method == COPY or method == AUTO and reasons else LIVE


def copied(items: t.Iterable[Item], method: str) -> list[Item]:
    """The items that are copied as files: all, or those that libvirt does not migrate."""
    return [item for item in items if method == COPY or not item.carried]


def mirrored(items: t.Iterable[Item]) -> list[Item]:
    """The disks that libvirt mirrors to the destination while the guest runs."""
    return [item for item in items if item.carried == DISK]


def resume_phase(journal: model_journal.MoveJournal, here: str | None, there: str | None) -> tuple[str, str | None]:
    """Return the phase at which a worker starts, and the reason if an earlier worker was interrupted.

    Before the switch the VM is the copy on the source, whatever has arrived at the destination. The migration of
    a guest is complete only if its domain ended here with the reason "migrated" and exists at the destination.

    :arg here: state of the domain here, if the move has already changed it (``_move.io_live.domain_state``).
    :arg there: its state at the destination, for a live migration.
    """
    if journal.switched:
        unfinished = next((phase for phase in (model_journal.SWITCH, model_journal.START) if not journal.finished(phase)), model_journal.SETTLE)
        return unfinished, "the VM was already switched to the destination"
    if here is None:
        return model_journal.PREFLIGHT, None
    if journal.method == LIVE:
        if here == "left" and there in ("paused", "running"):
            return model_journal.SWITCH, f"the domain on the source ended by its migration and is {there} at the destination"
        return model_journal.PREFLIGHT, f"the domain is {here} on the source and {there} at the destination, so the VM is still on the source"
    if here == "off":
        order = (model_journal.STOP, model_journal.COPY, model_journal.VERIFY, model_journal.PLACE)
        unfinished = next((phase for phase in order if not journal.finished(phase)), model_journal.SWITCH)
        return unfinished, "the VM is off on the source and not yet switched to the destination"
    return model_journal.PREFLIGHT, f"the domain is {here} on the source"


def is_off(journal: model_journal.MoveJournal, action: str) -> bool:
    """Whether an unfinished move or return may have left the VM off on both hosts, or paused, so that only its worker starts it again."""
    if action == model_journal.CONFIRMED:
        return False
    held = journal.facts.get("held") or {}
    if not journal.switched and (journal.facts.get("held") is None or "seconds" in journal.downtime):
        # it was not stopped, or runs here again
        return False
    if journal.going == model_journal.RETURNED:
        # stopped at the destination, and not yet released here
        return bool(held.get("running", True)) or journal.facts.get("was") == "running"
    # the downtime ends when it runs there
    return bool(held.get("running")) and "seconds" not in journal.downtime


def waiting_text(host: str, unanswered: str) -> str:
    """Return the reason of a worker that waits for a host.

    :arg unanswered: the message of the request that was not answered.
    """
    return (
        f"waiting for {host}, which must answer before the VM can run again; it may be off on both servers: {unanswered.rstrip('.')}. "
        f"The worker continues as soon as {host} answers. If the one-time key has expired (24 h without an answer), run the same again, which renews it. "
        f"If {host} is off for good, use state: returned with destination_lost: {host} and discard_changes: true."
    )
