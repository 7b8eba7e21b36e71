# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: timers that write the state of this host as metrics."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, model_errors, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, run_gather_metrics
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units

_KEYS = ("server", "services", "cloud", "probes", "cluster", "environment", "votes", "directory")


def apply(given: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Install and start the timers, or remove them with what they wrote.

    :arg given: the options of ``state_metrics``.
    :raises InputError: an interval is not positive, or a number of votes is not a number.
    """
    intervals = {plan_gatherers.SERVICES: given["services_seconds"], plan_gatherers.MACHINE: given["machine_seconds"]}
    for gatherer, seconds in intervals.items():
        if seconds < 1:
            raise model_errors.InputError(f"{seconds} is not a number of seconds above 0.", f"{gatherer}_seconds", "Use 20, for example.")
    wanted: dict[pathlib.Path, str] = {}
    if given["state"] == "present":
        code = io_units.code_path() if check_mode else io_units.keep_code()
        request = model_schema.STATE_METRICS.mark({key: given[key] for key in _KEYS})
        units = plan_gatherers.units(intervals, str(code), sys.executable, given["slice"])
        wanted = {io_units.UNITS / name: text for name, text in units.items()}
        wanted[run_gather_metrics.REQUEST] = json.dumps(request, indent=1, sort_keys=True) + "\n"
    names = [io_units.UNITS / plan_gatherers.unit_name(gatherer, kind) for gatherer in intervals for kind in ("service", "timer")]
    written = [run_gather_metrics.target(given["directory"], gatherer) for gatherer in intervals]
    before = {path: io_files.read_text(path) for path in (run_gather_metrics.REQUEST, *names)}
    changed = [path for path, text in before.items() if text != wanted.get(path)]
    timers = [plan_gatherers.unit_name(gatherer, "timer") for gatherer in intervals]
    idle = [timer for timer in timers if wanted and (io_units.UNITS / timer in changed or not _started(timer))]
    left = [path for path in written if not wanted and path.exists()]
    if not check_mode:
        if wanted:
            _install(changed, wanted, timers, idle)
        elif changed or left:
            _remove(changed, timers, left)
    diff = [
        {"before_header": str(path), "after_header": str(path), "before": mask_text(before[path] or ""), "after": mask_text(wanted.get(path, ""))}
        for path in changed
    ]
    return {"changed": bool(changed or idle or left), "diff": diff}


def _started(timer: str) -> bool:
    return io_units.unit_active(timer) and run(["systemctl", "is-enabled", "--quiet", timer], ok=range(256)).rc == 0


def _install(changed: t.Sequence[pathlib.Path], wanted: t.Mapping[pathlib.Path, str], timers: t.Sequence[str], idle: t.Sequence[str]) -> None:
    for path in changed:
        io_files.write_atomic(path, wanted[path], mode=0o600 if path == run_gather_metrics.REQUEST else 0o644)
    if changed:
        run(["systemctl", "daemon-reload"])
    if idle:
        run(["systemctl", "enable", "--quiet", *timers])
        run(["systemctl", "restart", *idle])


def _remove(changed: t.Sequence[pathlib.Path], timers: t.Sequence[str], left: t.Sequence[pathlib.Path]) -> None:
    services = [timer.replace(".timer", ".service") for timer in timers]
    run(["systemctl", "disable", "--quiet", "--now", *timers], ok=range(256))
    run(["systemctl", "stop", *services], ok=range(256))
    for path in (*changed, *left):
        path.unlink(missing_ok=True)
    run(["systemctl", "daemon-reload"])
    # one that failed
    run(["systemctl", "reset-failed", *timers, *services], ok=range(256))
