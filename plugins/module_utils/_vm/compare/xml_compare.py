# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the wanted, last applied, defined and running documents of one domain.

Elements that neither the wanted nor the applied document contains are ignored (see :mod:`xml_rules`);
order and notation make no difference (see :mod:`xml_normal`). Most domains have no differences, which
is detected in a fraction of the time that a whole comparison (:mod:`xml_differences`) takes.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_normal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_comparison import Comparison

# elements whose attributes must be normalized before they are compared
_LOOSE = frozenset(("vcpu", "interface", "source", "graphics", "memory", "currentMemory", "domain"))
_OWNED = frozenset(("disk", "interface", "filesystem"))
# elements with several children of one name
_BRANCHING = frozenset(("os", "devices"))
_REMOVABLE = frozenset(("cdrom", "floppy"))
# parts of a device that can change while it runs
_LIVE_PARTS = ("source", "target", "vlan", "link", "model")

_Echo = t.Mapping[str, t.Optional[str]]


def compare(
    wanted: t.Any, applied: t.Any | None, config: t.Any, live: t.Any | None = None, live_applied: t.Any | None = None, echo: _Echo | None = None
) -> Comparison:
    """The differences that must be corrected.

    All documents are elements as ``xml_domain.parse`` returns them; the same object given twice is read
    once. Without ``echo`` (``None``: the changes libvirt made were not recorded)
    devices that the template does not name are ignored.

    :arg applied: the document of the last definition; ``None`` for an unmanaged domain.
    :arg live: the running configuration; ``None`` when it is off.
    :arg live_applied: the document applied when it was started; ``None`` when unknown.
    :arg echo: where the definition differed from ``applied`` right after it was defined, see :func:`echo_of`.
    """
    if live_applied is None and live is not None or applied is not wanted or live is not None and live_applied is not wanted:
        quiet = False
    else:
        quiet = echo is not None and _fits("", wanted, config, echo) and _settled(wanted, config, echo) and (live is None or _runs(wanted, live))
    if quiet:
        return Comparison((), ())
    # imported only where something differs: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_differences import differences

    return differences(wanted, applied, config, live, live_applied, echo)


def echo_of(applied: t.Any, config: t.Any) -> dict[str, str | None]:
    """Where a definition differs from the applied document, read back right after it was defined: path → value, ``None`` for dropped elements.

    Parts owned by a BMC emulator are not recorded: libvirt does not change them, so a difference there is the emulator's.
    Devices that the template does not name, although it has others of their kind, are recorded
    too: they existed when the domain was adopted, and are kept.
    """
    # imported only after a definition: each import costs every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_differences import echo_between

    return echo_between(applied, config)


def _fits(path: str, wanted: t.Any, config: t.Any, echo: _Echo) -> bool:
    """Whether the definition matches the wanted element; may report a mismatch that ``differences`` accepts, never the reverse."""
    attributes = config.attrib
    loose = wanted.tag in _LOOSE
    if not loose:
        for name, value in wanted.attrib.items():
            if attributes.get(name) != value:
                loose = True
                break
        else:
            text = wanted.text
            loose = bool(text and text != config.text or "unit" in attributes and "unit" not in wanted.attrib)
    if loose and not _equivalent(path, wanted, config, echo):
        return False
    if not len(wanted):
        return True
    prefix = f"{path}/" if path else ""
    children = list(wanted.iterchildren("*"))
    tags = [child.tag for child in children]
    if path not in _BRANCHING and len(set(tags)) == len(tags) and xml_normal.KEYS.keys().isdisjoint(tags):
        # the usual case: unique tags need no keys
        return all(_child_fits(prefix + child.tag, child, config.find(child.tag), echo) for child in children)
    mine, others = xml_normal.segments(wanted), xml_normal.segments(config)
    if not all(_child_fits(prefix + name, child, others.get(name), echo) for name, child in mine.items()):
        return False
    if path == "os":
        return [name for name in mine if name.startswith("boot")] == [name for name in others if name.startswith("boot")]
    if path == "devices":
        kinds = {child.tag for child in wanted if _owned(child)}
        return not any(name not in mine and child.tag in kinds and _owned(child) and prefix + name not in echo for name, child in others.items())
    return True


def _child_fits(path: str, wanted: t.Any, config: t.Any | None, echo: _Echo) -> bool:
    if config is None:
        return echo.get(path, "") is None
    return _fits(path, wanted, config, echo)


def _equivalent(path: str, wanted: t.Any, config: t.Any, echo: _Echo) -> bool:
    text = xml_normal.text_of(wanted)
    if text and xml_normal.text_of(config) != text and echo.get(path, "") != xml_normal.text_of(config):
        return False
    found = xml_normal.attributes_of(config, None)
    for name, value in xml_normal.attributes_of(wanted, None).items():
        if found.get(name) != value and not (name == "unit" and text):
            full = f"{path}/@{name}" if path else f"@{name}"
            if full not in echo or echo[full] != found.get(name):
                return False
    return True


def _settled(wanted: t.Any, config: t.Any, echo: _Echo) -> bool:
    """Checks that span several elements: current memory, boot order of devices, media."""
    memory = wanted.find("memory")
    if memory is not None and wanted.find("currentMemory") is None:
        current = config.find("currentMemory")
        if current is not None and xml_normal.text_of(current) != xml_normal.text_of(memory):
            return False
    if wanted.find("devices/*/boot") is not None or config.find("devices/*/boot") is not None:
        return False
    drives = {drive.find("target").get("dev"): drive for drive in config.iterfind("devices/disk") if drive.get("device") in _REMOVABLE}
    for disk in wanted.iterfind("devices/disk"):
        if disk.get("device") in _REMOVABLE:
            drive = drives.get(disk.find("target").get("dev"))
            if drive is None or (drive.find("source") is None) != (disk.find("source") is None):
                return False
    return True


def _runs(wanted: t.Any, live: t.Any) -> bool:
    """Whether the running domain, started with the wanted document, still matches it in all parts that can change."""
    for tag in ("title", "description", "vcpu"):
        mine, others = wanted.find(tag), live.find(tag)
        if mine is not None and (others is None or not _equivalent(tag, mine, others, {})):
            return False
    memory, current = wanted.find("currentMemory"), live.find("currentMemory")
    if memory is None:
        memory = wanted.find("memory")
    if memory is not None and (current is None or xml_normal.text_of(memory) != xml_normal.text_of(current)):
        return False
    mine, others = _owned_devices(wanted), _owned_devices(live)
    kinds = {device.tag for device in mine.values() if _owned(device)}
    if any(name not in mine and device.tag in kinds and _owned(device) for name, device in others.items()):
        return False
    return all(name in others and _device_runs(name, device, others[name]) for name, device in mine.items())


def _device_runs(name: str, wanted: t.Any, live: t.Any) -> bool:
    if wanted.get("device") in _REMOVABLE:
        return True
    kind = xml_normal.attributes_of(wanted, None).get("type")
    if kind is not None and kind != xml_normal.attributes_of(live, None).get("type"):
        return False
    for tag in _LIVE_PARTS:
        mine = wanted.find(tag)
        if mine is not None and not (tag == "target" and wanted.tag == "interface"):
            others = live.find(tag)
            if others is None or not _fits(f"{name}/{tag}", mine, others, {}):
                return False
    return True


def _owned_devices(document: t.Any) -> dict[str, t.Any]:
    devices = document.find("devices")
    return {} if devices is None else xml_normal.segments([device for device in devices if device.tag in _OWNED])


def _owned(device: t.Any) -> bool:
    return device.tag in _OWNED and device.get("device") not in _REMOVABLE
