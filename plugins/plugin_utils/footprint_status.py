# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of a footprint from the inventory and the answers of its hosts, for action plugins."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_status, plan_status_answers, plan_status_summary


class Status:
    """Which hosts are asked, and the report on their answers.

    :arg services: that the operator declares.
    :arg variables: those of the host of an action plugin, with ``hostvars`` and ``groups``.
    :raises InputError: an invalid service.
    """

    def __init__(self, services: t.Sequence[t.Mapping[str, t.Any]], variables: t.Mapping[str, t.Any]) -> None:
        self._hostvars, self._within = variables["hostvars"], variables["ansible_play_hosts_all"]
        #: ``ask`` is host → the options of ``status_info``.
        self._members, self.ask = plan_status_answers.asked_in(variables, services)

    def report(self, answers: t.Mapping[str, t.Any], clock_limit: float) -> tuple[dict[str, t.Any], list[str]]:
        """Return the report, and its lines for the operator.

        :arg answers: host → ``host`` as returned by ``status_info``.
        """
        vm_hosts = {host: str(self._hostvars[host].get("vm_host") or "") for host in self.ask}
        report = plan_status.build_status(plan_status_answers.read_answers(self.ask, answers, self._members, vm_hosts, clock_limit))
        outside = [host for host in self.ask if host not in self._within]
        # they cannot be distinguished from those that do not answer
        limit = [f"NOTE --limit: {', '.join(outside)} excluded, and reported as if they did not answer"] if outside else []
        return report, [*plan_status_summary.summary(report), *limit]
