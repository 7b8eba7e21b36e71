# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan how a compute server is emptied of its instances: which are migrated, stopped or remain, and the reasons against it. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_instances import MIGRATE, START, STOP, Instance, Record, Service, Step
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, RefusedError

#: The reason with which a service is disabled, also by a run whose record was lost; one that was disabled for another reason remains disabled.
REASON = "maintenance by reduced.footprint"
#: Nova enables a service again that it has disabled itself, for example while libvirt is restarted.
_BY_NOVA = "AUTO: "
_LIVE = ("ACTIVE", "PAUSED")
#: They have no process and keep their disks.
OFF = ("SHUTOFF", "SUSPENDED", "SHELVED", "SOFT_DELETED")
#: They are on no server.
_NOWHERE = ("SHELVED_OFFLOADED", "DELETED")


class Wanted(t.NamedTuple):
    """The wishes of the operator.

    :arg server: name in Nova of the server to empty.
    :arg stop: whether instances that cannot be migrated live are stopped.
    :arg removal: whether nothing may remain, not even an instance that is off.
    """

    server: str
    stop: bool = False
    removal: bool = False


class Evacuation(t.NamedTuple):
    """The plan.

    :arg record: what is done, and undone afterwards.
    :arg lines: text for the operator.
    :arg problems: the reasons against it; with one of them nothing is changed.
    """

    record: Record
    lines: t.Sequence[str]
    problems: t.Sequence[FootprintError]


def plan(wanted: Wanted, services: t.Sequence[Service], instances: t.Sequence[Instance], begun: Record | None = None) -> Evacuation:
    """Decide what happens to the instances of a server.

    :arg services: all compute services.
    :arg instances: those on the server.
    :arg begun: the record of an interrupted run, whose steps are kept for the instances that have left the server or are off.
    """
    own = next((one for one in services if one.host == wanted.server), None)
    if own is None:
        return Evacuation(begun or Record(False, ()), [f"Nova has no compute service of {wanted.server}, and no instances on it"], ())
    others = sorted(one.host for one in services if one.enabled and one.up and one.host != wanted.server)
    recorded = {step.id: step for step in begun.steps} if begun else {}
    steps, lines, problems = dict(recorded), list[str](), list[FootprintError]()
    for one in sorted(instances, key=lambda one: one.name):
        if one.status in _NOWHERE or one.status in OFF and not one.task and one.id in recorded:
            continue
        step = _step(wanted, one, others)
        if isinstance(step, Step):
            # not as an interrupted run has planned it: the consent or the other servers may have changed
            steps[one.id] = step
            if not own.up:
                problems.append(RefusedError(f"nova-compute of {wanted.server} does not answer, so instance {one.name} cannot be migrated.", hint=_LOG))
        elif isinstance(step, FootprintError):
            problems.append(step)
        else:
            lines.append(step)
    disable = bool(begun and begun.disable) or own.enabled or own.reason == REASON or own.reason.startswith(_BY_NOVA)
    record = Record(disable, tuple(steps.values()))
    back = "" if wanted.removal else ", and returns afterwards"
    return Evacuation(record, [*(f"{step.text}{back}" for step in record.steps), *lines], problems)


_LOG = "Check /var/log/nova/nova-compute.log on it."


def _step(wanted: Wanted, one: Instance, others: t.Sequence[str]) -> Step | FootprintError | str:
    """Return the step of an instance, the reason against it, or a line about one that remains."""
    if one.task:
        return RefusedError(f"instance {one.name} is being changed ({one.task}).", hint="Run this again when it is done.")
    if one.status in OFF:
        if not wanted.removal:
            return f"instance {one.name} is off ({one.status}), and remains"
        hint = f"Delete it, or start it, so that it is migrated live. Cold migration from {wanted.server} is not set up."
        return RefusedError(f"instance {one.name} is off ({one.status}), and cannot be migrated.", hint=hint)
    if one.status not in _LIVE:
        hint = f"See `openstack server show {one.id}`; bring it to ACTIVE or SHUTOFF, or delete it."
        return RefusedError(f"instance {one.name} is {one.status}, and cannot be migrated live.", hint=hint)
    if others:
        return Step(one.id, one.name, MIGRATE, wanted.stop, others[0] if len(others) == 1 else "")
    if wanted.stop and one.status == "ACTIVE" and not wanted.removal:
        return Step(one.id, one.name, STOP, True)
    hint = "See `openstack compute service list`."
    return RefusedError(f"instance {one.name} cannot be migrated live: no other compute service is enabled and answers.", hint=hint)


def restoring(record: Record, server: str, found: t.Mapping[str, Instance | None]) -> dict[str, str]:
    """Return what brings each instance back: its ID → ``migrate``, ``start``, or the reason why it is left as it is.

    :arg found: ID → the instance, ``None`` if it was deleted.
    """
    return {step.id: _back(step, server, found.get(step.id)) for step in record.steps}


def _back(step: Step, server: str, one: Instance | None) -> str:
    if one is None:
        return "was deleted"
    if one.host != server:
        return MIGRATE if one.status in _LIVE else f"is {one.status} on {one.host or 'no server'}"
    if one.status in _LIVE:
        return ""
    # only a run that may stop it has done so
    return START if one.status == "SHUTOFF" and (step.stop or step.action == STOP) else f"is {one.status}"
