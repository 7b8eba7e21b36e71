# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal: boot the copy on an isolated network, run the health checks, and discard the VM.

The copy changes only by the fix-ups, because the VM writes to an overlay. All files are recorded in the
journal before they are created, so that the next run removes the leftovers of a killed rehearsal.
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
# number of the console's last lines in the error and in the report
_IN_ERROR, _IN_REPORT = 8, 40


def rehearse(context: Context) -> None:
    """Boot the copy on an isolated network and run the health checks.

    :raises BackendError: it does not boot, or a check fails; with the check and the console's last lines.
    """
    journal = context.journal
    if not context.spec.rehearse:
        journal.facts.pop("rehearsal", None)
        context.log("skipped: rehearse is false")
        return
    _clear(context)
    # the last copy pass restored the original files
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
            report["seconds"] = _run_checks(context, host, network, stage, checks)
        report["passed"] = True
        # the best estimate of the real boot time
        journal.facts["boot_seconds"] = report["seconds"]
        context.log(f"the copy booted and passed all checks in {report['seconds']} s")
    except FootprintError as error:
        raise _failed(context, error, stage) from error
    finally:
        _keep_console(context, stage)
        _clear(context, log=False)


def sweep(context: Context) -> None:
    """Remove the leftovers of a killed rehearsal; a failure is logged, and the next run tries again."""
    try:
        _clear(context)
    except (FootprintError, OSError) as error:
        context.log(f"leftovers of a rehearsal cannot be removed yet: {error}")


def _clear(context: Context, *, log: bool = True) -> None:
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
    if log and (ran or found):
        context.log(f"removed the leftovers of a killed rehearsal: {', '.join([*(['its VM'] if ran else []), *found])}")


def _set_up(context: Context, host: DomainHost, network: io_isolated.IsolatedNetwork) -> xml_rehearsal.Stage:
    """Create the overlays, start the rehearsal VM paused, and move its network cards to the isolated network."""
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
    # recorded before the first file is created
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
    # the copy tags its frames as the source does
    network.settle(stage.taps[0] if vlan is None else network.tag(stage.taps[0], vlan), address, source["prefix"], admin.address)
    context.log(f"the copy boots as {name}, checked from {address}")
    return stage


def _run_checks(context: Context, host: DomainHost, network: io_isolated.IsolatedNetwork, stage: xml_rehearsal.Stage, checks: t.Sequence[HealthCheck]) -> float:
    """Resume the VM, repeat the checks until all passed, then run all once more; returns the seconds until all passed first."""
    ways = run_health.ways(context)
    host.resume(stage.uuid)
    began = time.monotonic()
    until = began + context.spec.rehearse_timeout
    waiting, seconds = list(checks), 0.0
    while True:
        failures = network.run(io_health.check_all, waiting, ways, stop_at_first=True)
        for check in waiting[: len(waiting) - len(failures)]:
            if not seconds:
                context.log(f"{check.title} passed")
        if not failures:
            if seconds:
                return seconds
            # a service that answered early may have failed later
            waiting, seconds = list(checks), round(time.monotonic() - began, 3)
            continue
        seconds = 0.0
        waiting = [each.check for each in failures]
        _check_boot(host, stage, failures[0])
        if time.monotonic() > until:
            failures = network.run(io_health.check_all, waiting, ways)
            if failures:
                raise BackendError(f"after {context.spec.rehearse_timeout} s: {'; '.join(str(each) for each in failures)}")
        context.progress(phase="rehearse", waiting_for=str(failures[0]) if failures else None)
        time.sleep(_POLL)


def _check_boot(host: DomainHost, stage: xml_rehearsal.Stage, failure: io_health.Failure) -> None:
    """Fail early when the VM stopped or its boot failed."""
    try:
        io_rehearsal.check_alive(host, stage.uuid)
        reason = plan_rehearsal.stuck(io_rehearsal.read_console(stage.console))
    except BackendError as error:
        reason = error.message
    if reason:
        raise BackendError(f"{reason}; {failure}")


def _keep_console(context: Context, stage: xml_rehearsal.Stage | None) -> None:
    """Store the console's output in the migration's folder."""
    text = io_rehearsal.read_console(stage.console) if stage else ""
    if text:
        write_atomic(context.store.directory / CONSOLE, plan_rehearsal.clean(text))
        context.journal.facts["rehearsal"]["console"] = plan_rehearsal.tail(text, _IN_REPORT)


def _failed(context: Context, error: FootprintError, stage: xml_rehearsal.Stage | None) -> BackendError:
    if stage is None:
        return BackendError(f"The rehearsal could not start: {error.message}", error.path, error.hint)
    lines = plan_rehearsal.tail(io_rehearsal.read_console(stage.console), _IN_ERROR)
    output = f"Last lines of the console: {' | '.join(lines)}" if lines else "Its console is empty."
    log = context.store.directory / CONSOLE if lines else "the log of the rehearsal VM below /var/log/libvirt/qemu"
    return BackendError(
        f"The rehearsal failed: {error.message.rstrip('.')}. {output}",
        hint=f"Check {log}, fix the problem and run again; set rehearse: false for a check that requires other machines.",
    )
