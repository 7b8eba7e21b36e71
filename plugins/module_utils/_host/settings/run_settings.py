# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: apply host settings, and restart the daemon only if necessary; guests continue to run."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.io_settings import SettingsHost
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import (
    Command,
    GivePages,
    HostFound,
    HostSettings,
    Kvm,
    SetNumber,
    Step,
    WriteFile,
    parse_settings,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.plan_files import daemon_paths, drop_in_folders, paths
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.plan_settings import (
    GROUP,
    HostPlan,
    daemon_of,
    limit_path,
    pages_missing,
    plan_host,
    unit_names,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import run_hook

_NOT_INSTALLED = "neither libvirtd.service nor virtqemud.service is installed on this host."


def hidden_values(raw: t.Mapping[str, t.Any]) -> set[str]:
    """Return the passwords among the settings, which the module must mask in its output."""
    settings = raw.get("qemu_conf")
    if not isinstance(settings, dict):
        return set()
    return {str(value) for key, value in settings.items() if "passw" in str(key).lower() and value}


def set_host(raw: t.Mapping[str, t.Any], *, check_mode: bool, backend: t.Any = None) -> dict[str, t.Any]:
    """Read, plan, and apply unless in check mode; returns the result of the module."""
    backend = backend or SettingsHost()
    settings = parse_settings(raw)._replace(hook=run_hook.files())
    found, plan = _read_and_plan(settings, raw, backend)
    if check_mode or not (plan.steps or plan.restart):
        return _result(settings, found, plan, check_mode, backend)
    with host_lock("host-settings", 120):
        # another process may have applied the settings meanwhile
        return _result(settings, *_read_and_plan(settings, raw, backend), check_mode, backend)


def _read_and_plan(settings: HostSettings, raw: t.Mapping[str, t.Any], backend: t.Any) -> tuple[HostFound, HostPlan]:
    found = _read(settings, raw, backend)
    return found, plan_host(settings, found)


def _read(settings: HostSettings, raw: t.Mapping[str, t.Any], backend: t.Any) -> HostFound:
    units = backend.units(unit_names())
    daemon = daemon_of(units)
    pages = backend.pages()
    memory, page = backend.memory()
    return HostFound(
        files=backend.files(paths(settings, pages)),
        folders=backend.times(drop_in_folders()),
        units=units,
        limits=backend.limits({name: limit_path(name) for name in settings.sysctl}),
        memory_kib=memory,
        default_page_kib=page,
        pages=pages,
        modules=backend.modules() if settings.nested is not None else {},
        kvm=_kvm(settings, raw, backend, units[daemon].pid if daemon else 0),
        members=backend.members(GROUP) if settings.users else frozenset(),
        users=backend.known_users(settings.users) if settings.users else frozenset(),
        labels=backend.labels(settings.pool_paths) if settings.pool_paths else None,
    )


def _kvm(settings: HostSettings, raw: t.Mapping[str, t.Any], backend: t.Any, pid: int) -> Kvm:
    """Return the state of the KVM device; it is only tested if it may be hidden."""
    if not backend.has_kvm():
        return Kvm()
    hidden = backend.hides_kvm(pid)
    if not settings.mask_broken_kvm:
        return Kvm(device=True, hidden=hidden)
    usable, reason = backend.prove_kvm(raw.get("facts_file"), float(raw.get("proof_timeout") or 15))
    return Kvm(True, usable, reason, hidden)


def _result(settings: HostSettings, found: HostFound, plan: HostPlan, check_mode: bool, backend: t.Any) -> dict[str, t.Any]:
    warnings, reasons = list(plan.warnings), list(plan.restart_required)
    if plan.daemon is None:
        if not check_mode:
            raise BackendError(_NOT_INSTALLED, hint="Install libvirt first, for example with the role reduced.footprint.virt_host.")
        warnings.append(f"{_NOT_INSTALLED[:1].upper()}{_NOT_INSTALLED[1:]} Check mode reports what is possible without it.")
    given = {}
    if not check_mode:
        given = _apply(settings, plan, found, backend)
        for step in plan.steps:
            if isinstance(step, GivePages) and given[step.size_kib] < step.count:
                reasons.append(pages_missing(step.name, given[step.size_kib], step.count))
    actions = [step.action for step in plan.steps] + ([f"restart {plan.daemon}"] if plan.restart else [])
    return {
        "changed": bool(actions),
        "actions": actions,
        "daemon": plan.daemon,
        "restarted": plan.restart,
        "kvm": {"device": found.kvm.device, "usable": found.kvm.usable, "reason": found.kvm.reason or None, "hidden": plan.hide_kvm},
        "huge_pages": [_pages_result(pages.size_kib, pages.count, found, given, check_mode) for pages in settings.huge_pages],
        "restart_required": reasons,
        "warnings": [*warnings, *(f"{reason[:1].upper()}{reason[1:]}." for reason in reasons)],
        "diff": _diff(plan),
    }


def _pages_result(size_kib: int, asked: int, found: HostFound, given: t.Mapping[int, int], check_mode: bool) -> dict[str, t.Any]:
    now = found.pages[size_kib]
    # in check mode the result of the request is unknown
    count = given.get(size_kib, asked if check_mode and now.tried != asked else now.count)
    return {"size_kib": size_kib, "asked": asked, "given": count}


def _apply(settings: HostSettings, plan: HostPlan, found: HostFound, backend: t.Any) -> dict[int, int]:
    """Apply all steps in order, restart and test the daemon, and restore its old files if it fails."""
    given: dict[int, int] = {}
    for step in plan.steps:
        if isinstance(step, GivePages):
            given[step.size_kib] = backend.give_pages(step.size_kib, step.count)
        else:
            _do(step, backend)
    if plan.daemon is None or not (plan.restart or plan.daemon_files):
        return given
    problem: str | None
    try:
        if plan.restart:
            backend.restart(plan.daemon, (*daemon_paths(plan.daemon, found.pages), *drop_in_folders(), *settings.hook))
        problem = backend.answers(plan.daemon, "qemu:///system")
    except FootprintError as error:
        problem = error.message
    if problem is None:
        return given
    if not plan.daemon_files:
        raise BackendError(f"{plan.daemon} was restarted and does not answer: {problem}.", hint="Correct the reported setting and run again.")
    backend.restore(plan.daemon_files)
    backend.revive(plan.daemon)
    files = ", ".join(step.path for step in plan.daemon_files)
    hint = f"Correct the setting and run again; {files} was restored and {plan.daemon} runs with the old settings."
    raise BackendError(f"libvirt does not start with these settings: {problem}.", "qemu_conf", hint)


def _do(step: Step, backend: t.Any) -> None:
    if isinstance(step, WriteFile):
        backend.write(step)
    elif isinstance(step, SetNumber):
        backend.set_number(step.path, step.value)
    elif isinstance(step, Command):
        backend.command(step.argv)


def _diff(plan: HostPlan) -> list[dict[str, str]]:
    """Return the diff of the files, followed by that of the running host."""
    shown = [(step.path, step.before or "", step.text or "") for step in plan.steps if isinstance(step, WriteFile)]
    before, after = "", ""
    for step in plan.steps:
        if isinstance(step, SetNumber):
            before, after = f"{before}{step.name} = {step.before}\n", f"{after}{step.name} = {step.value}\n"
        elif isinstance(step, GivePages):
            before, after = f"{before}huge pages of {step.name}: {step.before}\n", f"{after}huge pages of {step.name}: {step.count}\n"
        elif not isinstance(step, WriteFile):
            after += f"{step.action}\n"
    after += f"restart {plan.daemon}\n" if plan.restart else ""
    if after:
        shown.append(("the running host", before, after))
    return [{"before_header": name, "after_header": name, "before": mask_text(old), "after": mask_text(new)} for name, old, new in shown]
