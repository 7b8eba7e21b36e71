# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NICs and disks of a VM, and their names."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size

DISK_BUSES = {"virtio": "vd", "scsi": "sd", "sata": "sd", "usb": "sd"}

_LEAST_DISK = model_size.MIB
_MOST_DISK = 1024 * model_size.TIB

# valid as libvirt domain name, file name, part of a host name and source of an Ansible group name
_NAME = re.compile(r"\A[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9_-])?\Z")
_INTERFACE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,14}\Z")
# as it is derived and usually written; the others are parsed
_MAC = re.compile(r"\A[0-9a-f][02468ace](:[0-9a-f]{2}){5}\Z")
_TARGET = re.compile(r"\A([a-z]{2})[a-z]{1,2}\Z")
_SERIAL = re.compile(r"\A[A-Za-z0-9_. -]{1,36}\Z")
_KEY = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]*\Z")

NIC_KEYS = frozenset(("name", "bridge", "network", "vlan", "mac", "model", "virtualport"))
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# suffix of derived volume names
_ENDINGS = {"raw": ".img", "qcow2": ".qcow2", "dir": ""}
_TWINS = {"raw": "qcow2", "qcow2": "raw"}
DISK_KEYS = frozenset(("size", "pool", "format", "image", "backing", "name", "target", "bus", "protected", "serial", "mount", "shareable"))


@dataclasses.dataclass(frozen=True)
class Nic:
    """A NIC, either on a ``bridge`` of the host or in a libvirt ``network``.

    ``mac`` is derived from ``name``, or from the position in the list without a name. ``fixed``: the
    MAC is set in the details.
    """

    bridge: str | None
    network: str | None
    vlan: int | None
    mac: str
    model: str
    virtualport: str | None
    free: t.Mapping[str, t.Any]
    name: str | None = None
    fixed: bool = False

    @property
    def kernel_bridge(self) -> str | None:
        """The bridge if it is one of the kernel; those of Open vSwitch, which a ``virtualport`` is on, cannot be listed in the same way."""
        return None if self.virtualport else self.bridge


@dataclasses.dataclass(frozen=True)
class Disk:
    """A volume of a VM.

    ``size`` is in bytes, ``None`` for the size of the base image. ``name`` is the name of the volume in
    its pool, ``pool`` is ``None`` for the pool of the call. ``mount`` is the mount point in a container
    (``/`` for the first disk), ``None`` for machines. ``twin`` is the derived name of the volume
    in the other format, ``None`` if ``name`` is set in the details: a changed format must not create a new
    empty disk. ``named`` and ``placed``: ``name`` and ``target`` are set in the details; otherwise
    they are derived from the position in the list. A ``shareable`` disk may belong to several machines.
    """

    size: int | None
    pool: str | None
    format: str
    image: str | None
    backing: bool
    name: str
    target: str
    bus: str
    protected: bool
    serial: str | None
    mount: str | None
    free: t.Mapping[str, t.Any]
    twin: str | None = None
    named: bool = False
    placed: bool = False
    shareable: bool = False


def parse_name(value: t.Any, path: str) -> str:
    """Return a name that is valid for domains, files and hosts; whole numbers are valid names."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise model_errors.InputError(f"{model_errors.shown(value)} is negative.", path, "Use a name, or a number from 0.")
        value = str(value) if value < 10**63 else None
    if not isinstance(value, str) or not _NAME.match(value):
        raise model_errors.InputError(
            f"{model_errors.shown(value)} is not a valid name.",
            path,
            "Use up to 63 letters, digits, '.', '_' and '-', starting with a letter or digit and not ending with a dot.",
        )
    return value


def parse_bool(value: t.Any, path: str) -> bool:
    """Return a boolean, accepting the spellings of Ansible and YAML."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("yes", "true", "on", "1"):
        return True
    if word in ("no", "false", "off", "0"):
        return False
    raise model_errors.InputError(f"{model_errors.shown(value)} is neither true nor false.", path, "Write true or false.")


def check_keys(entry: t.Mapping[str, t.Any], path: str) -> None:
    """Refuse keys that are not valid as template variables."""
    for key in entry:
        if not isinstance(key, str) or not _KEY.match(key):
            raise model_errors.InputError(
                f"{model_errors.shown(key)} is not a valid template variable.", path, "Use letters, digits and '_', starting with a letter or '_'."
            )


def refuse_slip(entry: t.Mapping[str, t.Any], missing: t.Sequence[str], path: str) -> None:
    """Refuse a key that is similar to a missing one."""
    # imported only before an error: each import slows down every run
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import refuse_slips

    refuse_slips(entry, missing, path, 0.6)


def parse_nics(value: t.Any, path: str, mac_of: t.Callable[[t.Union[str, int]], str]) -> tuple[Nic, ...]:
    """Return the NICs of a VM; ``mac_of`` derives the MAC from a NIC's name, or from its position without a name."""
    nics = []
    names = model_errors.Unique()
    for index, entry in enumerate(_entries(value, path)):
        name = parse_name(entry["name"], f"{path}[{index}].name") if entry.get("name") not in (None, "") else None
        names.check(name, f"{path}[{index}].name", "Give every NIC its own name.")
        nics.append(_parse_nic(entry, f"{path}[{index}]", name, mac_of(index if name is None else name)))
    return tuple(nics)


def parse_disks(value: t.Any, path: str, vm_name: str, hypervisor: str) -> tuple[Disk, ...]:
    """Return the disks of a VM in their order; the VM boots from the first one."""
    disks = []
    letters: dict[str, int] = {}
    for index, entry in enumerate(_entries(value, path)):
        disks.append(_parse_disk(entry, f"{path}[{index}]", index, vm_name, hypervisor, letters))
    disks = free_targets(disks, path)
    once = model_errors.Unique().check
    for index, disk in enumerate(disks):
        for name, what in ((disk.target, "target"), (disk.mount, "mount")):
            once(name, f"{path}[{index}].{what}", f"Give every disk its own {what}.", what)
    return tuple(disks)


def free_targets(disks: t.Sequence[Disk], path: str, kept: t.Collection[int] = ()) -> list[Disk]:
    """Return the disks with unique targets, by changing derived targets that conflict.

    A derived target conflicts if another disk has it, or if it sorts before the target of an earlier disk
    that keeps its target. Such a disk gets the letter after the last used one on its bus, because it
    must not precede the boot disk.

    The first disk on its bus is never changed unless targets of other disks are kept, because the VM would then
    boot from another disk than the details suggest.

    :arg kept: positions of disks that keep their target as if it was set in the details.
    """
    settled = list(disks)
    taken = {disk.target for index, disk in enumerate(disks) if disk.placed or index in kept}
    waiting = []
    for index, disk in enumerate(disks):
        if disk.placed or index in kept:
            continue
        front = [place for place, each in enumerate(disks[:index]) if kept and each.target[:2] == disk.target[:2]]
        before = any(place in waiting or place in kept and disks[place].target > disk.target for place in front)
        if before or disk.target in taken and (kept or not disk.target.endswith("a")):
            waiting.append(index)
            continue
        taken.add(disk.target)
    for index in waiting:
        prefix = DISK_BUSES[disks[index].bus]
        last = max((_LETTERS.index(name[2]) for name in taken if name.startswith(prefix) and len(name) == 3), default=-1)
        names = [f"{prefix}{letter}" for letter in _LETTERS[last + 1 :] + _LETTERS if f"{prefix}{letter}" not in taken]
        if not names:
            raise model_errors.InputError("is the 27th disk on its bus.", f"{path}[{index}]", "Use at most 26 disks per bus.")
        settled[index] = dataclasses.replace(disks[index], target=names[0])
        taken.add(names[0])
    return settled


def _entries(value: t.Any, path: str) -> list[t.Mapping[str, t.Any]]:
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not a list.", path, "Use a list of mappings.")
    for index, entry in enumerate(value):
        if not isinstance(entry, t.Mapping):
            raise model_errors.InputError(f"is {model_errors.kind_of(entry)}, not a mapping.", f"{path}[{index}]", "Write each entry as a mapping.")
        check_keys(entry, f"{path}[{index}]")
    return list(value)


def _match(entry: t.Mapping[str, t.Any], key: str, pattern: re.Pattern[str], path: str, hint: str) -> str | None:
    value = entry.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or not pattern.match(value):
        raise model_errors.InputError(f"{model_errors.shown(value)} is not a valid {key}.", f"{path}.{key}", hint)
    return value


def _parse_nic(entry: t.Mapping[str, t.Any], path: str, name: str | None, derived_mac: str) -> Nic:
    bridge = _match(entry, "bridge", _INTERFACE, path, "Use the name of a bridge of the host, up to 15 characters.")
    network = _match(entry, "network", _NAME, path, "Use the name of a libvirt network.")
    if bridge is None and network is None:
        refuse_slip(entry, ("bridge", "network"), path)
    if (bridge is None) == (network is None):
        raise model_errors.InputError(
            "has neither a bridge nor a network." if bridge is None else "has both a bridge and a network.", path, "Set exactly one of the two."
        )
    vlan = entry.get("vlan")
    if isinstance(vlan, str) and re.match(r"\A[0-9]{1,4}\Z", vlan):
        vlan = int(vlan)
    if vlan is not None and (isinstance(vlan, bool) or not isinstance(vlan, int) or not 1 <= vlan <= 4094):
        raise model_errors.InputError(f"{model_errors.shown(vlan)} is not a valid VLAN tag.", f"{path}.vlan", "Write a number from 1 to 4094.")
    fixed = entry.get("mac") not in (None, "")
    mac = entry["mac"] if fixed else derived_mac
    if not isinstance(mac, str) or not _MAC.match(mac):
        # imported only for other spellings: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import parse_mac

        mac = parse_mac(mac, f"{path}.mac")
    return Nic(
        bridge=bridge,
        network=network,
        vlan=vlan,
        mac=mac,
        model=_match(entry, "model", _NAME, path, "Use a NIC model of QEMU, e.g. virtio.") or "virtio",
        virtualport=_match(entry, "virtualport", _NAME, path, "Use a virtualport type of libvirt, e.g. openvswitch."),
        free={key: entry[key] for key in entry if key not in NIC_KEYS},
        name=name,
        fixed=fixed,
    )


def _parse_disk(entry: t.Mapping[str, t.Any], path: str, index: int, vm_name: str, hypervisor: str, letters: dict[str, int]) -> Disk:
    container = hypervisor == "lxc"
    form = entry.get("format") or ("dir" if container else "raw")
    allowed = ("dir",) if container else ("raw", "qcow2")
    if form not in allowed:
        kind = "a container" if container else "a machine"
        raise model_errors.InputError(f"{model_errors.shown(form)} is not a valid disk format for {kind}.", f"{path}.format", f"Use {' or '.join(allowed)}.")
    size = model_size.parse_size(entry["size"], "GiB", f"{path}.size") if entry.get("size") not in (None, "") else None
    if size is not None and not _LEAST_DISK <= size <= _MOST_DISK:
        raise model_errors.InputError(
            f"{model_size.size_text(size)} is not between {model_size.size_text(_LEAST_DISK)} and {model_size.size_text(_MOST_DISK)}.",
            f"{path}.size",
            "A number without a unit is in GiB; otherwise add a unit, e.g. '512 MiB'.",
        )
    image = _match(entry, "image", _NAME, path, "Use the file name of a base image of the pool, without a folder.")
    if size is None and image is None and not container:
        refuse_slip(entry, ("size", "image"), path)
        raise model_errors.InputError("is required for a disk without an image.", f"{path}.size", "Set a size or an image.")
    backing = parse_bool(entry.get("backing") or False, f"{path}.backing")
    if backing and (form != "qcow2" or image is None):
        raise model_errors.InputError("requires format qcow2 and an image.", f"{path}.backing", "Set both, or remove backing for a full copy.")
    shareable = parse_bool(entry.get("shareable") or False, f"{path}.shareable")
    if shareable and form != "raw":
        raise model_errors.InputError(
            f"is only supported for raw disks of machines, this disk is {form}.", f"{path}.shareable", "Use format raw, or remove shareable."
        )
    bus = entry.get("bus") or "virtio"
    if not isinstance(bus, str) or bus not in DISK_BUSES:
        raise model_errors.InputError(f"{model_errors.shown(bus)} is not a valid disk bus.", f"{path}.bus", f"Use one of {', '.join(DISK_BUSES)}.")
    prefix = DISK_BUSES[bus]
    letter = letters[prefix] = letters.get(prefix, -1) + 1
    if letter > 25:
        raise model_errors.InputError("is the 27th disk on its bus.", path, "Use at most 26 disks per bus.")
    target = _match(entry, "target", _TARGET, path, "Use a device name such as vda.")
    if target is not None and not container and not target.startswith(prefix):
        raise model_errors.InputError(f"{target} is not a valid target on the bus {bus}.", f"{path}.target", f"Use e.g. {prefix}a, or change the bus.")
    stem = f"{vm_name}-disk{index}"
    name = _match(entry, "name", _NAME, path, "Use letters, digits, '.', '_' and '-'.")
    return Disk(
        size=size,
        pool=_match(entry, "pool", _NAME, path, "Use the name of an existing libvirt storage pool."),
        format=form,
        image=image,
        backing=backing,
        name=name or stem + _ENDINGS[form],
        target=target or f"{prefix}{chr(ord('a') + letter)}",
        bus=bus,
        protected=parse_bool(entry.get("protected") or False, f"{path}.protected"),
        serial=_match(entry, "serial", _SERIAL, path, "Use up to 36 letters, digits, '_', '.', '-' and spaces."),
        mount=_parse_mount(entry.get("mount"), path, index) if container else None,
        free={key: entry[key] for key in entry if key not in DISK_KEYS},
        shareable=shareable,
        twin=stem + _ENDINGS[_TWINS[form]] if name is None and form in _TWINS else None,
        named=name is not None,
        placed=target is not None,
    )


def position_of(volume: str, vm_name: str) -> int | None:
    """Return the list position that the name of a volume is derived from; ``None`` for any other name."""
    found = re.match(rf"\A{re.escape(vm_name)}-disk([0-9]{{1,3}})(\.img|\.qcow2|)\Z", volume)
    return int(found.group(1)) if found else None


def _parse_mount(value: t.Any, path: str, index: int) -> str:
    if value in (None, ""):
        if index:
            raise model_errors.InputError("is missing.", f"{path}.mount", "Set the mount point in the container, e.g. /srv.")
        return "/"
    parts = value.split("/") if isinstance(value, str) else []
    if not isinstance(value, str) or not value.startswith("/") or ".." in parts or (value == "/") != (index == 0):
        raise model_errors.InputError(
            f"{model_errors.shown(value)} is not a valid mount point for this disk.",
            f"{path}.mount",
            "Use / for the first disk, and a different absolute path for each further disk.",
        )
    return value
