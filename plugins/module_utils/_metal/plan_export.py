# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines with Redfish as the input of deployers. No I/O."""

from __future__ import annotations

import ipaddress
import re
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB

IRONIC, METAL3, MAAS, FOREMAN = "ironic", "metal3", "maas", "foreman"
FORMATS = (IRONIC, METAL3, MAAS, FOREMAN)
UEFI, BIOS = "uefi", "bios"
_ARCHITECTURES: t.Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64el"}
# names of Kubernetes objects
_LABEL = re.compile(r"[^a-z0-9-]+")
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.IGNORECASE)


class Exported(t.NamedTuple):
    """A machine, and its account.

    :arg url: root of the management controller, ``https://HOST:PORT``.
    :arg system: id of the system there; ``None`` for the only one.
    :arg verify_ca: as in ``bmc``.
    :arg macs: of its NICs; the first one boots.
    :arg memory_mib: ``None`` if unknown, like ``cpus`` and ``disk`` (bytes).
    :arg sessions: whether the controller may have sessions; without them, each request carries the password.
    """

    name: str
    url: str
    system: str | None
    user: str
    password: str
    verify_ca: bool | str
    macs: tuple[str, ...]
    cpus: int | None
    memory_mib: int | None
    disk: int | None
    arch: str
    boot_mode: str
    sessions: bool = True

    @property
    def path(self) -> str:
        """Path of the system at the controller; a guess if its id is not known."""
        return f"/redfish/v1/Systems/{self.system or '1'}"

    @property
    def host(self) -> str:
        """Name or address of the controller, with the port."""
        return self.url.partition("://")[2]


def export(machines: t.Sequence[Exported], form: str, domain: str | None = None) -> t.Any:
    """Return the machines as data in the format of a deployer.

    :arg domain: of the machines, for Foreman.
    """
    if form == FOREMAN:
        return _foreman(machines, domain)
    writers: t.Mapping[str, t.Callable[[t.Sequence[Exported]], t.Any]] = {IRONIC: _ironic, METAL3: _metal3, MAAS: _maas}
    if form not in writers:
        raise InputError(f"{form!r} is not supported.", "export_metal_formats", f"Use {', '.join(FORMATS)}.")
    return writers[form](machines)


def _known(**values: t.Any) -> dict[str, t.Any]:
    return {key: value for key, value in values.items() if value is not None}


def _ironic(machines: t.Sequence[Exported]) -> dict[str, t.Any]:
    """The file of ``baremetal create``."""
    nodes = []
    for one in machines:
        nodes.append(
            {
                "name": one.name,
                "driver": "redfish",
                "driver_info": _known(
                    redfish_address=one.url,
                    # without it, the only system is used, whatever its id is
                    redfish_system_id=one.path if one.system else None,
                    redfish_username=one.user,
                    redfish_password=one.password,
                    redfish_verify_ca=one.verify_ca,
                    # instead of a session that fails first, with an error in the log each time
                    redfish_auth_type=None if one.sessions else "basic",
                ),
                "properties": _known(
                    cpus=one.cpus,
                    memory_mb=one.memory_mib,
                    # room for what the deployment adds, as inspection does
                    local_gb=max(1, one.disk // GIB - 1) if one.disk else None,
                    cpu_arch=one.arch,
                    capabilities=f"boot_mode:{one.boot_mode}",
                ),
                "ports": [{"address": mac} for mac in one.macs],
            }
        )
    return {"nodes": nodes}


def _metal3(machines: t.Sequence[Exported]) -> list[dict[str, t.Any]]:
    """Kubernetes objects: a Secret and a BareMetalHost for each machine."""
    found: list[dict[str, t.Any]] = []
    names: dict[str, str] = {}
    for one in machines:
        name = _LABEL.sub("-", one.name.lower()).strip("-")[:50] or "machine"
        if name in names:
            raise InputError(f"{one.name} and {names[name]} are both {name} in Kubernetes.", "export_metal_formats", "Rename one of them.")
        names[name] = one.name
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": f"{name}-bmc"},
                "type": "Opaque",
                "stringData": {"username": one.user, "password": one.password},
            }
        )
        bmc: dict[str, t.Any] = {"address": f"redfish-virtualmedia+{one.url}{one.path}", "credentialsName": f"{name}-bmc"}
        # Metal3 has no file of authorities for each host
        if one.verify_ca is not True:
            bmc["disableCertificateVerification"] = True
        spec: dict[str, t.Any] = {"online": False, "bootMode": "UEFI" if one.boot_mode == UEFI else "legacy", "bmc": bmc}
        if one.macs:
            spec["bootMACAddress"] = one.macs[0]
        found.append({"apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost", "metadata": {"name": name}, "spec": spec})
    return found


def _maas(machines: t.Sequence[Exported]) -> list[dict[str, t.Any]]:
    """The parameters of ``maas PROFILE machines create``."""
    return [
        {
            "hostname": one.name,
            "architecture": f"{_ARCHITECTURES.get(one.arch, one.arch)}/generic",
            "mac_addresses": list(one.macs),
            "power_type": "redfish",
            "power_parameters": _known(power_address=one.url, power_user=one.user, power_pass=one.password, node_id=one.system),
        }
        for one in machines
    ]


def _foreman(machines: t.Sequence[Exported], domain: str | None) -> list[dict[str, t.Any]]:
    """The parameters of ``theforeman.foreman.host``."""
    if domain and not _DOMAIN.fullmatch(domain):
        raise InputError(f"{domain!r} is not the name of a domain.", "export_metal_domain", "Use a name like example.org.")
    found = []
    for one in machines:
        if not domain and "." not in one.name:
            raise InputError(f"Foreman requires a domain for {one.name}.", "export_metal_domain", "Set it, for example to example.org, or omit foreman.")
        interfaces: list[dict[str, t.Any]] = [
            {"type": "interface", "mac": mac, "primary": not number, "provision": not number, "managed": not number} for number, mac in enumerate(one.macs)
        ]
        name = one.name if "." in one.name else f"{one.name}.{domain}"
        found.append({"name": name, "build": False, "managed": True, "interfaces_attributes": [*interfaces, *_foreman_controller(one)]})
    return found


def _foreman_controller(one: Exported) -> list[dict[str, t.Any]]:
    """The controller of a machine, if Foreman can use it: its proxy requests port 443 of an address, and controls the first system that it finds there."""
    address, unused, port = one.host.rpartition(":")
    try:
        address = str(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        return []
    if one.system or port != "443":
        return []
    # the MAC of a controller is required, and not known here: one of the local range, always the same for the same machine
    digits = uuid.uuid5(uuid.NAMESPACE_URL, f"{one.url}{one.path}").hex
    mac = ":".join(["02", *(digits[index : index + 2] for index in range(0, 10, 2))])
    return [{"type": "bmc", "mac": mac, "ip": address, "provider": "Redfish", "username": one.user, "password": one.password, "managed": False}]
