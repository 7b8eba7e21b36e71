# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Classifies the differences of a domain: when each takes effect, and which are drift. Reads only."""

from __future__ import annotations

import dataclasses
import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_apply_class, plan_domain, run_look, xml_compare, xml_flatten
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import secret_free, shown
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header, xml_devices

_SOURCE = re.compile(r"\Adevices/disk\[[^\]]*\]/source/@(?:file|dev)\Z")
_REACHABLE = ("running", "paused")
_GIVEN = ("currentMemory", "vcpu/@current")


def facts_of(seen: run_look.Seen, wanted: t.Any, differences: t.Iterable[xml_compare.Difference]) -> plan_apply_class.Facts:
    """The facts that determine the classes of the differences."""
    differences = tuple(differences)
    paths = [difference.path for difference in differences]
    layered = frozenset(difference.path for difference in differences if _layered(difference, seen))
    if seen.live is None:
        return plan_apply_class.Facts(container=seen.config.get("type") == "lxc", layered=layered)
    disks: dict[str, plan_apply_class.Device] = {}
    if any(path.startswith("devices/disk[") for path in paths):
        for document in (seen.config, seen.live, wanted):
            disks.update(_disks(document))
    limits = xml_flatten.flatten(seen.live) if {"currentMemory", "vcpu/@current"} & set(paths) else {}
    return plan_apply_class.Facts(
        container=seen.live.get("type") == "lxc",
        running=True,
        reach=seen.record.state in _REACHABLE,
        memory=_number(limits.get("memory")),
        vcpus=_number(limits.get("vcpu")),
        disks=disks,
        noted=seen.noted,
        layered=layered,
    )


def classify(
    seen: run_look.Seen, wanted: t.Any, differences: t.Sequence[xml_compare.Difference], state: str
) -> tuple[tuple[plan_apply_class.Change, ...], list[dict[str, str | None]]]:
    """Classify the differences of a domain: the changes, and the drift for the result."""
    facts = facts_of(seen, wanted, differences)
    if state == "shutdown":
        # a guest that will be shut down is not changed before
        facts = dataclasses.replace(facts, running=False)
    changes = plan_apply_class.classify_all(differences, facts)
    return changes, drift_of(differences, changes, facts.noted)


def changes_of(changes: t.Sequence[plan_apply_class.Change], others: t.Iterable[dict[str, t.Any]]) -> list[dict[str, t.Any]]:
    """The changes for the result: the impossible ones if there are any, otherwise all that are due."""
    impossible = [change.as_result() for change in changes if change.cls in plan_apply_class.NEVER]
    return impossible or [*others, *(change.as_result() for change in changes if change.due)]


def needs_of(changes: t.Sequence[plan_apply_class.Change]) -> plan_domain.Needs:
    """What the changes need."""
    plan_apply_class.refuse(changes)
    return plan_domain.Needs(*(any(getattr(change, what) for change in changes) for what in ("config", "now", "waits")))


def drift_of(
    differences: t.Iterable[xml_compare.Difference], changes: t.Iterable[plan_apply_class.Change], noted: t.Mapping[str, str | None]
) -> list[dict[str, str | None]]:
    """The changes made outside the collection, for the result.

    Refusals of the guest do not count: changes it refused, and memory or CPUs added while it
    ran that cannot be removed before its next start.
    """
    waits = {change.path for change in changes if change.waits and not change.config and change.path in _GIVEN}
    return [
        shown({key: getattr(difference, key) for key in ("path", "applied", "wanted", "config", "live")})
        for difference in differences
        if difference.outside and difference.path not in waits and noted.get(difference.path, ...) != secret_free(difference.path, difference.wanted)
    ]


def _layered(difference: xml_compare.Difference, seen: run_look.Seen) -> bool:
    """Whether a disk is now a layer over the wanted one, as after a snapshot made outside the collection."""
    if _SOURCE.match(difference.path) is None or difference.wanted is None:
        return False
    wanted = os.path.realpath(difference.wanted)
    forms = {**xml_devices.open_disks(seen.config), **(xml_devices.open_disks(seen.live) if seen.live is not None else {})}
    return any(wanted in io_disk_header.chain(path, forms.get(path)) for path in (difference.config, difference.live) if path and path != difference.wanted)


def _disks(document: t.Any) -> dict[str, plan_apply_class.Device]:
    found = {}
    for element in document.iterfind("devices/disk"):
        target = element.find("target")
        if target is not None:
            found[f"devices/disk[{target.get('dev')}]"] = plan_apply_class.Device(element.get("device", "disk"), target.get("bus", ""))
    return found


def _number(value: str | None) -> int:
    digits = (value or "").partition(" ")[0]
    return int(digits) if digits.isdigit() else 0
