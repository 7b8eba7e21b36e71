# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps of a move until the switch to the destination, and their rollback."""

from __future__ import annotations

import functools
import secrets
import time

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel, io_live, io_look, io_place, plan_move, run_channel
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_place import partial
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import FAILED, MIGRATE, STOP
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import LIVE, Item
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import FORMER, INCOMING, OWNER

# hashing and comparing large disks takes long
_LONG = 24 * 3600.0


def preflight(context: Context) -> None:
    """Gather the facts of both hosts and check for obstacles; changes nothing except for leftovers of an earlier attempt at the destination."""
    journal, spec = context.journal, context.spec
    context.store.reserve()
    found = io_look.find(spec.cluster, spec.id, vm_uuid(spec.cluster, spec.id), spec.uri)
    if found is None:
        raise BackendError(f"the VM {spec.id} of the cluster {spec.cluster} does not exist on this host.")
    journal.facts["vm"] = vm = io_look.describe(found[0], found[1].uuid)
    if context.await_permit():
        # the guard has started it
        journal.facts["vm"] = vm = io_look.describe(found[0], found[1].uuid)
    journal.facts["from"], journal.facts["to"] = vm["host"]["name"], spec.destination.name
    # from now on nothing else changes, copies or starts the VM on another server
    context.change("begun", token=secrets.token_hex(8), to=spec.destination.name)
    there = context.ask("look", vm=vm)
    if plan_move.arriving(there) and (there["domain"] is not None or there["arrived"]):
        # left by an earlier attempt, and never resumed
        clear_there(context)
        there = context.ask("look", vm=vm)
    problems = plan_move.find_problems(spec, vm, there)
    journal.problems = [each._asdict() for each in problems]
    if problems:
        raise RefusedError(model_problem.as_text(problems))
    journal.live_blockers = plan_move.live_blockers(vm, there)
    journal.method = plan_move.choose(spec.method, journal.live_blockers)
    if not (journal.facts.get("held") or {}):
        journal.facts["running"] = vm["active"]
    context.log(f"{journal.method}: {'; '.join(journal.live_blockers) or 'live migration is possible'}")


def receive(context: Context) -> None:
    """Reserve the VM at the destination, and verify that base images of the same name have the same content."""
    if context.journal.method == LIVE:
        context.change("begun", token=context.record.token or "", to=context.spec.destination.name, live=True)
    answer = context.ask("receive", timeout=_LONG, items=[item._asdict() for item in context.items])
    for path, there in answer["hashes"].items():
        if io_place.content_hash(path) != there:
            raise RefusedError(f"the base image {path} at the destination has different content.", hint="Copy the image of the source, or rename one of them.")
    context.journal.facts["bases"] = sorted(answer["hashes"])


def precopy(context: Context) -> None:
    """Copy while the VM runs: completely for files that do not change, as preparation of the last copy for all others.

    A file that the guest writes during the copy may be inconsistent; the last copy after the shutdown corrects
    it, and the comparison by content verifies it.
    """
    spec, journal = context.spec, context.journal
    items = [item for item in _copied(context) if not (item.base and item.path in journal.facts["bases"])]
    last = None
    for number in range(max(1, spec.max_passes)):
        began = time.monotonic()
        for item in items:
            _push(context, item, "live" if context.vm["active"] else "copy", running=not item.base and context.vm["active"])
        seconds = time.monotonic() - began
        items = [item for item in items if not item.base]
        if not items or not context.vm["active"] or seconds <= spec.max_downtime or (last is not None and seconds > last * 0.8):
            break
        last = seconds
    for item in _copied(context):
        # files that the VM does not write are compared before the downtime
        if item.base and item.path not in journal.facts["bases"] or journal.method == LIVE:
            if not (item.base and item.path in journal.facts["bases"]):
                context.copier.compare(item, str(partial(item.path)))


def _copied(context: Context) -> list[Item]:
    return plan_move.copied(context.items, context.journal.method or "")


def _push(context: Context, item: Item, kind: str, *, running: bool) -> None:
    done = context.copier.push(
        item,
        str(partial(item.path)),
        running=running,
        progress=lambda number, percent, rate: context.progress(path=item.path, bytes=number, percent=percent, rate=rate),
    )
    context.journal.passes.append({"path": item.path, "kind": kind, "seconds": done.seconds, "files": done.files, "bytes": done.bytes})


def stop(context: Context) -> None:
    """Shut the VM down, and prevent another start here; the downtime starts."""
    _hold(context)
    context.journal.downtime["started"] = time.time()
    context.save()
    with host_lock("domains", 300), DomainHost(context.uri) as host:
        record = host.domain(context.uuid)
        if record is not None and record.active:
            host.shutdown(context.uuid, context.spec.shutdown_timeout, context.spec.force)
        record = host.domain(context.uuid)
    context.change("stopped", running=record is not None and record.active)


def _hold(context: Context) -> None:
    """Record the state to which a rollback returns, then disable autostart."""
    # it may have been used since
    context.store.reserve()
    facts = context.journal.facts
    facts["held"] = facts.get("held") or {"autostart": context.vm["autostart"], "running": facts["running"]}
    context.save()
    context.keep_off()


def copy(context: Context) -> None:
    """Make the last copy, after the shutdown of the VM."""
    for item in _copied(context):
        if not item.base:
            _push(context, item, "final", running=False)


def verify(context: Context) -> None:
    """Read both sides and compare every byte."""
    for item in _copied(context):
        if not item.base:
            context.copier.compare(item, str(partial(item.path)))
    context.journal.verified = True


def place(context: Context) -> None:
    """Rename the received files at the destination to their final paths; disks that libvirt mirrors are still empty."""
    live = context.journal.method == LIVE
    items = [item for item in context.items if item.path not in context.journal.facts["bases"]]
    chosen = [*plan_move.copied(items, context.journal.method or ""), *(plan_move.mirrored(items) if live else [])]
    # base images first: an empty disk with a backing file refers to them
    chosen.sort(key=lambda item: not item.base)
    bases = [item._asdict() for item in chosen if item.base]
    context.ask("place", timeout=_LONG, items=bases)
    context.ask("place", timeout=_LONG, items=[item._asdict() for item in chosen if not item.base], empty=live)
    if not live:
        context.journal.facts["there"] = context.ask("define", xml=context.definition(), token=context.record.token)["record"]


def migrate(context: Context) -> None:
    """Migrate memory and disks with libvirt, then resume the VM at the destination."""
    definition = context.definition()
    _hold(context)
    spec = context.spec
    channel = context.ask("channel")
    if not channel["socket"]:
        raise BackendError("the socket of libvirt does not exist at the destination.", hint="Start libvirtd or virtqemud there.")
    with DomainHost(context.uri) as here:
        qemu = io_channel.owner(here)
    command = functools.partial(context.remote.program, run_channel.MODULE)
    with io_channel.Tunnel(context.remote.name, context.vm["name"], command, qemu) as tunnel, DomainHost(tunnel.uri) as there:
        done = io_live.migrate(
            context.uri,
            context.uuid,
            tunnel,
            definition=definition,
            bandwidth_limit=spec.bandwidth_limit,
            max_downtime=spec.max_downtime,
            timeout=spec.live_timeout,
            progress=lambda job: context.progress(processed=job.get("data_processed"), remaining=job.get("data_remaining")),
        )
        # the guest is paused since its last memory pages were sent
        context.journal.downtime["started"] = time.time() - done.get("downtime", 0) / 1000
        context.journal.passes.append(
            {"kind": "migration", "seconds": done.get("time_elapsed", 0) / 1000, "files": 0, "bytes": done.get("data_processed", 0), "path": None}
        )
        record = there.domain(context.uuid)
        arrived(context, "gone" if record is None else record.state)
        # the following steps extend the downtime, so they use the open connection; the next phases repeat them if necessary
        _decide_paused(context)
        there.resume(context.uuid)
        context.journal.downtime["seconds"] = round(time.time() - context.journal.downtime["started"], 3)


def _decide_paused(context: Context) -> None:
    """Switch while the guest is paused; on a full disk, wait for space until a guest that starts again on the source is the smaller evil.

    :raises OSError: the file system stays full.
    """
    until = time.monotonic() + context.spec.start_timeout
    while not context.journal.switched or context.record.role == OWNER:
        try:
            context.decide(switched=True)
            hand_over(context)
        except OSError:
            if time.monotonic() > until:
                context.decide(switched=False)
                raise
            time.sleep(1)


def arrived(context: Context, there: str) -> None:
    """Verify that the domain ended here by its migration and exists at the destination; only then is that copy the VM."""
    here = io_live.domain_state(context.uri, context.uuid)
    if here != "left" or there not in ("paused", "running"):
        raise BackendError(f"after the migration the domain is {here} on the source and {there} at the destination.")
    # QEMU mirrored every block, and libvirt on both hosts reports the migration as complete
    context.journal.verified = True


def switch(context: Context) -> None:
    """Switch: from now on the VM is the copy at the destination."""
    context.decide(switched=True)
    hand_over(context)
    context.keep_off()


def hand_over(context: Context) -> None:
    """Give the VM to the destination, in the record here."""
    record, live = context.record, context.journal.method == LIVE
    if record.role == OWNER:
        # a live migration is complete when libvirt says so
        there = record._replace(role=INCOMING).values() if live else context.journal.facts["there"]
        context.change("handed over", {"record": there}, complete=live)


def roll_back(context: Context, reason: str) -> None:
    """Roll back before the switch: restore the VM on the source, then discard the copy, which never ran.

    A worker that is killed, or cannot start the VM, does this again.

    :raises FootprintError: it cannot be started on the source.
    """
    journal = context.journal
    context.log(f"{reason}; rolled back, the VM stays on the source")
    journal.facts["failed"] = reason
    context.save()
    if "vm" in journal.facts:
        restore(context)
    journal.facts["failed"] = None
    journal.state, journal.reason, journal.ended = FAILED, reason, time.time()
    if "started" in journal.downtime:
        journal.downtime["seconds"] = round(time.time() - journal.downtime["started"], 3)
    context.save()


def restore(context: Context) -> None:
    """Let the VM run here again, as before the move, then discard the copy at the destination."""
    record = context.record
    held = context.journal.facts.get("held")
    if record.role == FORMER and not record.is_taken:
        # given to the destination, which could not start it, and gave it back
        context.change("taken", context.ask("state"))
    if held:
        io_live.domain_state(context.uri, context.uuid)
        context.release(bool(held["running"]))
        context.journal.facts["held"] = None
    elif record.role == OWNER:
        context.change("cancelled")
    try:
        clear_there(context)
    except FootprintError as error:
        context.journal.warnings.append(f"Copied data is left at the destination: {error}")


def clear_there(context: Context) -> None:
    """Remove the copy at the destination, which never ran."""
    if not plan_move.arriving(context.ask("look", vm=context.vm)):
        # nothing was copied to the destination
        return
    context.ask("stop", cut=True)
    context.ask("undefine")
    items = [item for item in context.items if item.path not in context.journal.facts.get("bases", [])]
    left = context.ask("discard", timeout=_LONG, items=[item._asdict() for item in items], arrived=True)["left"]
    if left:
        context.journal.warnings.append(f"Not removed at the destination, because it is not known to have arrived with this move: {', '.join(left)}")
    context.ask("settle", items=[])


def touched(context: Context) -> bool:
    """Whether the VM was fenced here, so that its state on both hosts must be read."""
    return bool(context.journal.facts.get("held")) and any(phase in context.journal.phases for phase in (STOP, MIGRATE))
