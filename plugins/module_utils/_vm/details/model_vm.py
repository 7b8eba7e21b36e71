# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details: the desired state of virtual machines.

A list of mappings (or its JSON text) is parsed into a tuple of :class:`VmDetails`; errors contain
the path of the invalid value, e.g. ``vms[2].ram``.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t
import uuid as uuid_module

from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import (
    CLOUD_INIT_KEYS,
    SEED_TARGET,
    CloudInit,
    parse_cloud_init,
    without_secrets,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac, vm_uuid

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import Standby
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_host_key import HostKey

HYPERVISORS = ("auto", "kvm", "qemu", "lxc")
FIRMWARES = ("bios", "efi")
BOOT_DEVICES = ("hd", "network", "cdrom", "fd")

# Defaults of Fuel for VMs without these details.
DEFAULT_CPU = 2
DEFAULT_MEMORY_MIB = 2048

_MOST_CPU = 4096
_LEAST_MEMORY = 4 * model_size.MIB
# far more than a template needs; deeper values exceed the recursion limit
_MOST_LEVELS = 32
_MOST_MEMORY = 64 * model_size.TIB

# Aliases of one value; the specification uses the first one.
CPU_KEYS = ("cpu", "vcpus")
RAM_KEYS = ("ram", "mem", "memory_mb")
_RAM_UNIT = {"ram": "GiB", "mem": "GiB", "memory_mb": "MiB"}
_KNOWN = frozenset(
    ("id", "name", "hypervisor", "roles", "nics", "disks", "vda_size", "address", "autostart", "protected", "machine", "uuid")
    + ("boot_firmware", "secure_boot")
    + CPU_KEYS
    + RAM_KEYS
    + CLOUD_INIT_KEYS
)
#: All keys of VM details that have a meaning; placement uses the last four. Any other key is for templates.
KNOWN_KEYS = _KNOWN | {"host", "anti_affinity", "nested", "standby"}
# more is possible, but a bare number is then more likely to be in MiB
_MOST_BARE_GIB = 512
_BARE = re.compile(r"\A\s*[0-9]{3,5}(\.[0-9]*)?\s*\Z")


@dataclasses.dataclass(frozen=True)
class VmDetails:
    """The desired state of one VM; immutable, all values are validated.

    ``cpu`` and ``memory_mib`` always have a value, by default 2 CPUs and
    2048 MiB. ``given`` contains the keys that were set; the
    cloud-init data is only in ``cloud_init``. ``boot_firmware`` is bios or efi, ``None``
    to leave it to the template. ``host_key`` and ``authorized_keys``, the public keys of
    the operator, are for a new VM.
    """

    id: str
    name: str
    cpu: int
    memory_mib: int
    hypervisor: str
    roles: tuple[str, ...]
    nics: tuple[model_parts.Nic, ...]
    disks: tuple[model_parts.Disk, ...]
    address: str | None
    uuid: str
    autostart: bool | None
    protected: bool
    machine: str | None
    free: t.Mapping[str, t.Any]
    given: t.Mapping[str, t.Any]
    path: str
    cloud_init: CloudInit | None = None
    boot_firmware: str | None = None
    secure_boot: bool = False
    host_key: HostKey | None = None
    authorized_keys: tuple[str, ...] = ()
    standby: Standby | None = None

    @property
    def macs(self) -> tuple[str, ...]:
        """The MAC of every NIC, in the order of the NICs."""
        return tuple(nic.mac for nic in self.nics)

    @property
    def cpu_given(self) -> bool:
        """Whether the number of CPUs is set in the details."""
        return any(_named(self.given, key) for key in CPU_KEYS)

    @property
    def memory_given(self) -> bool:
        """Whether the memory is set in the details."""
        return any(_named(self.given, key) for key in RAM_KEYS)


def parse_vms(value: t.Any, path: str = "vms", *, cluster: str, pool: str | None = None) -> tuple[VmDetails, ...]:
    """Parse the VM details of one host.

    :arg value: list of mappings, or that list as JSON text; ``None`` and ``""`` are an empty list.
    :arg cluster: name of the cluster; identities are derived from it.
    :arg pool: the storage pool of disks without ``pool``, if known.
    """
    cluster = model_parts.parse_name(cluster, "cluster")
    entries = _as_list(value, path)
    vms = tuple(_parse_vm(entry, f"{path}[{index}]", cluster) for index, entry in enumerate(entries))
    _refuse_twins(vms, pool)
    return vms


def _named(entry: t.Mapping[str, t.Any], key: str) -> bool:
    return entry.get(key) is not None and entry.get(key) != ""


def _as_list(value: t.Any, path: str) -> list[t.Any]:
    if isinstance(value, str):
        if not value.strip():
            return []
        # imported only if needed: each import slows down every run
        from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json

        value = parse_json(value, path)
    if value is None:
        return []
    if isinstance(value, t.Mapping):
        raise model_errors.InputError("is a mapping, not a list.", path, "Use a list of VM details, also for a single VM.")
    if isinstance(value, (str, bytes)) or not isinstance(value, t.Sequence):
        raise model_errors.InputError(f"is {model_errors.kind_of(value)}, not a list.", path, "Use a list of mappings, or that list as JSON text.")
    return list(value)


def _parse_vm(entry: t.Any, path: str, cluster: str) -> VmDetails:
    if not isinstance(entry, t.Mapping):
        raise model_errors.InputError(f"is {model_errors.kind_of(entry)}, not a mapping.", path, "Write each VM as a mapping, e.g. {id: 1, cpu: 2, ram: 4}.")
    model_parts.check_keys(entry, path)
    for key, value in entry.items():
        _refuse_depth(value, f"{path}.{key}")
    vm_id = _parse_id(entry, path)
    name = model_parts.parse_name(entry["name"], f"{path}.name") if _named(entry, "name") else vm_id
    hypervisor = entry["hypervisor"] if _named(entry, "hypervisor") else "auto"
    if hypervisor not in HYPERVISORS:
        raise model_errors.InputError(
            f"{model_errors.shown(hypervisor)} is not a valid hypervisor type.", f"{path}.hypervisor", f"Use one of {', '.join(HYPERVISORS)}."
        )
    nics = model_parts.parse_nics(entry.get("nics"), f"{path}.nics", lambda key: nic_mac(cluster, vm_id, key))
    disks = model_parts.parse_disks(_disk_entries(entry, path), f"{path}.disks", name, hypervisor)
    uuid = _parse_uuid(entry, path, cluster, vm_id)
    _check_boot(entry.get("boot"), f"{path}.boot")
    machine = model_parts.parse_name(entry["machine"], f"{path}.machine") if _named(entry, "machine") else None
    boot_firmware, secure_boot = _parse_firmware(entry, path, hypervisor, machine)
    return VmDetails(
        id=vm_id,
        name=name,
        cpu=_parse_cpu(entry, path),
        memory_mib=_parse_memory(entry, path),
        hypervisor=hypervisor,
        roles=_parse_roles(entry.get("roles"), f"{path}.roles"),
        nics=nics,
        disks=disks,
        address=_parse_address(entry.get("address"), f"{path}.address"),
        uuid=uuid,
        autostart=model_parts.parse_bool(entry["autostart"], f"{path}.autostart") if entry.get("autostart") is not None else None,
        protected=model_parts.parse_bool(entry.get("protected") or False, f"{path}.protected"),
        machine=machine,
        free={key: entry[key] for key in entry if key not in _KNOWN},
        given=without_secrets([entry])[0],
        path=path,
        cloud_init=parse_cloud_init(entry, path, uuid, name),
        boot_firmware=boot_firmware,
        secure_boot=secure_boot,
        standby=_parse_standby(entry, path, hypervisor, disks),
    )


def _parse_standby(entry: t.Mapping[str, t.Any], path: str, hypervisor: str, disks: t.Sequence[model_parts.Disk]) -> Standby | None:
    if not _named(entry, "standby"):
        return None
    # imported only if needed: each import slows down every run
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_standby

    return model_standby.parse_standby(entry["standby"], f"{path}.standby", hypervisor, disks)


def _refuse_depth(value: t.Any, path: str) -> None:
    level = [value]
    for unused in range(_MOST_LEVELS):
        level = [item for each in level if isinstance(each, (t.Mapping, list, tuple)) for item in (each.values() if isinstance(each, t.Mapping) else each)]
        if not level:
            return
    raise model_errors.InputError(f"is nested more than {_MOST_LEVELS} levels deep.", path, "Reduce the nesting.")


def _parse_id(entry: t.Mapping[str, t.Any], path: str) -> str:
    # 0 is a valid id
    value = entry.get("id")
    if value is None or value == "":
        model_parts.refuse_slip(entry, ("id",), path)
        raise model_errors.InputError("is missing.", f"{path}.id", "Set an id that is unique in the cluster.")
    return model_parts.parse_name(value, f"{path}.id")


def _parse_firmware(entry: t.Mapping[str, t.Any], path: str, hypervisor: str, machine: str | None) -> tuple[str | None, bool]:
    """Return the boot firmware, and whether secure boot is enabled."""
    firmware = entry["boot_firmware"] if _named(entry, "boot_firmware") else None
    if firmware is not None and firmware not in FIRMWARES:
        raise model_errors.InputError(f"{model_errors.shown(firmware)} is not a valid firmware.", f"{path}.boot_firmware", f"Use {' or '.join(FIRMWARES)}.")
    secure = model_parts.parse_bool(entry["secure_boot"], f"{path}.secure_boot") if _named(entry, "secure_boot") else False
    if firmware == "efi" and hypervisor == "lxc":
        raise model_errors.InputError("is not supported for containers.", f"{path}.boot_firmware", "Remove it, or use another hypervisor type.")
    if secure and firmware != "efi":
        raise model_errors.InputError("requires boot_firmware: efi.", f"{path}.secure_boot", "Set boot_firmware to efi, or remove secure_boot.")
    if secure and machine is not None and "q35" not in machine:
        raise model_errors.InputError(f"requires the machine type q35, got {machine}.", f"{path}.secure_boot", "Remove machine, or set it to q35.")
    return firmware, secure


def _one_of(entry: t.Mapping[str, t.Any], keys: t.Sequence[str], path: str, convert: t.Callable[[str], int]) -> int | None:
    found = [(key, convert(key)) for key in keys if _named(entry, key)]
    if not found:
        return None
    for key, value in found[1:]:
        if value != found[0][1]:
            raise model_errors.InputError(f"conflicts with {found[0][0]}, which sets the same value.", f"{path}.{key}", "Remove one of the two.")
    return found[0][1]


def _parse_cpu(entry: t.Mapping[str, t.Any], path: str) -> int:
    def convert(key: str) -> int:
        value = entry[key]
        where = f"{path}.{key}"
        if isinstance(value, str) and re.match(r"\A\s*[+-]?[0-9]{1,9}\s*\Z", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise model_errors.InputError(f"{model_errors.shown(value)} is not a whole number of CPUs.", where, "Use a whole number, e.g. 2.")
        if not 1 <= value <= _MOST_CPU:
            raise model_errors.InputError(f"{value} is not between 1 and {_MOST_CPU} CPUs.", where, "Set the number of virtual CPUs, e.g. 2.")
        return value

    return _one_of(entry, CPU_KEYS, path, convert) or DEFAULT_CPU


def _parse_memory(entry: t.Mapping[str, t.Any], path: str) -> int:
    def convert(key: str) -> int:
        unit, bare = _RAM_UNIT[key], str(entry[key]).strip()
        if unit == "GiB" and _BARE.match(bare) and float(bare) >= _MOST_BARE_GIB:
            hint = f"A number is in GiB. Did you mean {bare} MiB? Add the unit, '{bare} MiB' or '{bare} GiB'."
            raise model_errors.InputError(f"{bare} GiB is more than a VM usually has.", f"{path}.{key}", hint)
        size = model_size.parse_size(entry[key], unit, f"{path}.{key}")
        if not _LEAST_MEMORY <= size <= _MOST_MEMORY:
            raise model_errors.InputError(
                f"{model_size.size_text(size)} is not between {model_size.size_text(_LEAST_MEMORY)} and {model_size.size_text(_MOST_MEMORY)} of memory.",
                f"{path}.{key}",
                f"A number without a unit is in {unit}; otherwise add a unit, e.g. '512 MiB'.",
            )
        return -(-size // model_size.MIB)

    return _one_of(entry, RAM_KEYS, path, convert) or DEFAULT_MEMORY_MIB


def _disk_entries(entry: t.Mapping[str, t.Any], path: str) -> t.Any:
    """Return the disks with Fuel's ``vda_size`` as the size of the first."""
    disks = entry.get("disks")
    if not _named(entry, "vda_size"):
        return disks
    where = f"{path}.vda_size"
    size = model_size.parse_size(entry["vda_size"], "GiB", where)
    if not disks:
        return [{"size": f"{size} B"}]
    if isinstance(disks, (list, tuple)) and isinstance(disks[0], t.Mapping):
        if disks[0].get("size") is None:
            return [dict(disks[0], size=f"{size} B")] + list(disks[1:])
        if model_size.parse_size(disks[0]["size"], "GiB", f"{path}.disks[0].size") != size:
            raise model_errors.InputError("conflicts with disks[0].size, which sets the same value.", where, "Remove one of the two.")
    return disks


def _check_boot(value: t.Any, path: str) -> None:
    """Check the boot order of the packaged templates; another template may use the key for a mapping."""
    if isinstance(value, str):
        devices = [(path, value)] if value else []
    else:
        devices = [(f"{path}[{index}]", each) for index, each in enumerate(value)] if isinstance(value, (list, tuple)) else []
    for where, device in devices:
        if device not in BOOT_DEVICES:
            hint = f"Use {', '.join(BOOT_DEVICES)}; the disk is hd."
            raise model_errors.InputError(f"{model_errors.shown(device)} is not a boot device.", where, hint)


def _parse_roles(value: t.Any, path: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise model_errors.InputError(f"{model_errors.shown(value)} is not a list of roles.", path, "Use a list of names, e.g. [controller].")
    roles = tuple(model_parts.parse_name(role, f"{path}[{index}]") for index, role in enumerate(value))
    return tuple(dict.fromkeys(roles))


def _parse_address(value: t.Any, path: str) -> str | None:
    if value is None or value == "":
        return None
    try:
        if not isinstance(value, str):
            raise ValueError("not text")
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise model_errors.InputError(f"{model_errors.shown(value)} is not an IP address.", path, "Use an address without prefix, e.g. 192.0.2.10.") from error


def _parse_uuid(entry: t.Mapping[str, t.Any], path: str, cluster: str, vm_id: str) -> str:
    if not _named(entry, "uuid"):
        return vm_uuid(cluster, vm_id)
    try:
        return str(uuid_module.UUID(str(entry["uuid"])))
    except ValueError as error:
        raise model_errors.InputError(
            f"{model_errors.shown(entry['uuid'])} is not a UUID.", f"{path}.uuid", "Remove it; it is derived from cluster and id."
        ) from error


def _refuse_twins(vms: t.Sequence[VmDetails], pool: str | None) -> None:
    """Refuse values that must be unique among the VMs of a call; the error names the second VM."""
    once = model_errors.Unique().check
    volumes: dict[tuple[str, str], tuple[VmDetails, model_parts.Disk, str]] = {}
    for vm in vms:
        once(vm.id, f"{vm.path}.id", "Use an id that is unique in the cluster.", "id")
        once(vm.name, f"{vm.path}.name", "Use a different name for every VM.", "name")
        once(vm.uuid, f"{vm.path}.uuid", "Remove the UUID; it is derived from cluster and id.", "uuid")
        for index, nic in enumerate(vm.nics):
            once(nic.mac, f"{vm.path}.nics[{index}].mac", "Change the mac of one of the two NICs.", "mac")
        for index, disk in enumerate(vm.disks):
            if vm.cloud_init is not None and disk.target == SEED_TARGET:
                raise model_errors.InputError(
                    f"{SEED_TARGET} is reserved for the cloud-init seed.", f"{vm.path}.disks[{index}].target", "Use another target."
                )
            place = (disk.pool or pool or "", disk.name)
            first, other, where = volumes.setdefault(place, (vm, disk, f"{vm.path}.disks[{index}]"))
            if other is not disk and (first is vm or not (disk.shareable and other.shareable)):
                raise model_errors.InputError(
                    f"the volume {'/'.join(filter(None, place))} of the VM {vm.name} is also the disk {where} of the VM {first.name}.",
                    f"{vm.path}.disks[{index}].name",
                    "Use a different name for every disk in a pool, or set shareable: true for a shared raw disk in each of the VMs.",
                )


__all__ = ["DEFAULT_CPU", "DEFAULT_MEMORY_MIB", "HYPERVISORS", "VmDetails", "parse_vms"]
