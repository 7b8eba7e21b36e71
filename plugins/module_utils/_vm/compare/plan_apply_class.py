# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a difference takes effect: immediately, at the next start, or never. No I/O."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_compare
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import secret_free, shown

LIVE = "live"
NEXT_BOOT = "next_boot"
RECREATE = "recreate"
REFUSED = "refused"
NEVER = (RECREATE, REFUSED)

_DEVICE = re.compile(r"\Adevices/(?P<kind>[a-z]+)\[(?P<key>[^\]]*)\](?:/(?P<rest>.+))?\Z")
# buses with hotplug support
_PLUGGABLE_BUSES = ("virtio", "scsi", "usb")
_MEDIA = ("cdrom", "floppy")
# parts of a NIC that libvirt can change in place
_NIC_PARTS = re.compile(r"\A(@type|(source|link|vlan|virtualport|filterref|bandwidth)(/.*)?)\Z")
_MEDIA_PARTS = re.compile(r"\A(@type|source(/.*)?)\Z")
_TEXTS = ("title", "description")


@dataclasses.dataclass(frozen=True)
class Device:
    """The properties of a disk that determine the class of its changes."""

    device: str = "disk"
    bus: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """The facts that determine the class of a change.

    ``memory`` (KiB) and ``vcpus`` are the maximums of the running guest; ``disks`` maps a path
    ``devices/disk[..]`` to its properties; ``noted`` are changes this guest refused before
    (path → requested value). A guest that is saved, suspended or crashed counts as
    ``running`` and not ``reach``-able. ``layered`` are paths of sources that are now a layer over the
    wanted one (a snapshot): reverting would lose the data written since.
    """

    container: bool = False
    running: bool = False
    reach: bool = True
    memory: int = 0
    vcpus: int = 0
    disks: t.Mapping[str, Device] = dataclasses.field(default_factory=dict)
    noted: t.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    layered: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Change:
    """A difference with its class.

    ``config``: the definition must change. ``now``: the running guest must change.
    ``waits``: the running guest keeps the old value until it is restarted.
    """

    path: str
    cls: str
    before: str | None
    after: str | None
    applied: str | None
    config: bool = False
    now: bool = False
    waits: bool = False

    @property
    def due(self) -> bool:
        """Whether this run must change anything."""
        return self.config or self.now

    @property
    def device(self) -> str | None:
        """The path of the device that the change belongs to, ``None`` outside of devices."""
        found = _DEVICE.match(self.path)
        return f"devices/{found.group('kind')}[{found.group('key')}]" if found else None

    @property
    def whole(self) -> bool:
        """Whether it concerns a whole device, not a part of one."""
        return self.path == self.device

    def as_result(self) -> dict[str, str | None]:
        """For the result of a module, without passwords."""
        return shown({"path": self.path, "class": self.cls, "before": self.before, "after": self.after, "applied": self.applied})

    def put_off(self) -> Change:
        """The same change, deferred to the next start after the guest refused it."""
        return dataclasses.replace(self, cls=NEXT_BOOT, now=False, waits=True)


def classify_all(differences: t.Iterable[xml_compare.Difference], facts: Facts) -> tuple[Change, ...]:
    """Classify all differences; parts of a device that is attached at the next start wait with it."""
    changes = [classify(difference, facts) for difference in differences]
    waiting = {change.path for change in changes if change.whole and change.waits}
    return tuple(
        dataclasses.replace(change, cls=NEXT_BOOT, now=False) if change.cls == LIVE and not change.whole and change.device in waiting else change
        for change in changes
    )


def classify(difference: xml_compare.Difference, facts: Facts) -> Change:
    """The class of one difference.

    ``live`` means that it needs no restart, ``next_boot`` that it takes effect at the
    next start; a VM that is off has only the latter. A change that the guest refused is not requested
    again before its next start.
    """
    running = facts.running and difference.live_differs
    before = difference.live if running and not difference.config_differs else difference.config
    cls = _class_of(difference, facts)
    if cls == LIVE and running and facts.noted.get(difference.path, ...) == secret_free(difference.path, difference.wanted):
        cls = NEXT_BOOT
    if facts.running and facts.reach and not difference.live_differs and cls == NEXT_BOOT:
        # only the definition was changed, the running guest is correct
        cls = LIVE
    return Change(
        path=difference.path,
        cls=cls,
        before=before,
        after=difference.wanted,
        applied=difference.applied,
        config=difference.config_differs,
        now=running and cls == LIVE,
        waits=running and cls == NEXT_BOOT,
    )


def refuse(changes: t.Iterable[Change]) -> None:
    """Refuse changes that are not possible."""
    for change in changes:
        if change.cls == RECREATE:
            raise model_errors.RefusedError(
                f"is {change.before or 'not set'}, wanted is {change.after or 'none'}; this cannot be changed in an existing VM.",
                change.path,
                "Restore the old value, or remove the VM with state: absent (its disks are kept) and create it again with adopt_disks.",
            )
        if change.cls == REFUSED and change.path.endswith(("/source/@file", "/source/@dev")):
            raise model_errors.RefusedError(
                f"is {change.before}, a layer over the wanted {change.after}: reverting to that would lose the data written since.",
                change.path,
                "Merge the layer (virsh blockcommit --active --pivot, or delete its snapshot), then run again.",
            )
        if change.cls == REFUSED:
            raise model_errors.RefusedError(
                f"is {change.before or 'not set'}, wanted is {change.after or 'none'}; the format of an existing volume cannot be changed.",
                change.path,
                "Restore the old format, or give the disk another name and copy the data.",
            )


def _class_of(difference: xml_compare.Difference, facts: Facts) -> str:
    path = difference.path
    if path in ("uuid", "name"):
        return RECREATE
    if path == "@type" and "lxc" in (difference.config, difference.wanted) and difference.config != difference.wanted:
        return RECREATE
    if path in facts.layered:
        return REFUSED
    found = _DEVICE.match(path)
    if found and found.group("kind") == "disk" and found.group("rest") == "driver/@type":
        if difference.applied is not None and difference.wanted is not None and difference.wanted != difference.applied:
            return REFUSED
    if not facts.running or not facts.reach:
        return NEXT_BOOT
    if path in _TEXTS:
        return LIVE
    if path == "currentMemory":
        return LIVE if 0 < _number(difference.wanted) <= facts.memory else NEXT_BOOT
    if path == "vcpu/@current":
        return LIVE if 0 < _number(difference.wanted) <= facts.vcpus else NEXT_BOOT
    if not found:
        return NEXT_BOOT
    if found.group("kind") == "interface":
        if found.group("rest") is None:
            return LIVE
        return LIVE if not facts.container and _NIC_PARTS.match(found.group("rest")) else NEXT_BOOT
    if found.group("kind") == "disk" and not facts.container:
        return _class_of_disk(facts.disks.get(f"devices/disk[{found.group('key')}]", Device()), found.group("rest"))
    return NEXT_BOOT


def _class_of_disk(disk: Device, part: str | None) -> str:
    if disk.device in _MEDIA:
        # the medium can be changed at any time, the drive cannot
        return LIVE if part is not None and _MEDIA_PARTS.match(part) else NEXT_BOOT
    return LIVE if part is None and disk.bus in _PLUGGABLE_BUSES else NEXT_BOOT


def _number(value: str | None) -> int:
    """The number of ``2`` or ``4194304 KiB``; 0 for anything else."""
    found = re.match(r"\A([0-9]+)( KiB)?\Z", value or "")
    return int(found.group(1)) if found else 0
