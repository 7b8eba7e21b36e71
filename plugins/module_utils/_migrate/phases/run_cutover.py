# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pause: stop the services, release the address, boot the VM and check it."""

from __future__ import annotations

import secrets
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import run_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp, io_fence, run_guard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import answer_timeout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_health, io_rehearsal, run_health
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_preflight import fixup_context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import FENCE
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_rsync import full_pool
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PARKED, QUIESCED, SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, ports_of

_POLL = 0.3
ADDRESS_TIMEOUT = 60.0
# the power-on self-test of a server may take minutes
_REBOOT_TIMEOUT = 900.0


def quiesce(context: Context, lease: Lease) -> None:
    """Quiesce the source by stopping its services or by booting without them; the pause starts."""
    facts = context.journal.facts["source"]
    context.journal.downtime.setdefault("started", time.time())
    context.save()
    given = {
        "services": list(context.spec.services),
        "containers": [each._asdict() for each in context.spec.containers],
        "quiesce": context.spec.quiesce,
        "lease": context.spec.lease_timeout,
        "admin": {**{key: facts[key] for key in ("interface", "prefix", "address", "temporary_address")}, "cards": _cards(context)},
    }
    if context.spec.quiesce == MAINTENANCE_BOOT and context.journal.facts.get("rebooting"):
        # an earlier worker rebooted the source; it does not answer before it is up
        _await_boot(context, may_serve=True)
    if context.spec.quiesce == MAINTENANCE_BOOT:
        context.journal.facts["rebooting"] = True
        context.save()
    mark = context.journal.facts.get("source_mark") or secrets.token_hex(16)
    # no copy of the source can run yet
    context.source.identity.mark = None
    answer = context.source.ask("quiesce", {**given, "new_mark": mark}, timeout=660)["state"]
    if answer["state"] not in (QUIESCED, PARKED):
        raise BackendError(f"Expected the source to be {QUIESCED}, got {answer['state']}.")
    if "stopped_at" in answer:
        # by the clock of the source; the pause ends by that of this host
        context.journal.downtime["started"] = float(answer["stopped_at"]) - float(context.source_facts.get("clock_offset") or 0.0)
    # containers that the copy must start, because their engine may not
    context.journal.facts["containers"] = answer.get("containers", [])
    if answer.get("mark") == mark:
        # from here on, answers without this mark are not accepted as the source's
        context.journal.facts["source_mark"] = context.source.identity.mark = mark
    context.save()
    if answer.get("maintenance") and not answer["maintenance"]["arrived"]:
        _await_boot(context)
    context.journal.facts.pop("rebooting", None)
    lease.arm()


def _cards(context: Context) -> list[str]:
    """The source's network cards that are replaced by a card of the VM; the VM takes their addresses too."""
    nics = fixup_context(context.spec, context.vm, context.layout(), context.source_facts, "").nics
    return [each.name for each in nics]


def _await_boot(context: Context, *, may_serve: bool = False) -> None:
    """Wait until the source has booted with network and ssh only.

    :arg may_serve: accept a source that serves; the caller quiesces it again.
    """
    began = time.monotonic()
    context.log("the source boots without its services")
    while True:
        try:
            state = context.source.ask("state", timeout=answer_timeout(context.spec.lease_timeout))["state"]
        except FootprintError:
            state = {}
        seconds = time.monotonic() - began
        if state.get("state") == SERVING and not may_serve:
            raise BackendError(f"The source left its maintenance boot: {state.get('reason', 'it serves')}.")
        if state.get("state") not in (None, QUIESCED) or state.get("maintenance", {}).get("arrived"):
            context.log(f"the source is {state['state']} after {seconds:.0f} s")
            if state["state"] == QUIESCED:
                context.journal.facts["reboot_seconds"] = round(seconds, 1)
            return
        if seconds > _REBOOT_TIMEOUT:
            raise BackendError(
                f"The source did not answer within {_REBOOT_TIMEOUT:.0f} s after its reboot.", hint="Check its console; its next boot is a normal one."
            )
        context.progress(phase="quiesce", waiting_for="the source to boot without its services")
        time.sleep(_POLL)


def cutover(context: Context, lease: Lease) -> None:
    """Move the address from the source to the VM and wait until all checks pass; clients are admitted by :func:`commit`."""
    context.journal.downtime.pop("ended", None)
    # discard the hand-over request of an earlier attempt
    context.journal.facts.pop("handing_over", None)
    steps = context.journal.downtime.setdefault("parts", {})
    for name, work in (("detach", _detach), ("boot", _boot_clone), ("checks", _check_clone)):
        context.progress(phase="cutover", step=name)
        began = time.monotonic()
        work(context, lease)
        steps[name] = round(time.monotonic() - began, 3)
        context.save()


def _detach(context: Context, lease: Lease) -> None:
    """Move the source to its temporary address; no machine answers at the admin address then."""
    lease.arm()
    spec = context.spec
    if context.bridge:
        taken = io_arp.probe(context.bridge, spec.admin.temporary_address, attempts=2, wait=0.2)
        if taken and taken not in [each.get("mac", "") for each in context.source_facts.get("interfaces", [])]:
            raise BackendError(f"{spec.admin.temporary_address} is in use by {taken}.", "admin.temporary_address", "Choose an unused address.")
    context.source.ask("detach")
    # from here on the source answers at the temporary address
    context.source.address = spec.admin.temporary_address
    # the VM does not run yet, and the source returns when its lease expires
    await_state(context, PARKED, "parked_at", timeout=max(ADDRESS_TIMEOUT, spec.lease_timeout * FENCE))
    # from here on the admin address belongs to the VM, whose answers are not the source's
    context.source.identity.only = spec.admin.temporary_address
    lease.check()
    if context.bridge:
        taken = io_arp.probe(context.bridge, spec.admin.address, attempts=2, wait=0.2)
        if taken and taken not in context.vm.macs:
            raise BackendError(f"{spec.admin.address} is in use by {taken}.", hint="Find that machine; it is neither the source nor the VM.")


def await_state(context: Context, wanted: str, key: str | None = None, timeout: float = ADDRESS_TIMEOUT) -> dict[str, t.Any]:
    """Wait until the source is in a state; returns what it reports."""
    until = time.monotonic() + timeout
    last = "was not checked"
    while True:
        try:
            state = context.source.ask("state", timeout=answer_timeout(context.spec.lease_timeout))["state"]
            if state["state"] == wanted and (key is None or key in state):
                return dict(state)
            last = f"is {state['state']}"
        except FootprintError as error:
            last = f"does not answer ({error.message})"
        if time.monotonic() > until:
            raise BackendError(f"The source is not {wanted} after {timeout:.0f} s; it {last}.")
        time.sleep(_POLL)


def _boot_clone(context: Context, lease: Lease) -> None:
    """Start the VM and wait until it presents the source's host key at the admin address."""
    lease.arm()
    context.disk().release()
    _keep_clients_out(context)
    # from here on the VM writes to its disks
    run_blocks.forget(context)
    lease.check()
    guard_vm(context, lease)
    with context.domains() as host:
        host.start(context.vm.uuid)
    # now its bridge ports are known
    _keep_clients_out(context)
    context.log("the VM starts")
    await_answers(context, lease, run_health.questions(context)[:1], time.monotonic() + context.spec.boot_timeout)


def guard_vm(context: Context, lease: Lease) -> None:
    """Start the guard that stops the VM when the source does not answer, even without this worker; the VM must not run if this fails."""
    context.guard.begin(context.spec.uri, context.vm.uuid, context.vm.name, context.spec.lease_timeout, lease.heard)
    run_guard.start(context.spec.name, context.code, context.store.directory / "output")


def _check_clone(context: Context, lease: Lease) -> None:
    """Run the remaining health checks."""
    _keep_clients_out(context)
    # the rest of boot_timeout, but enough for a slow service after ssh is up
    spent = context.journal.downtime["parts"].get("boot", 0.0)
    await_answers(context, lease, run_health.questions(context)[1:], time.monotonic() + max(20.0, context.spec.boot_timeout - spent))
    lease.check()


def await_answers(context: Context, lease: Lease, checks: t.Sequence[HealthCheck], until: float) -> None:
    """Run health checks against the VM until all of them pass."""
    ways = run_health.ways(context)
    reason: str | None = "no check has run yet"
    while checks:
        lease.check()
        _check_vm_runs(context)
        if time.monotonic() > until:
            raise BackendError(
                f"The new master was not healthy after {context.spec.boot_timeout} s: {reason}", hint="Raise boot_timeout, or fix what the check reports."
            )
        reason = _address_problem(context)
        if reason is None:
            failures = io_health.check_all(checks, ways, stop_at_first=True)
            left = [each.check for each in failures]
            for check in checks:
                if check not in left:
                    context.log(f"{check.title} passed")
            checks = left
            reason = str(failures[0]) if failures else None
        if checks:
            context.progress(waiting_for=reason)
            time.sleep(_POLL)


def _check_vm_runs(context: Context) -> None:
    """Fail immediately when the VM is off, paused or crashed, because clients wait."""
    with context.domains() as host:
        try:
            io_rehearsal.check_alive(host, context.vm.uuid)
        except BackendError as error:
            hint = f"Start the VM and watch its console: virsh console {context.vm.name}."
            raise full_pool(context.journal.facts["vm"]["disk"]) or BackendError(f"During its boot {error.message}.", hint=hint) from error


def _keep_clients_out(context: Context) -> None:
    """Block clients: their writes would be lost if the VM is discarded."""
    with context.domains() as host:
        record = host.domain(context.vm.uuid)
    try:
        if record is not None and record.live_xml is not None:
            io_fence.tighten(context.spec.name, context.vm.macs, ports_of(parse(record.live_xml)))
        else:
            io_fence.close(context.spec.name, context.vm.macs, [each.bridge for each in context.vm.nics if each.bridge])
    except CommandError as error:
        context.journal.warnings.append(f"Clients reach the VM before it is checked; their writes are lost if a check fails: {error}")


def let_clients_in(context: Context) -> None:
    """Open the fence and announce the admin address at the VM's MAC."""
    try:
        io_fence.open_up(context.spec.name)
    except CommandError as error:
        # without nft there was no fence; with nft, a closed fence would block all clients
        if error.rc != 127:
            raise
    if context.bridge:
        io_arp.announce(context.bridge, context.spec.admin.address, context.vm.macs[0])


def _address_problem(context: Context) -> str | None:
    """Check that the VM answers at the admin address, and announce it there; returns a reason while it does not answer."""
    bridge = context.bridge
    if not bridge:
        return None
    mac = context.vm.macs[0]
    found = io_arp.probe(bridge, context.spec.admin.address, attempts=1, wait=0.5)
    if found is None:
        return f"no machine answers at {context.spec.admin.address} yet"
    if found != mac:
        raise BackendError(f"{context.spec.admin.address} is in use by {found}, expected the VM ({mac}).")
    # the guest does not announce its address, and clients have the source's MAC in their ARP cache
    io_arp.announce(bridge, context.spec.admin.address, mac)
    return None
