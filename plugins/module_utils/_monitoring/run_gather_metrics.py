# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of a timer: gather a part of the state of this host, and write it as metrics for the exporter."""

from __future__ import annotations

import pathlib
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_status
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, plan_metrics

REQUEST = pathlib.Path("/var/lib/reduced.footprint/state_metrics.json")


def run(gatherer: str, request: pathlib.Path = REQUEST, gather: t.Callable[[t.Mapping[str, t.Any]], dict[str, t.Any]] = run_status.gather) -> None:
    """Gather once."""
    given = model_schema.STATE_METRICS.load(request.read_text("utf-8"), request)
    parts = plan_gatherers.own_parts(gather(plan_gatherers.questions(given, gatherer)), gatherer)
    content = plan_metrics.exposition(parts, time.time(), given["votes"], gatherer)
    io_files.write_atomic(pathlib.Path(given["directory"], f"footprint_{gatherer}.prom"), content, mode=0o644)


if __name__ == "__main__":
    run(sys.argv[1])
