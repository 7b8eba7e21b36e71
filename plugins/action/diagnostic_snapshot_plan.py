# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide what a diagnostic snapshot collects from which hosts, and write it, for the playbook ``diagnostic_snapshot``."""

from __future__ import annotations

import json
import os
import pathlib
import platform
import time
import typing as t

from ansible import release
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_request, run_snapshot
from ansible_collections.reduced.footprint.plugins.plugin_utils.footprint_status import Status
from ansible_collections.reduced.footprint.plugins.plugin_utils.known_secrets import known_secrets
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction

_NOT_ASKED = {"server": False, "services": [], "probes": {}, "cloud": False}
_NO_ANSWER = "does not answer"


class ActionModule(PlanAction):
    """Plan what is asked; with the answers, write the archive."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the questions for each host, or the path of the archive."""
        within = variables["ansible_play_hosts_all"]
        size = plan_request.share(given["host_size"], given["size"], len(within))
        plan_request.check_numbers(given["hours"], given["gather_timeout"])
        status = Status(given["services"], variables)
        if given["answers"] is None:
            return Plan((), values={"ask": {host: status.ask.get(host, _NOT_ASKED) for host in within}, "size_bytes": size})
        known = known_secrets(variables, self._loader)
        unread = [f"NOTE {', '.join(known.unread)}: cannot be read, so these secrets are masked only where their names show them"] if known.unread else []
        report, lines = status.report(given["answers"], float(given["clock_limit"]))
        hosts = {host: _host(given["answers"].get(host) or {}, given["collected"].get(host) or {}) for host in within}
        texts = {"versions.txt": _versions(), "status.txt": "".join(f"{line}\n" for line in lines), "status.json": json.dumps(report, indent=1, sort_keys=True)}
        if self._task.check_mode:
            silent = {host: each.reason for host, each in hosts.items() if not each.file}
            return Plan([*plan_request.silences(silent), "Check mode: no archive was written."], values={"silent": silent})
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path, silent = run_snapshot.write(given["directory"], stamp, hosts, texts, known.values, size)
        found = f"The diagnostic snapshot is in {path} ({size_text(os.path.getsize(path))}, {len(hosts) - len(silent)} of {len(hosts)} hosts)."
        problems = [FootprintError("no host answered.", hint="First check the network of this control node.")] if len(silent) == len(hosts) else []
        return Plan([*plan_request.silences(silent), *unread, found], problems=problems, values={"path": path, "silent": silent})


def _host(answer: t.Mapping[str, t.Any], collected: t.Mapping[str, t.Any]) -> run_snapshot.Host:
    reason = collected.get("reason") or answer.get("reason") or ("" if collected.get("file") else _NO_ANSWER)
    return run_snapshot.Host(str(reason), str(collected.get("file") or ""), answer)


def _versions() -> str:
    """Return the versions on the control node; a checkout of the collection has none."""
    manifest = pathlib.Path(__file__).resolve().parents[2] / "MANIFEST.json"
    mine = json.loads(manifest.read_text("utf-8"))["collection_info"]["version"] if manifest.is_file() else "from a checkout"
    return f"ansible-core {release.__version__}\nreduced.footprint {mine}\nPython {platform.python_version()}\n"
