# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The backends of volumes as declared by the operator: what cinder-volume, libvirt and the server need for each."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_fields
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, Problems, shown

PREFIX = "cinder_volume_backends"
FOLDER = "/etc/cinder"
# also a section of the configuration, the name of files, and a part of the names of queues
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
# as lvm(8) allows it, except a single point or two
_GROUP = re.compile(r"[A-Za-z0-9_+][\w+.-]{0,126}\Z", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][\w.-]*\Z")
_USER = re.compile(r"(?!client[.])[A-Za-z0-9][\w.-]*\Z")
_KEY = re.compile(r"[A-Za-z0-9+/]{20,}={0,2}\Z")
_NOT_NAMES = ("default", "database", "nova", "service_user", "keystone_authtoken", "backend_defaults")


@dataclasses.dataclass(frozen=True)
class Backend:
    """What a backend needs.

    :arg shared: whether every server reaches the same data, so that one server manages it; otherwise each of ``servers`` has its own.
    :arg settings: options of its section in the configuration of cinder-volume.
    :arg files: files of cinder-volume with ``path``, ``content`` and ``secret``.
    :arg packages: packages of the server whose cinder-volume manages it.
    :arg client_packages: packages of every server that attaches its volumes.
    :arg secret: ``uuid``, ``name`` and ``value`` of the secret with which libvirt logs in to it; empty if it needs none.
    :arg servers: the servers on whose disks the volumes are; empty if it is shared.
    :arg volume_group: the volume group on each of them.
    """

    name: str
    shared: bool
    settings: t.Mapping[str, t.Any]
    files: tuple[t.Mapping[str, t.Any], ...] = ()
    packages: tuple[str, ...] = ()
    client_packages: tuple[str, ...] = ()
    secret: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    servers: tuple[str, ...] = ()
    volume_group: str = ""


class Site(t.NamedTuple):
    """Where the backends are.

    :arg environment: name of the environment, from which the UUIDs of secrets are derived.
    :arg computes: the compute servers.
    """

    environment: str
    computes: t.Sequence[str] = ()


def parse(value: t.Any, site: Site) -> tuple[Backend, ...]:
    """Return the backends.

    :arg value: name → mapping with ``type``, the keys of the type, and ``settings``, further options of the driver.
    """
    entries = model_fields.mapping(value, PREFIX, "Write NAME: {type: rbd, ...}.")
    found = tuple(_backend(name, entry, f"{PREFIX}.{name}", site) for name, entry in entries.items())
    used: dict[tuple[str, str], str] = {}
    for one in found:
        for server in one.servers:
            other = used.setdefault((server, one.volume_group), one.name)
            if other != one.name:
                raise InputError(
                    f"{one.volume_group} on {server} is the volume group of {other}.", f"{PREFIX}.{one.name}.volume_group", "Use another volume group."
                )
    return found


def unknown_keys(value: t.Any) -> list[FootprintError]:
    """Return an error for each unknown key of a backend; the values may be templates."""
    problems = Problems()
    for name, entry in value.items() if isinstance(value, t.Mapping) else ():
        kind = entry.get("type") if isinstance(entry, t.Mapping) else None
        for key in entry if isinstance(kind, str) and kind in _TYPES else ():
            problems.call(model_fields.check_known, {key: None}, _keys(str(kind)), f"{PREFIX}.{name}", "")
    return problems.found


def warnings(value: t.Any, site: Site, server: str) -> list[str]:
    """Return what the loss of a server means for volumes, in one line or none."""
    names = ", ".join(one.name for one in (parse(value, site) if server in site.computes else ()) if server in one.servers)
    return [f"volumes of {names} are on the disks of {server}: instances on other servers wait for them while it is off"] if names else []


def _backend(name: str, entry: t.Any, path: str, site: Site) -> Backend:
    if not _NAME.match(name) or name in _NOT_NAMES or name.startswith("oslo_"):
        raise InputError(f"{shown(name)} is not a valid name of a backend.", path, "Use up to 32 lower-case letters, digits, hyphens and underscores.")
    entry = model_fields.mapping(entry, path, "Write a mapping with type and the keys of the type.")
    kind = model_fields.choice(entry.get("type"), tuple(_TYPES), f"{path}.type")
    model_fields.check_known(entry, _keys(kind), path, "")
    more = model_fields.mapping(entry.get("settings"), f"{path}.settings", "Write OPTION: VALUE, as in a section of cinder.conf.")
    found = _TYPES[kind][1](name, entry, path, site)
    own = {"volume_backend_name": name, **({"backend_host": "shared"} if found.shared else {})}
    for key in more:
        if key in own:
            raise InputError("is set by the role.", f"{path}.settings.{key}", "Remove it.")
    return dataclasses.replace(found, settings={**found.settings, **more, **own})


def _keys(kind: str) -> tuple[str, ...]:
    return ("type", "settings", *_TYPES[kind][0])


def _required(entry: t.Mapping[str, t.Any], key: str, pattern: re.Pattern[str], path: str, hint: str) -> str:
    """Return a text that must be there."""
    found = model_fields.matched(entry.get(key), pattern, f"{path}.{key}", hint)
    if found is None:
        raise InputError("is missing.", f"{path}.{key}", hint)
    return found


def _rbd(name: str, entry: t.Mapping[str, t.Any], path: str, site: Site) -> Backend:
    pool = _required(entry, "pool", _WORD, path, "Write the name of a pool of Ceph, e.g. volumes.")
    user = _required(entry, "user", _USER, path, "Write the name of an account of Ceph without client., e.g. cinder.")
    value = entry.get("key")
    # the key is a secret, so the message does not show it
    if not isinstance(value, str) or not _KEY.match(value):
        raise InputError("is not a key of Ceph.", f"{path}.key", f"Write the output of `ceph auth get-key client.{user}`, encrypted with Ansible Vault.")
    monitors = entry.get("monitors")
    if not isinstance(monitors, (list, tuple)) or not monitors:
        raise InputError("is not a list of addresses.", f"{path}.monitors", "Write the addresses of the monitors, e.g. [192.0.2.31].")
    hosts = [_address(one, f"{path}.monitors[{index}]") for index, one in enumerate(monitors)]
    configuration, keyring = f"{FOLDER}/footprint-{name}.conf", f"{FOLDER}/footprint-{name}.keyring"
    secret = str(uuid.uuid5(uuid.NAMESPACE_URL, f"reduced.footprint/{site.environment}/{name}/{user}"))
    return Backend(
        name,
        True,
        {
            "volume_driver": "cinder.volume.drivers.rbd.RBDDriver",
            "rbd_pool": pool,
            "rbd_user": user,
            "rbd_ceph_conf": configuration,
            "rbd_secret_uuid": secret,
            "rbd_flatten_volume_from_snapshot": False,
        },
        (
            {"path": configuration, "content": f"[global]\nmon_host = {','.join(hosts)}\nkeyring = {keyring}\n", "secret": False},
            {"path": keyring, "content": f"[client.{user}]\nkey = {value}\n", "secret": True},
        ),
        ("ceph-common", "python3-rbd", "python3-rados"),
        ("qemu-block-extra",),
        {"uuid": secret, "name": f"{name} of {site.environment}", "value": value},
    )


def _address(value: t.Any, path: str) -> str:
    """Return an address, in brackets if it is one of IPv6."""
    try:
        found = ipaddress.ip_address(str(value))
    except ValueError as error:
        raise InputError(f"{shown(value)} is not an address.", path, "Write an address such as 192.0.2.31.") from error
    return f"[{found}]" if found.version == 6 else str(found)


def _lvm(name: str, entry: t.Mapping[str, t.Any], path: str, site: Site) -> Backend:
    group = _required(entry, "volume_group", _GROUP, path, "Write the name of a volume group, e.g. cinder-volumes.")
    servers = entry.get("servers", site.computes)
    if not isinstance(servers, (list, tuple)) or not servers:
        raise InputError("is not a list of servers.", f"{path}.servers", "Write names of compute servers, e.g. [metal1].")
    for index, one in enumerate(servers):
        if one not in site.computes:
            hint = model_fields.did_you_mean(one, site.computes, f"Use one of {', '.join(site.computes) or 'none'}.")
            raise InputError(f"{shown(one)} is not a server of the group compute.", f"{path}.servers[{index}]", hint)
    settings = {
        "volume_driver": "cinder.volume.drivers.lvm.LVMVolumeDriver",
        "volume_group": group,
        # its pool zeroes blocks before a volume gets them, so removed volumes need not be overwritten
        "lvm_type": "thin",
        # a full pool is an error for every volume in it; cinder promises 20 times the space by default
        "max_over_subscription_ratio": "1.0",
        "target_helper": "lioadm",
        "target_protocol": "iscsi",
        "use_chap_auth": True,
    }
    packages = ("python3-rtslib-fb", "thin-provisioning-tools")
    return Backend(name, False, settings, packages=packages, client_packages=("lvm2", "open-iscsi"), servers=tuple(servers), volume_group=group)


_Maker = t.Callable[[str, t.Mapping[str, t.Any], str, Site], Backend]
#: Type → its keys, and the function that returns the backend.
_TYPES: t.Mapping[str, tuple[tuple[str, ...], _Maker]] = {
    "lvm": (("servers", "volume_group"), _lvm),
    "rbd": (("monitors", "pool", "user", "key"), _rbd),
}
