# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pause: services held, last copy, address given up, VM booted and asked, handed over. And the way back."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import arp, fence, health
from ansible_collections.reduced.footprint.plugins.module_utils._backend.remote_source import drop_key_files
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._model.health_check import HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration_journal import HANDED_OVER, PARKED, QUIESCED, SERVING
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_copy import stop_clone
from ansible_collections.reduced.footprint.plugins.module_utils._run.migrate_lease import Lease

_POLL = 0.3
_ADDRESS_TIMEOUT = 60.0


def quiesce(context: Context, lease: Lease) -> None:
    """Stop the services on the source; the pause begins."""
    facts = context.journal.facts["source"]
    context.journal.downtime.setdefault("started", time.time())
    context.save()
    admin = {"interface": facts["interface"], "prefix": facts["prefix"], "address": facts["address"], "temporary_address": facts["temporary_address"]}
    answer = context.source.ask(
        "quiesce", {"services": list(context.spec.services), "lease": context.spec.return_after, "admin": admin}, timeout=660
    )["state"]
    if answer["state"] not in (QUIESCED, PARKED):
        raise BackendError(f"The source is {answer['state']} instead of {QUIESCED}.")
    context.journal.downtime["started"] = answer.get("stopped_at", context.journal.downtime["started"])
    lease.arm()


def cutover(context: Context, lease: Lease) -> None:
    """The address goes from the source to the VM; the pause ends when everything answers there."""
    steps = context.journal.downtime.setdefault("parts", {})
    for name, work in (("detach", _detach), ("boot", _boot_clone)):
        context.progress(phase="cutover", step=name)
        began = time.monotonic()
        work(context, lease)
        steps[name] = round(time.monotonic() - began, 3)
        context.save()


def _detach(context: Context, lease: Lease) -> None:
    """The source steps aside to its temporary address; nobody answers on the admin address then."""
    lease.arm()
    context.source.ask("detach")
    spec = context.spec
    # from here on the source is found where it goes
    context.source.address = spec.admin.temporary_address
    _await_state(context, PARKED, "parked_at")
    lease.check()
    if context.bridge:
        taken = arp.probe(context.bridge, spec.admin.address, attempts=2, wait=0.2)
        if taken and taken not in context.vm.macs:
            raise BackendError(f"{spec.admin.address} is still answered for, by {taken}.", mend="Find that machine; it is neither the source nor the VM.")


def _await_state(context: Context, wanted: str, key: str | None = None, timeout: float = _ADDRESS_TIMEOUT) -> dict[str, t.Any]:
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
    """Start the VM and ask it through the admin address until everything answers; the pause ends."""
    lease.arm()
    context.disk().release()
    _keep_clients_out(context)
    with context.domains() as host:
        host.start(context.vm.uuid)
    context.log("the VM starts")
    spec = context.spec
    checks = [HealthCheck("ssh", spec.source.port, None, 200), *spec.health_checks]
    until = time.monotonic() + spec.boot_timeout
    wrong: str | None = "was not asked yet"
    while checks:
        lease.check()
        if not context.clone_running():
            raise BackendError("The VM stopped while it booted.", mend=f"Start it by hand and look at its console: virsh console {context.vm.name}.")
        if time.monotonic() > until:
            raise BackendError(f"The new master was not healthy after {spec.boot_timeout} s: {wrong}", mend="Raise boot_timeout, or mend what the check says.")
        wrong = _somebody_else(context) or health.ask(checks[0], spec.admin.address, spec.source.host_keys)
        if wrong is None:
            context.log(f"{checks[0].type} answers")
            checks.pop(0)
            continue
        context.progress(phase="cutover", waiting_for=wrong)
        time.sleep(_POLL)
    lease.check()
    _let_clients_in(context)
    now = time.time()
    context.journal.downtime.update(ended=now, seconds=round(now - context.journal.downtime["started"], 2))


def _keep_clients_out(context: Context) -> None:
    """What a VM was told that is thrown away again would be lost, so nobody tells it anything yet."""
    try:
        fence.close(context.spec.name, context.vm.macs[0])
    except CommandError as error:
        context.journal.warnings.append(f"Clients reach the VM before it is found healthy; what they tell it is lost if it is not: {error}")


def _let_clients_in(context: Context) -> None:
    try:
        fence.open_up(context.spec.name)
    except CommandError as error:
        # without nft there was no fence either; with it, nobody but this host would reach the master
        if error.rc != 127:
            raise
    if context.bridge:
        arp.announce(context.bridge, context.spec.admin.address, context.vm.macs[0])


def _somebody_else(context: Context) -> str | None:
    """Make the neighbours look for the VM under the address, and see that it is the VM who answers."""
    bridge = context.bridge
    if not bridge:
        return None
    mac = context.vm.macs[0]
    found = arp.probe(bridge, context.spec.admin.address, attempts=1, wait=0.5)
    if found is None:
        return f"nobody answers for {context.spec.admin.address} yet"
    if found != mac:
        raise BackendError(f"{context.spec.admin.address} is answered for by {found}, not by the VM ({mac}).")
    # the guest itself does not announce its address, and its clients remember the source's card
    arp.announce(bridge, context.spec.admin.address, mac)
    return None


def commit(context: Context, lease: Lease | None) -> None:
    """The source lets go for good; the VM comes up with its host from now on."""
    if not context.journal.facts.get("handed_over"):
        if lease:
            lease.check()
        state = context.source.ask("hand_over")["state"]
        if state["state"] != HANDED_OVER:
            raise BackendError(f"The source is {state['state']} instead of {HANDED_OVER}.")
        context.journal.facts["handed_over"] = True
        context.save()
    _let_clients_in(context)
    with context.domains() as host:
        host.set_autostart(context.vm.uuid, True)
    _close(context, power_off=context.spec.source_after == "shutdown")


def _close(context: Context, *, power_off: bool) -> None:
    """Withdraw the one-time key; a source that is gone already keeps nothing from being done."""
    try:
        if power_off:
            context.source.ask("power_off")
        context.source.ask("forget_key", {"marker": context.key_marker})
    except FootprintError as error:
        context.journal.warnings.append(f"The one-time key may still be on the source: {error.message}")
        return
    drop_key_files(context.store.directory)


def give_back(context: Context, reason: str) -> None:
    """Everything as it was: clone stopped for good, source on its address with its services.

    :raises FootprintError: the source did not come back; what is known is in the message.
    """
    journal = context.journal
    journal.facts["returning"] = reason
    journal.reason = reason
    context.save()
    context.log(f"going back: {reason}")
    served = stop_clone(context) and journal.finished("cutover")
    _let_clients_in_again(context)
    context.disk().release()
    context.source.ask("restore", {"reason": reason[:200]})
    context.source.address = context.spec.source.address
    state = _await_state(context, SERVING, timeout=_ADDRESS_TIMEOUT + context.spec.return_after)
    now = time.time()
    if journal.downtime.get("started") and not journal.downtime.get("ended"):
        journal.downtime.update(ended=now, seconds=round(now - journal.downtime["started"], 2))
    if served:
        journal.warnings.append(f"What the VM was told after it served is only on its disk, {journal.facts['vm']['disk']}.")
    journal.facts.pop("handed_over", None)
    journal.facts.pop("returning", None)
    journal.state = "rolled_back"
    journal.ended = now
    context.save()
    context.log(f"the source serves again ({', '.join(state.get('running', [])) or 'no service was stopped'})")
    _close(context, power_off=False)
    context.save()


def _let_clients_in_again(context: Context) -> None:
    """The VM is stopped; its fence must not greet the next one. A fence that stays harms nobody meanwhile."""
    try:
        fence.open_up(context.spec.name)
    except CommandError as error:
        context.log(f"the fence around the VM stays: {error.message}")


def retire(context: Context) -> None:
    """Shut the parked source down; there is no way back by itself afterwards."""
    state = context.source.ask("state")["state"]
    if state["state"] != HANDED_OVER:
        raise BackendError(f"The source is {state['state']}; only a source that handed over can be retired.", mend="Finish the migration first.")
    _close(context, power_off=True)
