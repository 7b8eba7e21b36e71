# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a move after the switch, its confirmation, and the return of the VM from the destination."""

from __future__ import annotations

import contextlib
import os
import pathlib
import secrets
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look, io_place, plan_move
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, MOVED as MOVED_STATE, RETURNED
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import COPY
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_steps import roll_back
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import FORMER
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import remove, remove_path
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import overlap
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_disk_places import reserved_because
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.xml_devices import needed_files

_LONG = 24 * 3600.0


class RolledBack(FootprintError):
    """The VM did not start at the destination and was rolled back to the source."""


def start(context: Context) -> None:
    """Start the VM at the destination, if it was running on the source.

    :raises RolledBack: it could not be started there, so the move was rolled back.
    :raises BackendError: it was started but is not running.
    """
    journal = context.journal
    if not journal.facts["held"]["running"]:
        return
    answer = context.ask("run", timeout=context.spec.start_timeout + 60, seconds=context.spec.start_timeout)
    if answer["error"] is None:
        journal.downtime.setdefault("started", time.time())
        journal.downtime.setdefault("seconds", round(time.time() - journal.downtime["started"], 3))
        return
    if answer["ran"] or journal.method != COPY:
        raise BackendError(f"at the destination {answer['error']}", hint="Fix the problem and run again, or move the VM back with state: returned.")
    give_up(context, f"start: at the destination {answer['error']}")
    raise RolledBack(journal.reason or "")


def give_up(context: Context, reason: str) -> None:
    """Roll back after the switch, because the VM never ran at the destination; a worker that is killed does this again."""
    context.journal.facts["failed"] = reason
    context.save()
    _begin_back(context)
    context.ask("stop", cut=True, returns=True)
    if context.ask("state")["state"] not in ("off", "gone"):
        raise BackendError(f"{reason} It cannot be stopped there either.", hint="Check the domain at the destination.")
    _take_back(context)
    roll_back(context, reason)


def _begin_back(context: Context) -> None:
    token = context.journal.facts.setdefault("back", secrets.token_hex(8))
    context.save()
    if context.record.token != token:
        # it must have taken the VM before it is asked for it
        context.change("asked back", _settle_there(context, returns=True), token=token)
    context.ask("hold", token=token)


def _take_back(context: Context) -> None:
    """Let the destination give the VM back, which is off there, and whose data are here or given up."""
    there = context.ask("hand_back")
    context.decide(switched=False)
    if context.record.role == FORMER:
        context.change("taken", there)


def settle(context: Context) -> None:
    """Complete the move: the VM belongs to the destination, the old copy stays here, off, until the move is confirmed or returned."""
    _drop_return(context)
    _settle_there(context)
    context.keep_off()


def _drop_return(context: Context) -> None:
    """Forget the token of a return that failed, before it is cancelled: a late request of it must not end the next one."""
    if context.journal.facts.pop("back", None):
        with contextlib.suppress(OSError):
            context.save()


def _settle_there(context: Context, returns: bool = False) -> dict[str, t.Any]:
    held = context.journal.facts.get("held") or {}
    return context.ask("settle", autostart=bool(held.get("autostart", context.vm["autostart"])), items=context.data, returns=returns)


def confirm(context: Context) -> None:
    """Remove the old copy.

    :raises RefusedError: the copy was not verified, the VM does not run at the destination, or a file system with the old copy is not mounted.
    """
    journal = context.journal
    # the old copy would count as removed, and be there again after the mount
    io_look.check_mounted(context.vm)
    if not journal.verified:
        raise RefusedError("the copy was never verified.", "state", "Move the VM back with state: returned, then move it again.")
    there = None
    if journal.going != CONFIRMED:
        there = context.ask("state")
        state = there["state"]
        ran = (journal.facts.get("held") or {}).get("running", True)
        if state not in (("running",) if ran else ("running", "off")):
            raise RefusedError(f"the VM is {state} at the destination, not running.", "state", "Start it there, or move it back with state: returned.")
        context.decide(going=CONFIRMED)
    if context.record.operation is not None:
        context.change("confirmed", there or context.ask("state"))
    kept = _remove_here(context)
    with host_lock("domains", 300), DomainHost(context.uri) as host:
        if host.domain(context.uuid) is not None:
            host.undefine(context.uuid)
    journal.facts["kept"] = kept


def _remove_here(context: Context) -> list[str]:
    """Remove the VM's files except for base images and files that another VM needs; returns the kept paths."""
    needed = _needed_by_others(context.uuid, context.uri)
    kept = []
    with DomainHost(context.uri) as host:
        store = VolumeStore(host)
        for item in context.items:
            if item.base:
                continue
            found = store.pool_of(item.path)
            layers = store.layers_over(item.path, os.path.dirname(item.path))
            real = os.path.realpath(item.path)
            if layers or any(overlap(real, each) for each in needed) or reserved_because(real, store.folders):
                kept.append(item.path)
            elif found is None:
                # NVRAM and TPM state
                remove_path(pathlib.Path(item.path))
            else:
                with store.locked(found[0]):
                    remove(pathlib.Path(item.path), False)
        store.refresh()
    return kept


def _needed_by_others(uuid: str, uri: str) -> set[str]:
    """Return the files that other VMs of this host need.

    :raises BackendError: that is not known, so nothing may be removed.
    """
    needed: set[str] = set()
    for host in io_domain_lists.drivers(needed=uri):
        with host:
            for record in host.domains():
                if record.uuid == uuid:
                    continue
                for text in (record.config_xml, record.live_xml):
                    for path, form in needed_files(parse(text)).items() if text else ():
                        needed.update([os.path.realpath(path), *io_disk_header.chain(path, form)])
    return needed


def return_vm(context: Context) -> None:
    """Return the VM to this host: stop it at the destination, copy its data back, start it here.

    :raises FootprintError: a step failed; before the start here the VM stays at the destination.
    """
    journal, params = context.journal, context.params
    lost, discard = bool(params.get("destination_lost")), bool(params.get("discard_changes"))
    if lost and not discard:
        raise RefusedError(
            "data that the VM wrote at the destination cannot be copied from a lost host.", "destination_lost", "Set discard_changes: true to discard it."
        )
    context.refuse_taken()
    # its disks would be created on the root file system; after the mount, the old ones would hide them
    io_look.check_mounted(journal.facts.get("vm", {}))
    if not journal.switched and journal.going == MOVED_STATE:
        # not switched yet
        roll_back(context, "return requested")
        return
    if journal.switched:
        if journal.going != RETURNED:
            context.store.reserve()
        if not lost:
            _check_there(context, discard)
            state = context.ask("state")["state"]
            # refused if the VM was moved on from there; nothing has changed then
            _begin_back(context)
            journal.facts.setdefault("was", state)
        cost = journal.downtime
        context.decide(going=RETURNED, downtime={"started": time.time()})
        if not lost:
            _stop_there(context, cost)
        try:
            # also if the domain was undefined there: its disks contain its data, and without them this fails
            if not lost and not discard:
                _fetch(context)
            journal.facts["discarded"] = discard
            if not lost:
                _take_back(context)
        except (FootprintError, OSError):
            if not lost:
                _stay_there(context, cost)
            raise
    if lost:
        context.decide(switched=False)
        if context.record.role == FORMER:
            context.change("taken over", lost=str(params["destination_lost"]))
    elif context.record.role == FORMER:
        # a worker was killed before the VM was taken
        context.change("taken", context.ask("state"))
    if not lost and io_owner.is_guarded(context.uuid):
        # its guard has no answer since a restart of this host; but the VM is off at the destination, to which it belonged
        io_owner.permit(context.uuid)
    held = journal.facts.get("held") or {}
    context.release(bool(held.get("running", True)) or journal.facts.get("was") == "running")
    journal.downtime["seconds"] = round(time.time() - journal.downtime["started"], 3)
    context.save()
    if not lost:
        _leave(context, bool(journal.facts.get("discarded")))
    journal.facts["held"] = None


def _check_there(context: Context, discard: bool) -> None:
    """Check that the data that the VM has at the destination can be copied back; nothing has changed yet.

    With ``discard`` all of it stays there, also files that were added since the move. Of a VM that was undefined there, the moved files are the data.
    """
    there = context.ask("written", known=[item.path for item in context.items])["written"]
    if there is None:
        return
    problems = plan_move.return_problems(context.items, there, context.spec.destination.name)
    if problems and not discard:
        raise RefusedError(model_problem.as_text(problems))
    context.journal.facts["added"] = plan_move.added_files(context.items, there)


def _stop_there(context: Context, cost: dict[str, t.Any]) -> None:
    """Shut the VM down at the destination; if it does not shut down, it stays there."""
    seconds = context.spec.shutdown_timeout
    try:
        context.ask("stop", timeout=seconds + 60, seconds=seconds, force=context.spec.force, returns=True)
    except BackendError:
        if context.ask("state")["state"] == "running":
            context.journal.going, context.journal.downtime = MOVED_STATE, cost
            settle(context)
        raise


def _stay_there(context: Context, cost: dict[str, t.Any]) -> None:
    """Let the VM run at the destination again, because its data cannot be copied back; if that fails as well, the next run continues the return."""
    journal = context.journal
    _drop_return(context)
    with contextlib.suppress(FootprintError, OSError):
        if journal.facts.get("was") == "running":
            answer = context.ask("run", timeout=context.spec.start_timeout + 60, seconds=context.spec.start_timeout)
            if answer["error"] is not None:
                journal.warnings.append(f"The VM was not started at the destination again: {answer['error']}")
                return
        journal.going, journal.downtime = MOVED_STATE, cost
        journal.facts.pop("was", None)
        settle(context)


def _fetch(context: Context) -> None:
    """Copy the data back and compare it by content; before it begins, the files here are in the state before the move."""
    # until it is complete they are in neither state, and must not be started
    context.journal.facts["mixed"] = True
    context.save()
    for item in context.items:
        if not item.base:
            done = context.copier.pull(item, progress=lambda number, percent, rate: context.progress(bytes=number, percent=percent, rate=rate))
            context.journal.passes.append({"path": item.path, "kind": "back", "seconds": done.seconds, "files": done.files, "bytes": done.bytes})
            context.copier.compare(item, item.path)
    # the copy at the destination is removed later, and a power loss must not change this one then
    io_place.sync(item for item in context.items if not item.base)
    context.journal.facts["mixed"] = False


def _leave(context: Context, keep: bool) -> None:
    """Remove the domain at the destination and, unless ``keep`` is set because they contain the only copy of its data, its files."""
    context.ask("undefine", keep=keep)
    if keep:
        paths = [*(item["path"] for item in context.data), *context.journal.facts.get("added", [])]
        context.journal.facts["kept"] = [f"{context.spec.destination.name}:{path}" for path in paths]
    else:
        context.ask("discard", timeout=_LONG, items=context.data)
    context.ask("settle", items=context.data if keep else [])
