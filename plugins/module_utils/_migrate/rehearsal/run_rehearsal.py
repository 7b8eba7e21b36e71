# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal: the copy boots where nobody sees it, is asked what the new master will be asked, and is thrown away.

Not a byte of the copy changes but by the fix-ups, for the VM writes to an overlay. What a killed
rehearsal left is named in the journal before it is made, and swept by the next run.
"""

from __future__ import annotations

import os
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_health, io_isolated, io_rehearsal, plan_rehearsal, run_health
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import xml_rehearsal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost

CONSOLE = "rehearsal-console.log"
_POLL = 0.3
# of the console's last words: so many in the error, so many in the report
_IN_ERROR, _IN_REPORT = 8, 40


def rehearse(context: Context) -> None:
    """Boot the copy on a network of its own and ask it everything.

    :raises BackendError: it does not come up, or not well; names the check and the console's last words.
    """
    journal = context.journal
    if not context.spec.rehearse:
        journal.facts.pop("rehearsal", None)
        context.log("left out, as asked")
        return
    _clear(context)
    # the last copy brought the originals of the changed files back
    run_copy.fixup(context)
    context.settle()
    context.disk().release()
    checks = run_health.questions(context, rehearsal=True)
    report: dict[str, t.Any] = {"at": time.time(), "passed": False, "seconds": None, "checks": [each.title for each in checks], "console": []}
    journal.facts["rehearsal"] = report
    stage = None
    try:
        with context.domains() as host, io_isolated.IsolatedNetwork() as network:
            stage = _set_up(context, host, network)
            report["seconds"] = _question(context, host, network, stage, checks)
        report["passed"] = True
        # the best guess at what the real boot will take
        journal.facts["boot_seconds"] = report["seconds"]
        context.log(f"the copy boots and answers in {report['seconds']} s")
    except FootprintError as error:
        raise _failed(context, error, stage) from error
    finally:
        _keep_console(context, stage)
        _clear(context, told=False)


def sweep(context: Context) -> None:
    """Take away what a killed rehearsal left; what cannot be taken away now is said, and tried again by the next run."""
    try:
        _clear(context)
    except (FootprintError, OSError) as error:
        context.log(f"what a rehearsal left cannot be swept yet: {error}")


def _clear(context: Context, *, told: bool = True) -> None:
    left = context.journal.facts.get("rehearsing")
    if not left:
        return
    with context.domains() as host:
        ran = io_rehearsal.destroy(host, left["uuid"])
    found = [path for path in left["files"] if os.path.exists(path)]
    for path in found:
        os.unlink(path)
    del context.journal.facts["rehearsing"]
    context.save()
    if told and (ran or found):
        context.log(f"swept what a killed rehearsal left: {', '.join([*(['its VM'] if ran else []), *found])}")


def _set_up(context: Context, host: DomainHost, network: io_isolated.IsolatedNetwork) -> xml_rehearsal.Stage:
    """Overlays, a paused stand-in, its cards in the isolated network."""
    uuid = context.vm.uuid
    name = plan_rehearsal.stand_in_name(context.journal.facts["vm"]["name"])
    xml = host.config_xml(uuid)
    disks = xml_rehearsal.disks(xml)
    stage = xml_rehearsal.Stage(
        name=name,
        uuid=plan_rehearsal.stand_in_uuid(uuid),
        overlays={each.path: io_rehearsal.overlay_path(each.path, name, index) for index, each in enumerate(disks)},
        taps=plan_rehearsal.tap_names(uuid, xml_rehearsal.cards(xml)),
        nvram=io_rehearsal.overlay_path(disks[0].path, name, 0).replace(".qcow2", "-vars.fd"),
        console=str(io_rehearsal.CONSOLES / f"{name}-console.log"),
    )
    # before the first of them is made
    context.journal.facts["rehearsing"] = {"uuid": stage.uuid, "files": [*stage.overlays.values(), stage.nvram, stage.console]}
    context.save()
    for disk in disks:
        io_rehearsal.make_overlay(disk.path, disk.format, stage.overlays[disk.path])
    io_rehearsal.copy_variables(xml_rehearsal.nvram(xml) or "", stage.nvram)
    io_rehearsal.start_paused(host, xml_rehearsal.rehearsal_xml(xml, stage))
    for tap in stage.taps:
        network.take(tap)
    admin = context.spec.admin
    address = run_health.asker(context)
    source = context.journal.facts["source"]
    vlan = plan_rehearsal.admin_vlan(context.source_facts.get("interfaces", []), source["interface"])
    # the copy goes on to tag its frames as the source does
    network.settle(stage.taps[0] if vlan is None else network.tag(stage.taps[0], vlan), address, source["prefix"], admin.address)
    context.log(f"the copy boots as {name}, alone with {address}")
    return stage


def _question(context: Context, host: DomainHost, network: io_isolated.IsolatedNetwork, stage: xml_rehearsal.Stage, checks: t.Sequence[HealthCheck]) -> float:
    """Let it boot and ask until everything was answered well, and then all of it once more; returns the seconds the first took."""
    ways = run_health.ways(context)
    host.resume(stage.uuid)
    began = time.monotonic()
    until = began + context.spec.rehearse_timeout
    waiting, seconds = list(checks), 0.0
    while True:
        failures = network.run(io_health.check_all, waiting, ways, stop_at_first=True)
        for check in waiting[: len(waiting) - len(failures)]:
            if not seconds:
                context.log(f"{check.title} answers")
        if not failures:
            if seconds:
                return seconds
            # one that answered early may have died of what came later
            waiting, seconds = list(checks), round(time.monotonic() - began, 3)
            continue
        seconds = 0.0
        waiting = [each.check for each in failures]
        _check_hope(host, stage, failures[0])
        if time.monotonic() > until:
            failures = network.run(io_health.check_all, waiting, ways)
            if failures:
                raise BackendError(f"after {context.spec.rehearse_timeout} s, {'; '.join(str(each) for each in failures)}")
        context.progress(phase="rehearse", waiting_for=str(failures[0]) if failures else None)
        time.sleep(_POLL)


def _check_hope(host: DomainHost, stage: xml_rehearsal.Stage, failure: io_health.Failure) -> None:
    """Waste no time on a VM that will not come up.

    :raises BackendError: with the reason, and what it was asked for.
    """
    try:
        io_rehearsal.check_alive(host, stage.uuid)
        reason = plan_rehearsal.stuck(io_rehearsal.read_console(stage.console))
    except BackendError as error:
        reason = error.message
    if reason:
        raise BackendError(f"{reason}; {failure}")


def _keep_console(context: Context, stage: xml_rehearsal.Stage | None) -> None:
    """The console's words, kept beside the journal."""
    text = io_rehearsal.read_console(stage.console) if stage else ""
    if text:
        write_atomic(context.store.directory / CONSOLE, plan_rehearsal.clean(text))
        context.journal.facts["rehearsal"]["console"] = plan_rehearsal.tail(text, _IN_REPORT)


def _failed(context: Context, error: FootprintError, stage: xml_rehearsal.Stage | None) -> BackendError:
    if stage is None:
        return BackendError(f"The rehearsal could not begin: {error.message}", error.path, error.hint)
    said = plan_rehearsal.tail(io_rehearsal.read_console(stage.console), _IN_ERROR)
    words = f"The console's last words: {' | '.join(said)}" if said else "Its console said nothing."
    look = f"The whole console is in {context.store.directory / CONSOLE}." if said else "Look at the stand-in's log below /var/log/libvirt/qemu."
    return BackendError(
        f"The rehearsal failed: {error.message.rstrip('.')}. {words}", hint=f"{look} Correct it and run again; give a check that needs others rehearse: false."
    )
