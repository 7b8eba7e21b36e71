# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What stands in the way of a move, whether it can be live, and what is copied. No I/O.

The mappings are those of ``_move.io_look``.
"""

from __future__ import annotations

import os.path
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import COPY as COPY_PHASE
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import PLACE, PREFLIGHT, SETTLE, START, SWITCH, VERIFY, MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import AUTO, COPY, DISK, LIVE, Item, MoveSpec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import ARRIVING, MOVED, MOVING

Facts = t.Mapping[str, t.Any]

# the first libvirt that takes disks at an address of one's choice
_LEAST_LIBVIRT = 6_008_000
_QEMU = "qemu:///system"


def items_of(vm: Facts) -> list[Item]:
    """The files and folders of a VM."""
    return [Item(**each) for each in vm["items"]]


def find_problems(spec: MoveSpec, vm: Facts, there: Facts) -> list[Problem]:
    """All that stands in the way of any move, with what fixes it."""
    problems = [*_of_the_vm(vm), *_of_the_host(spec, vm, there)]
    if there.get("reason") is None:
        problems += [*_of_the_names(vm, there), *_of_the_space(vm, there)]
    return problems


def _of_the_vm(vm: Facts) -> t.Iterator[Problem]:
    if vm["id"] is None:
        yield Problem(f"the domain {vm['name']} does not say that it is ours.", "Take it over first, with vm_define and adopt: true.", "id")
    if not vm["persistent"]:
        yield Problem("the VM has no definition and would be gone with its stop.", "Define it first.", "id")
    if vm["state"] in ("paused", "suspended", "crashed"):
        yield Problem(f"the VM is {vm['state']}.", "Let it run, or shut it down.", "id")
    if vm["saved"]:
        yield Problem("the VM is off with its memory saved, which stays on this host.", "Start it, or drop what was saved.", "id")
    if vm["snapshots"]:
        yield Problem("the VM has snapshots, which libvirt keeps on this host.", "Delete them first (virsh snapshot-delete).", "id")
    for device in vm["passed"]:
        yield Problem(f"the VM has a {device} of this host.", "Detach it first.", "id")
    for reason in vm["unfit"]:
        yield Problem(f"{reason}.", "Move it into a storage pool of type dir first, or detach it.", "id")
    for path in vm["only_live"]:
        yield Problem(f"{path} is attached either until the VM's stop or from its next start on.", "Settle it: stop the VM, or attach it for good.", "id")


def _of_the_host(spec: MoveSpec, vm: Facts, there: Facts) -> t.Iterator[Problem]:
    name, path = spec.destination.name, "destination.host"
    if there.get("reason") is not None:
        yield Problem(f"{name} is no virt host for this VM: {there['reason']}", "Run the role virt_host there first.", path)
        return
    if vm["host"]["name"] == there["name"] and vm["host"]["uuid"] == there["host"]["uuid"]:
        yield Problem(f"{name} is this host itself.", "Name the host the VM is to go to.", path)
    missing = [tool for tool in ("rsync", *(("qemu-img",) if vm["type"] != "lxc" else ())) if not there["tools"].get(tool)]
    if missing:
        yield Problem(f"{name} lacks {', '.join(missing)}.", "Install what is missing there.", TOOLS_PATH)
    if not vm["rsync"]:
        yield Problem("this host lacks rsync.", "Install it.", TOOLS_PATH)
    if vm["arch"] and there["arch"] != vm["arch"] and vm["type"] != "qemu":
        yield Problem(f"{name} has the architecture {there['arch']}, the VM {vm['arch']}.", "Use a host of the same architecture.", path)
    if there["machine"]:
        yield Problem(f"{name} cannot make this VM: {there['machine']}.", "Use the same version of QEMU on both hosts.", path)
    for kind, what in (("bridges", "bridge"), ("links", "link")):
        for each in vm[kind]:
            if each not in there[kind]:
                yield Problem(f"{name} has no {what} {each}.", "Make it there first (role virt_host).", path)
    for each in vm["networks"]:
        if not there["networks"].get(each):
            yield Problem(f"{name} has no active network {each}.", "Define and start it there first.", path)
    for folder, pool in vm["pools"].items():
        if folder not in there["pools"]:
            yield Problem(f"{name} has no active storage pool at {folder}, as the pool {pool} is here.", "Make it there first (role virt_host).", path)
        elif there["pools"][folder].get("unmounted"):
            point = there["pools"][folder]["unmounted"]
            yield Problem(f"the storage pool at {folder} of {name} is on the file system of {point}, which is not mounted.", "Mount it there first.", path)
    if vm["active"] and there["memory_available"] < vm["memory"]:
        yield Problem(
            f"{name} has {size_text(there['memory_available'])} of memory left, the VM needs {size_text(vm['memory'])}.", "Free some there.", path
        )


def _of_the_names(vm: Facts, there: Facts) -> t.Iterator[Problem]:
    ours = arriving(there)
    note, domain = there["note"], there["domain"]
    if note is not None and note["state"] in (MOVING, MOVED):
        yield Problem(
            f"the VM's old copy is still there; it was moved from there to {note['to']}.",
            "Confirm that move first: vm_move state: confirmed, there.",
            "destination.host",
        )
    elif domain is not None and (domain["active"] or not ours):
        yield Problem(
            f"the VM exists there already ({domain['name']}, {domain['state']}).",
            "Find out which one is the right one before anything else.",
            "destination.host",
        )
    if there["name_taken"]:
        yield Problem(f"another domain there has the name {vm['name']} (UUID {there['name_taken']}).", "Rename or remove it.", "destination.host")
    for mac, name in there["macs_taken"].items():
        yield Problem(f"the domain {name} there has the MAC {mac}.", "Give one of the two another MAC.", "destination.host")
    if ours or domain is not None:
        # what an earlier attempt left there is made new; the rest was told
        return
    for item in items_of(vm):
        if item.path in there["existing"] and not item.base:
            yield Problem(f"{item.path} exists there already.", "Remove it there, if no VM needs it.", "destination.host")


def _of_the_space(vm: Facts, there: Facts) -> t.Iterator[Problem]:
    for item in items_of(vm):
        if item.base and item.path in there["existing"] and item.kind == "file" and there["existing"][item.path] != vm["sizes"].get(item.path):
            yield Problem(f"there is another image {item.path} on the other host.", "Bring the right one there, or rename one of them.", "destination.host")
    for folder, needed in needed_bytes(vm, there).items():
        pool = there["pools"].get(folder)
        if pool is not None and pool["available"] < needed:
            yield Problem(
                f"the pool {pool['name']} there has {size_text(pool['available'])} left, the VM needs {size_text(needed)}.",
                "Free some, or enlarge the pool.",
                "destination.host",
            )


def needed_bytes(vm: Facts, there: Facts) -> dict[str, int]:
    """Bytes still to come, by folder of a pool; an image below it counts to it."""
    needed: dict[str, int] = {}
    for item in items_of(vm):
        folder = max((each for each in vm["pools"] if item.path.startswith(f"{each}/")), key=len, default=os.path.dirname(item.path))
        there_already = item.base and item.path in there["existing"]
        needed[folder] = needed.get(folder, 0) + (0 if there_already else max(0, item.size - there["half"].get(item.path, 0)))
    return needed


def arriving(there: Facts) -> bool:
    """Whether an earlier attempt of this very move left something there."""
    note = there.get("note")
    return note is not None and note["state"] == ARRIVING


def live_blockers(vm: Facts, there: Facts) -> list[str]:
    """Why the VM cannot go while it runs; empty when it can."""
    if vm["type"] == "lxc":
        return ["a container cannot be moved while it runs"]
    if vm["state"] != "running":
        return ["the VM does not run"]
    here, other = vm["host"], there["host"]
    reasons = []
    if vm["uri"] != _QEMU:
        reasons.append(f"its connection is {vm['uri']}, not {_QEMU}")
    if here["uuid"] == other["uuid"]:
        reasons.append("both hosts say they are the same machine (give libvirtd.conf host_uuid_source = \"machine-id\" on both)")
    if min(here["libvirt"], other["libvirt"]) < _LEAST_LIBVIRT:
        reasons.append("libvirt is older than 6.8 on one of the hosts")
    if here["libvirt"] > other["libvirt"] or (here["hypervisor"] or 0) > (other["hypervisor"] or 0):
        reasons.append("libvirt or QEMU is older there than here")
    passed = vm["cpu_mode"] in ("host-passthrough", "maximum")
    if passed and vm["type"] == "kvm" and here["cpu"] != other["cpu"]:
        reasons.append(f"its CPU is {vm['cpu_mode']} and the hosts' CPUs differ")
    if passed and vm["type"] == "qemu" and here["hypervisor"] != other["hypervisor"]:
        reasons.append(f"its CPU is {vm['cpu_mode']} and the emulators differ")
    if there["cpu"]:
        reasons.append(f"its CPU cannot be had there ({there['cpu']})")
    if vm["changed"]:
        reasons.append("it runs with its previous definition until it is restarted")
    return reasons


def choose(method: str, reasons: t.Sequence[str]) -> str:
    """How the VM goes.

    :raises RefusedError: live was asked for and cannot be.
    """
    if method == LIVE and reasons:
        raise RefusedError(f"the VM cannot be moved live: {'; '.join(reasons)}.", "method", "Use method: copy or auto.")
    return COPY if method == COPY or method == AUTO and reasons else LIVE


def copied(items: t.Iterable[Item], method: str) -> list[Item]:
    """The items that are copied as files: all, or those libvirt's own migration does not bring over."""
    return [item for item in items if method == COPY or not item.carried]


def mirrored(items: t.Iterable[Item]) -> list[Item]:
    """The disks libvirt fills at the other end while the guest runs."""
    return [item for item in items if item.carried == DISK]


def problem_text(problems: t.Sequence[Problem]) -> str:
    """All problems in one text."""
    return "Nothing was touched. " + " ".join(f"{number}. {each.message} {each.hint}" for number, each in enumerate(problems, 1))


def where_to_go_on(journal: MoveJournal, here: str | None, there: str | None) -> tuple[str, str | None]:
    """The phase a worker begins with, and why, when an earlier one was cut short.

    Before the switch the VM is the one here, whatever arrived there. Only a guest that ended here by
    its migration and stands there went over whole.

    :arg here: how the domain stands here, where it was touched already (``_move.io_live.stands``).
    :arg there: how it stands at the destination of a live move.
    """
    if journal.switched:
        return (START if not journal.finished(START) else SETTLE), "the VM was handed over"
    if here is None:
        return PREFLIGHT, None
    if journal.method == LIVE:
        if here == "left" and there in ("paused", "running"):
            return SWITCH, f"the VM ended here by its migration and is {there} there"
        return PREFLIGHT, f"the VM is {here} here and {there} there, so it is the one here"
    if here == "off":
        unfinished = next((phase for phase in (COPY_PHASE, VERIFY, PLACE) if not journal.finished(phase)), SWITCH)
        return unfinished, "the VM is off here and was not handed over"
    return PREFLIGHT, f"the VM is {here} here"
