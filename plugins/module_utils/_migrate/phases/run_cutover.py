# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pause: services held, last copy, address given up, VM booted and asked."""

from __future__ import annotations

import dataclasses
import secrets
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import run_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp, io_fence, run_guard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_lease import Lease
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_health, io_rehearsal, run_health
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_preflight import fixup_context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_pool_space import full_pool
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PARKED, QUIESCED, SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, ports_of

_POLL = 0.3
ADDRESS_TIMEOUT = 60.0
# a server's own self-test alone may take minutes
_REBOOT_TIMEOUT = 900.0


def quiesce(context: Context, lease: Lease) -> None:
    """Bring the source to rest, by stopping its services or by a boot without them; the pause begins."""
    facts = context.journal.facts["source"]
    context.journal.downtime.setdefault("started", time.time())
    context.save()
    given = {
        "services": list(context.spec.services),
        "containers": [dataclasses.asdict(each) for each in context.spec.containers],
        "quiesce": context.spec.quiesce,
        "lease": context.spec.return_after,
        "admin": {**{key: facts[key] for key in ("interface", "prefix", "address", "temporary_address")}, "cards": _cards(context)},
    }
    if context.spec.quiesce == MAINTENANCE_BOOT and context.journal.facts.get("rebooting"):
        # an earlier worker saw it go down; it answers nobody before it is up
        _await_boot(context, may_serve=True)
    if context.spec.quiesce == MAINTENANCE_BOOT:
        context.journal.facts["rebooting"] = True
        context.save()
    mark = context.journal.facts.get("source_mark") or secrets.token_hex(16)
    # there is no copy of it that could run yet
    context.source.identity.mark = None
    answer = context.source.ask("quiesce", {**given, "new_mark": mark}, timeout=660)["state"]
    if answer["state"] not in (QUIESCED, PARKED):
        raise BackendError(f"The source is {answer['state']} instead of {QUIESCED}.")
    context.journal.downtime["started"] = answer.get("stopped_at", context.journal.downtime["started"])
    # what the copy has to start, because its own engine may not
    context.journal.facts["containers"] = answer.get("containers", [])
    if answer.get("mark") == mark:
        # from here on nobody else is believed to be the source
        context.journal.facts["source_mark"] = context.source.identity.mark = mark
    context.save()
    if answer.get("maintenance") and not answer["maintenance"]["arrived"]:
        _await_boot(context)
    context.journal.facts.pop("rebooting", None)
    lease.arm()


def _cards(context: Context) -> list[str]:
    """The source's cards whose place a card of the VM takes: their addresses are the VM's as well."""
    nics = fixup_context(context.spec, context.vm, context.layout(), context.source_facts, "").nics
    return [each.name for each in nics]


def _await_boot(context: Context, *, may_serve: bool = False) -> None:
    """Wait until the source is there again with nothing but network and ssh.

    :arg may_serve: it is fine when it serves; it will be asked to rest again.
    :raises BackendError: it serves instead, or does not come back.
    """
    began = time.monotonic()
    context.log("the source boots without its services")
    while True:
        try:
            state = context.source.ask("state", timeout=20)["state"]
        except FootprintError:
            state = {}
        seconds = time.monotonic() - began
        if state.get("state") == SERVING and not may_serve:
            raise BackendError(f"The source did not stay in its maintenance boot: {state.get('reason', 'it serves')}.")
        if state.get("state") not in (None, QUIESCED) or state.get("maintenance", {}).get("arrived"):
            context.log(f"the source is {state['state']} after {seconds:.0f} s")
            if state["state"] == QUIESCED:
                context.journal.facts["reboot_seconds"] = round(seconds, 1)
            return
        if seconds > _REBOOT_TIMEOUT:
            raise BackendError(
                f"The source did not come back from its reboot in {_REBOOT_TIMEOUT:.0f} s.", hint="Look at its console; its next boot is the usual one."
            )
        context.progress(phase="quiesce", waiting_for="the source to boot without its services")
        time.sleep(_POLL)


def cutover(context: Context, lease: Lease) -> None:
    """The address goes from the source to the VM, until everything answers there; clients wait for :func:`commit`."""
    context.journal.downtime.pop("ended", None)
    # whatever was said of a hand-over holds no more
    context.journal.facts.pop("handing_over", None)
    steps = context.journal.downtime.setdefault("parts", {})
    for name, work in (("detach", _detach), ("boot", _boot_clone), ("checks", _check_clone)):
        context.progress(phase="cutover", step=name)
        began = time.monotonic()
        work(context, lease)
        steps[name] = round(time.monotonic() - began, 3)
        context.save()


def _detach(context: Context, lease: Lease) -> None:
    """The source steps aside to its temporary address; nobody answers on the admin address then."""
    lease.arm()
    spec = context.spec
    if context.bridge:
        taken = io_arp.probe(context.bridge, spec.admin.temporary_address, attempts=2, wait=0.2)
        if taken and taken not in _source_macs(context):
            raise BackendError(f"{spec.admin.temporary_address} is taken by {taken}.", "admin.temporary_address", "Choose an address nobody uses.")
    context.source.ask("detach")
    # from here on the source is found where it goes
    context.source.address = spec.admin.temporary_address
    await_state(context, PARKED, "parked_at")
    # the other address is the VM's from here on, and its answers are not the source's
    context.source.identity.only = spec.admin.temporary_address
    lease.check()
    if context.bridge:
        taken = io_arp.probe(context.bridge, spec.admin.address, attempts=2, wait=0.2)
        if taken and taken not in context.vm.macs:
            raise BackendError(f"{spec.admin.address} is still answered for, by {taken}.", hint="Find that machine; it is neither the source nor the VM.")


def _source_macs(context: Context) -> list[str]:
    return [each.get("mac", "") for each in context.source_facts.get("interfaces", [])]


def await_state(context: Context, wanted: str, key: str | None = None, timeout: float = ADDRESS_TIMEOUT) -> dict[str, t.Any]:
    """What the source says once it is in a state.

    :raises BackendError: it is not, in time.
    """
    until = time.monotonic() + timeout
    last = "was not asked"
    while True:
        try:
            state = context.source.ask("state", timeout=20)["state"]
            if state["state"] == wanted and (key is None or key in state):
                return dict(state)
            last = f"is {state['state']}"
        except FootprintError as error:
            last = f"does not answer ({error.message})"
        if time.monotonic() > until:
            raise BackendError(f"The source is not {wanted} after {timeout:.0f} s; it {last}.")
        time.sleep(_POLL)


def _boot_clone(context: Context, lease: Lease) -> None:
    """Start the VM and wait until it shows the source's host key at the admin address."""
    lease.arm()
    context.disk().release()
    _keep_clients_out(context)
    # from here on its disks are written to by somebody else
    run_blocks.forget(context)
    lease.check()
    guard_vm(context, lease)
    with context.domains() as host:
        host.start(context.vm.uuid)
    # its ports are known now
    _keep_clients_out(context)
    context.log("the VM starts")
    await_answers(context, lease, run_health.questions(context)[:1], time.monotonic() + context.spec.boot_timeout)


def guard_vm(context: Context, lease: Lease) -> None:
    """From now on the VM is stopped when the source is not heard from, whatever becomes of this worker.

    :raises CommandError: nobody can be found who would do that; the VM must not run then.
    """
    context.guard.begin(context.spec.uri, context.vm.uuid, context.vm.name, context.spec.return_after, lease.heard)
    run_guard.start(context.spec.name, context.code, context.store.directory / "output")


def _check_clone(context: Context, lease: Lease) -> None:
    """Ask the rest."""
    _keep_clients_out(context)
    # what is left of the boot's time, and never less than a slow service needs after ssh is up
    spent = context.journal.downtime["parts"].get("boot", 0.0)
    await_answers(context, lease, run_health.questions(context)[1:], time.monotonic() + max(20.0, context.spec.boot_timeout - spent))
    lease.check()


def await_answers(context: Context, lease: Lease, checks: t.Sequence[HealthCheck], until: float) -> None:
    """Ask the VM until everything is answered.

    :raises BackendError: it was not, in time, or the source came back meanwhile.
    """
    ways = run_health.ways(context)
    wrong: str | None = "was not asked yet"
    while checks:
        lease.check()
        _see_it_alive(context)
        if time.monotonic() > until:
            raise BackendError(
                f"The new master was not healthy after {context.spec.boot_timeout} s: {wrong}", hint="Raise boot_timeout, or fix what the check says."
            )
        wrong = _somebody_else(context)
        if wrong is None:
            failures = io_health.check_all(checks, ways, stop_at_first=True)
            left = [each.check for each in failures]
            for check in checks:
                if check not in left:
                    context.log(f"{check.title} answers")
            checks = left
            wrong = str(failures[0]) if failures else None
        if checks:
            context.progress(waiting_for=wrong)
            time.sleep(_POLL)


def _see_it_alive(context: Context) -> None:
    """Go back at once when the VM cannot come up any more: everybody waits."""
    with context.domains() as host:
        try:
            io_rehearsal.check_alive(host, context.vm.uuid)
        except BackendError as error:
            hint = f"Start it by hand and look at its console: virsh console {context.vm.name}."
            raise full_pool(context.journal.facts["vm"]["disk"]) or BackendError(f"While it booted {error.message}.", hint=hint) from error


def _keep_clients_out(context: Context) -> None:
    """What a VM was told that is thrown away again would be lost, so nobody tells it anything yet."""
    with context.domains() as host:
        record = host.domain(context.vm.uuid)
    try:
        if record is not None and record.live_xml is not None:
            io_fence.tighten(context.spec.name, context.vm.macs, ports_of(parse(record.live_xml)))
        else:
            io_fence.close(context.spec.name, context.vm.macs, [each.bridge for each in context.vm.nics if each.bridge])
    except CommandError as error:
        context.journal.warnings.append(f"Clients reach the VM before it is found healthy; what they tell it is lost if it is not: {error}")


def let_clients_in(context: Context) -> None:
    """The VM is the master from now on."""
    try:
        io_fence.open_up(context.spec.name)
    except CommandError as error:
        # without nft there was no fence either; with it, nobody but this host would reach the master
        if error.rc != 127:
            raise
    if context.bridge:
        io_arp.announce(context.bridge, context.spec.admin.address, context.vm.macs[0])


def _somebody_else(context: Context) -> str | None:
    """Make the neighbours look for the VM under the address, and see that it is the VM who answers."""
    bridge = context.bridge
    if not bridge:
        return None
    mac = context.vm.macs[0]
    found = io_arp.probe(bridge, context.spec.admin.address, attempts=1, wait=0.5)
    if found is None:
        return f"nobody answers for {context.spec.admin.address} yet"
    if found != mac:
        raise BackendError(f"{context.spec.admin.address} is answered for by {found}, not by the VM ({mac}).")
    # the guest itself does not announce its address, and its clients remember the source's card
    io_arp.announce(bridge, context.spec.admin.address, mac)
    return None
