# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: timers that write the state of this host as metrics."""

from __future__ import annotations

import json
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, run_gather_metrics
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._service import run_service_files

_KEYS = ("server", "services", "cloud", "probes", "cluster", "environment", "votes", "directory")


def request(given: t.Mapping[str, t.Any]) -> str:
    """Return the file that the timers read."""
    return json.dumps(model_schema.STATE_METRICS.mark({key: given[key] for key in _KEYS}), indent=1, sort_keys=True) + "\n"


def apply(given: t.Mapping[str, t.Any], *, check_mode: bool, host: t.Any = None) -> dict[str, t.Any]:
    """Install and start the timers.

    :arg given: the options of ``state_metrics``.
    """
    intervals = {plan_gatherers.SERVICES: given["services_seconds"], plan_gatherers.MACHINE: given["machine_seconds"]}
    for gatherer, seconds in intervals.items():
        if seconds < 1:
            raise model_errors.InputError(f"{seconds} is not a number of seconds above 0.", f"{gatherer}_seconds", "Use 20, for example.")
    code = io_units.code_path() if check_mode else io_units.keep_code()
    texts = plan_gatherers.units(intervals, str(code), sys.executable, given["slice"])
    # probes may contain passwords
    files = [{"path": str(run_gather_metrics.REQUEST), "content": request(given), "mode": "0600"}]
    files += [{"path": str(io_units.UNITS / name), "content": text} for name, text in texts.items()]
    timers = [name for name in texts if name.endswith(".timer")]
    units = [{"name": name, "enabled": True, "started": True, "restart_after": [str(io_units.UNITS / name)]} for name in timers]
    done = run_service_files.configure({"files": files, "units": units}, check_mode=check_mode, host=host)
    return {key: done[key] for key in ("changed", "actions", "diff")}
