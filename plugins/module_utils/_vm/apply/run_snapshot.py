# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create, revert or remove a snapshot of a VM, unless it would harm the VM or its copies."""

from __future__ import annotations

import contextlib
import re
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists, io_snapshots
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_look import Seen
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner

PRESENT, REVERTED, ABSENT = STATES = ("present", "reverted", "absent")
_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class SnapshotRequest(t.NamedTuple):
    """The options of the module."""

    cluster: str
    id: str
    snapshot: str
    state: str = PRESENT
    description: str = ""
    uri: str | None = None
    lock_timeout: int = 300


def change(request: SnapshotRequest, *, check_mode: bool, connect: t.Callable[[str], DomainHost] = DomainHost) -> dict[str, t.Any]:
    """Bring a snapshot to the requested state; returns the snapshots of the VM."""
    if not _NAME.match(request.snapshot):
        raise InputError(f"{request.snapshot!r} is not a valid name.", "snapshot", "Use letters, digits and ._- only.")
    if request.uri and urllib.parse.urlsplit(request.uri).netloc:
        # whether a VM is moved or copied is recorded on its server only
        raise InputError("is another host.", "uri", "Run the module on that host.")
    with contextlib.ExitStack() as stack:
        if not check_mode:
            stack.enter_context(host_lock("domains", request.lock_timeout))
        host, seen = _find(request, connect, stack)
        before = io_snapshots.listed(host, seen.record.uuid)
        exists = request.snapshot in [each["name"] for each in before]
        changed = exists if request.state == ABSENT else not exists or request.state == REVERTED
        if request.state == REVERTED and not exists:
            names = ", ".join(each["name"] for each in before) or "none"
            raise InputError(f"{request.snapshot} is not a snapshot of the VM (snapshots: {names}).", "snapshot", "Use one of its snapshots.")
        if changed:
            reasons = list(_reasons(request, seen, seen.record.uuid in io_domain_lists.kept(host).managed_saves))
            if reasons:
                raise RefusedError(f"the VM {seen.record.name} cannot be changed to the state {request.state} of a snapshot: {'; '.join(reasons)}.", "state")
            if not check_mode:
                _apply(host, seen.record.uuid, request)
        after = before if check_mode or not changed else io_snapshots.listed(host, seen.record.uuid)
        return {"changed": changed, "snapshots": after, "diff": _diff(request, before, changed)}


def _find(request: SnapshotRequest, connect: t.Callable[[str], DomainHost], stack: contextlib.ExitStack) -> tuple[DomainHost, Seen]:
    for driver in io_domain_lists.drivers([request.uri] if request.uri else (), connect=connect):
        host = stack.enter_context(driver)
        for seen in map(Seen, host.domains()):
            if seen.owned and (seen.owned.cluster, seen.owned.id) == (request.cluster, request.id):
                return host, seen
    hint = "Run it on the server of the VM; vm_info lists those of a server."
    raise InputError(f"no VM of the cluster {request.cluster} on this host has the id {request.id}.", "id", hint)


def _reasons(request: SnapshotRequest, seen: Seen, saved: bool) -> t.Iterator[str]:
    """Yield why a snapshot must not be changed."""
    record = io_owner.away(seen.record.uuid)
    if record is not None:
        yield f"it is {record.state} (server {record.where}), see vm_move"
    if seen.config.get("type") == "lxc":
        yield "containers have no snapshots"
        return
    if request.state == ABSENT:
        return
    if io_owner.is_guarded(seen.record.uuid) or io_owner.is_clustered(seen.record.uuid):
        yield "it has copies on a standby, which would no longer be those of its disks"
    if saved:
        yield "it has saved memory, so start it first"
    if request.state == PRESENT:
        yield from _obstacles(seen.config)


def _obstacles(document: t.Any) -> t.Iterator[str]:
    """Yield the parts of a definition that libvirt does not include in a snapshot, or that it refuses."""
    disks = [disk for disk in document.iterfind("devices/disk") if disk.get("device", "disk") in ("disk", "lun") and disk.find("readonly") is None]
    for disk in disks:
        driver, target = disk.find("driver"), disk.find("target").get("dev")
        form = driver.get("type", "raw") if driver is not None else "raw"
        if form != "qcow2":
            yield f"its disk {target} is {form}, not qcow2"
        if disk.find("shareable") is not None:
            yield f"its disk {target} is shared with other VMs"
    if not disks:
        yield "it has no disk"
    nvram = document.find("os/nvram")
    if document.find("os/loader[@type='pflash']") is not None and (nvram is None or nvram.get("format") != "qcow2"):
        yield "libvirt has no snapshots of UEFI variables"
    if document.find("devices/tpm") is not None:
        yield "the state of its emulated TPM would not be included"


def _apply(host: DomainHost, uuid: str, request: SnapshotRequest) -> None:
    if request.state == PRESENT:
        io_snapshots.create(host, uuid, request.snapshot, request.description)
    elif request.state == REVERTED:
        io_snapshots.revert(host, uuid, request.snapshot)
    else:
        io_snapshots.remove(host, uuid, request.snapshot)


def _diff(request: SnapshotRequest, before: t.Sequence[t.Mapping[str, t.Any]], changed: bool) -> dict[str, str]:
    """Return the snapshots before and after, one a line, the current one with a mark."""
    names = [each["name"] for each in before]
    current = next((each["name"] for each in before if each["current"]), None)
    after, then = names, current
    if changed:
        after = [*names, request.snapshot] if request.state == PRESENT else [name for name in names if request.state != ABSENT or name != request.snapshot]
        then = request.snapshot if request.state != ABSENT else current
    text = [("".join(f"{name}{' (current)' if name == mark else ''}\n" for name in all_names)) for all_names, mark in ((names, current), (after, then))]
    if request.state == REVERTED:
        text[0] += "data written since\n"
    return {"before": text[0], "after": text[1]}
