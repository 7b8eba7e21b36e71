# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a running guest, as far as the guest and the driver accept them."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work, xml_device_forms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_live import LiveDomain, LiveRefusal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_apply_class, plan_domain, run_look, xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import secret_free

# detaching comes before attaching: it frees addresses
_ORDER = ("title", "description", "currentMemory", "vcpu/@current")
_NO_EFFECT = "the driver reported success without any effect"


def change_live(work: run_work.Work, timeout: float, done: list[str]) -> None:
    """Apply the changes that need no restart; refused changes wait for the next start.

    A refusal is recorded in the metadata of the running domain, so it is not requested again before the next start.

    :raises BackendError: any other failure.
    """
    host, seen = work.host, run_work.need(work.seen)
    domain = LiveDomain(host, work.uuid, timeout)
    running = xml_domain.parse(domain.xml())
    refused: dict[str, str] = {}
    for group in _groups(work.changes):
        try:
            _apply(domain, group, running, work)
        except LiveRefusal as refusal:
            refused.update((change.path, refusal.message) for change in group)
        if plan_domain.CHANGE_LIVE not in done:
            done.append(plan_domain.CHANGE_LIVE)
    after = run_look.Seen(run_work.need(host.domain(work.uuid)))
    left = {difference.path for difference in after.compare(work.document).differences if difference.live_differs}
    for change in work.changes:
        if change.now and change.path in left:
            refused.setdefault(change.path, _NO_EFFECT)
    if refused:
        noted = {**seen.noted, **{change.path: secret_free(change.path, change.after) for change in work.changes if change.path in refused}}
        text = xml_metadata.note_text(running, noted)
        host.set_metadata(work.uuid, xml_metadata.LIVE_NAMESPACE, xml_metadata.ELEMENTS[xml_metadata.LIVE_NAMESPACE], text, live=True)
        work.notes += [f"{path} waits for its next start: {message.rstrip('.')}" for path, message in refused.items()]
    work.changes = tuple(change.put_off() if change.path in refused else change for change in work.changes)
    work.waits = bool(left) or work.steps is not None and work.steps.restart_required
    work.result.changes = [*work.other_changes, *(change.as_result() for change in work.changes if change.due or change.path in refused)]


def _groups(changes: t.Iterable[plan_apply_class.Change]) -> list[list[plan_apply_class.Change]]:
    """The changes to apply now, grouped by device."""
    groups: dict[str, list[plan_apply_class.Change]] = {}
    for change in changes:
        if change.now:
            groups.setdefault(change.device or change.path, []).append(change)

    def rank(group: list[plan_apply_class.Change]) -> tuple[int, str]:
        first = group[0]
        if first.path in _ORDER:
            return _ORDER.index(first.path), ""
        return len(_ORDER) + (2 if first.whole and first.after is not None else 1 if first.whole else 0), first.path

    return sorted(groups.values(), key=rank)


def _apply(domain: LiveDomain, group: t.Sequence[plan_apply_class.Change], running: t.Any, work: run_work.Work) -> None:
    change = group[0]
    if change.path in ("title", "description"):
        domain.set_text(change.path, change.after)
    elif change.path == "currentMemory":
        domain.set_memory(int((change.after or "").partition(" ")[0]))
    elif change.path == "vcpu/@current":
        domain.set_vcpus(int(change.after or ""))
    elif not change.whole:
        parts = {part.path[len(change.device or "") + 1 :].partition("/")[0] for part in group}
        device, wanted = xml_device_forms.device(running, change.device or ""), xml_device_forms.device(work.document, change.device or "")
        if device is None or wanted is None:
            raise LiveRefusal("the device does not exist")
        domain.update(xml_device_forms.text(xml_device_forms.updated(device, wanted, {"@type", *parts})))
    elif change.after is None:
        device = xml_device_forms.device(running, change.path)
        if device is not None:
            domain.detach(xml_device_forms.text(device), lambda text: xml_device_forms.device(xml_domain.parse(text), change.path) is None)
    else:
        placed = xml_device_forms.device(work.config if work.config is not None else run_work.need(work.seen).config, change.path)
        wanted = placed if placed is not None else xml_device_forms.device(work.document, change.path)
        # first with the address of the definition, so that it has the same name after a restart
        domain.attach(xml_device_forms.text(wanted), xml_device_forms.text(xml_device_forms.without_address(wanted)))
