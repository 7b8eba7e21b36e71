# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a network change for netplan, with either renderer."""

from __future__ import annotations

import copy
import fnmatch
import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Change, Device, Layout, Link, Profile

_ETC = "/etc/netplan"
_RUN = "/run/netplan"
_OWN_FILE = "90-reduced-footprint.yaml"
_BEFORE = ".before-reduced-footprint"
_NETWORKD_RUN = "/run/systemd/network"
_NETWORKD_ETC = "/etc/systemd/network"
_KINDS = ("ethernets", "bonds", "bridges", "vlans")
_KIND_OF = {model_network.NIC: "ethernets", model_network.BOND: "bonds", model_network.BRIDGE: "bridges", model_network.VLAN: "vlans"}
# settings of the card or the device; all others concern addresses and move with them
_STAYING = frozenset(
    "match set-name wakeonlan mtu macaddress renderer optional activation-mode ignore-carrier emit-lldp auth openvswitch networkmanager"
    " receive-checksum-offload transmit-checksum-offload tcp-segmentation-offload tcp6-segmentation-offload"
    " generic-segmentation-offload generic-receive-offload large-receive-offload delay-virtual-functions-rebind"
    " embedded-switch-mode infiniband-mode virtual-function-count link interfaces parameters id".split()
)
_MADE = "# Made by reduced.footprint"
_NUMBER = re.compile(r"\A(0|[1-9][0-9]{0,17})\Z")

_Document = t.Mapping[str, t.Any]


def change(
    layout: Layout,
    profiles: t.Mapping[str, Profile],
    documents: t.Mapping[str, _Document],
    texts: t.Mapping[str, str],
    to_yaml: t.Callable[[t.Any], str],
) -> Change:
    """Define the devices in a separate file, and remove the settings they take over from the other files.

    netplan merges its files, and a later file cannot remove settings, so these files are rewritten. All
    scalars of ``documents`` are strings as written in the file.

    :arg documents: the effective files of netplan, parsed, in its order: path → content; ``texts`` are the unparsed ones.
    :arg to_yaml: returns the text of a file from its content.
    """
    after = {path: copy.deepcopy(dict(content)) for path, content in documents.items()}
    own_path = next((path for path in after if os.path.basename(path) == _OWN_FILE), f"{_ETC}/{_OWN_FILE}")
    after.setdefault(own_path, {"network": {"version": "2"}})
    places = {name: _place(layout, name, profiles.get(name), documents) for name in layout.touched}
    moved: dict[str, dict[str, t.Any]] = {}
    for name in layout.taken:
        moved[name] = _take(places[name], after) if places[name] else {}
        if name in layout.mtus and places[name]:
            _set_mtu(places[name], after, layout.mtus[name])
    ids = {name: place[1] if place else name for name, place in places.items()}
    network = after[own_path].setdefault("network", {})
    renderer = _renderer(layout, places, documents)
    common = {"renderer": renderer} if renderer else {}
    nm = (renderer or _common_renderer(documents)) == "NetworkManager"
    for name, place in places.items():
        if place is None:
            network.setdefault("ethernets", {})[name] = {**common, **({"mtu": layout.mtus[name]} if name in layout.mtus else {})}
    for device in layout.devices:
        _check(device, layout, documents)
        network.setdefault(_KIND_OF[device.kind], {})[device.name] = {**common, **_entry(device, ids, moved, nm)}
    return _change(layout, profiles, documents, texts, after, own_path, moved, to_yaml)


def configured(documents: t.Mapping[str, _Document], link: Link) -> bool:
    """Whether netplan gives a link addresses."""
    entries = [entry for unused, unused_kind, unused_id, entry in _entries(documents) if _matches(unused_id, entry, link)]
    return any(_yes(entry.get("dhcp4")) or _yes(entry.get("dhcp6")) or entry.get("addresses") for entry in entries)


def speaks_of(documents: t.Mapping[str, _Document], link: Link) -> str | None:
    """Return the netplan file that configures a link."""
    return next((path for path, unused, name, entry in _entries(documents) if _matches(name, entry, link)), None)


def _change(
    layout: Layout,
    profiles: t.Mapping[str, Profile],
    documents: t.Mapping[str, _Document],
    texts: t.Mapping[str, str],
    after: t.Mapping[str, t.Any],
    own_path: str,
    moved: t.Mapping[str, t.Mapping[str, t.Any]],
    to_yaml: t.Callable[[t.Any], str],
) -> Change:
    trial: dict[str, str] = {}
    keep: dict[str, str] = {}
    # the own file first, so that the addresses are never missing in all files
    for path in sorted(after, key=lambda path: path != own_path):
        if after[path] == documents.get(path):
            continue
        if os.path.dirname(path) == _RUN:
            raise RefusedError(f"{path} is generated again at each boot, which would revert the change.", None, f"Move its content to {_ETC}.")
        name = os.path.basename(path)
        text = f"{_MADE}: {_sentence(layout)}\n{to_yaml(_plain(after[path]))}"
        trial[f"{_RUN}/{name}"] = text
        if path != own_path and not texts[path].startswith(_MADE):
            # keep the comments of the original file
            keep[f"{_ETC}/{name}{_BEFORE}"] = texts[path]
        keep[f"{_ETC}/{name}"] = text
    for device in layout.devices:
        identity = profiles[device.inherits].identity if device.inherits in profiles else None
        if identity is not None and moved.get(device.inherits or "", {}).get("dhcp-identifier") != "mac":
            file = f"10-netplan-{device.name}.network.d/reduced-footprint.conf"
            text = f"{_MADE}: DHCP client identity of {device.inherits}\n[DHCPv4]\nIAID={identity}\n\n[DHCPv6]\nIAID={identity}\n"
            trial[f"{_NETWORKD_RUN}/{file}"] = text
            keep = {f"{_NETWORKD_ETC}/{file}": text, **keep}
    deletes = tuple(("ip", "link", "delete", "dev", device.name) for device in reversed(layout.devices))
    return Change(
        manager=model_network.NETPLAN,
        trial=trial,
        keep=keep,
        apply=(("netplan", "apply"),),
        revert=(*deletes, ("netplan", "apply")),
        # files of netplan may contain passwords; those of networkd must be readable for its user
        modes={path: 0o600 for path in (*trial, *keep) if os.path.dirname(path) in (_ETC, _RUN)},
    )


def _entries(documents: t.Mapping[str, _Document]) -> t.Iterator[tuple[str, str, str, t.Mapping[str, t.Any]]]:
    for path, content in documents.items():
        network = content.get("network") if isinstance(content, t.Mapping) else None
        for kind in _KINDS:
            for name, entry in _mapping(_mapping(network).get(kind)).items():
                if isinstance(entry, t.Mapping) or entry in ("", None):
                    yield path, kind, name, _mapping(entry)


def _mapping(value: t.Any) -> t.Mapping[str, t.Any]:
    return value if isinstance(value, t.Mapping) else {}


def _matches(name: str, entry: t.Mapping[str, t.Any], link: Link) -> bool:
    match = _mapping(entry.get("match"))
    if entry.get("set-name") == link.name:
        return True
    if not match:
        return name == link.name
    if "driver" in match and len(match) == 1:
        return False
    mac = match.get("macaddress")
    return link.kind == model_network.NIC and fnmatch.fnmatch(link.name, match.get("name", "*")) and (mac is None or str(mac).lower() == link.mac)


def _place(layout: Layout, name: str, profile: Profile | None, documents: t.Mapping[str, _Document]) -> tuple[str, str] | None:
    """Return kind and id of the entry of a link; ``None`` for a NIC without one."""
    link = layout.links[name]
    generated = re.match(r"\A10-netplan-(.+)\.network\Z", os.path.basename(profile.path or "")) if profile else None
    found: dict[tuple[str, str], list[t.Mapping[str, t.Any]]] = {}
    for unused, kind, entry_id, entry in _entries(documents):
        if generated.group(1) == entry_id if generated else _matches(entry_id, entry, link):
            found.setdefault((kind, entry_id), []).append(entry)
    if not found:
        if link.kind != model_network.NIC:
            raise RefusedError(f"netplan has no configuration for {name}.", layout.paths.get(name), f"Add {name} to netplan first.")
        return None
    place = next(iter(found))
    others = [other.name for other in layout.links.values() if other.name != name and any(_matches(place[1], entry, other) for entry in found[place])]
    if len(found) > 1 or others:
        also = (
            f"the entries {', '.join(entry_id for unused, entry_id in found)}"
            if len(found) > 1
            else f"{place[1]}, which also applies to {', '.join(sorted(others))}"
        )
        message = f"netplan configures {name} by {also}."
        raise RefusedError(message, layout.paths.get(name), f"Define {name} by a separate entry in {_ETC}.")
    return place


def _take(place: tuple[str, str], after: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Remove the address settings of an entry from all files, and return them merged as netplan does."""
    kind, entry_id = place
    moved: dict[str, t.Any] = {}
    for content in after.values():
        entries = _mapping(_mapping(_mapping(content).get("network")).get(kind))
        entry = entries.get(entry_id)
        if isinstance(entry, dict):
            for key in [key for key in entry if key not in _STAYING]:
                moved[key] = _merged(moved.get(key), entry.pop(key))
    return moved


def _merged(earlier: t.Any, later: t.Any) -> t.Any:
    if isinstance(earlier, dict) and isinstance(later, dict):
        return {**earlier, **{key: _merged(earlier.get(key), value) for key, value in later.items()}}
    if isinstance(earlier, list) and isinstance(later, list):
        return earlier + [value for value in later if value not in earlier]
    return later


def _set_mtu(place: tuple[str, str], after: t.Mapping[str, t.Any], mtu: int) -> None:
    kind, entry_id = place
    for content in after.values():
        entries = _mapping(_mapping(_mapping(content).get("network")).get(kind))
        if entry_id in entries:
            entries[entry_id] = {**_mapping(entries[entry_id]), "mtu": mtu}


def _renderer(layout: Layout, places: t.Mapping[str, tuple[str, str] | None], documents: t.Mapping[str, _Document]) -> str | None:
    """Return the renderer of the links or their kind, if it is not set for the whole network."""
    found = None
    for path, kind, entry_id, entry in _entries(documents):
        if (kind, entry_id) in places.values():
            whole = _mapping(_mapping(documents[path]["network"]).get(kind)).get("renderer")
            found = entry.get("renderer") or whole or found
    return found


def _common_renderer(documents: t.Mapping[str, _Document]) -> str | None:
    """Return the renderer of the whole network, the last one if several files set it."""
    renderers = [_mapping(content.get("network")).get("renderer") for content in documents.values() if isinstance(content, t.Mapping)]
    return next((renderer for renderer in reversed(renderers) if renderer), None)


def _check(device: Device, layout: Layout, documents: t.Mapping[str, _Document]) -> None:
    path = layout.paths.get(device.name, "")
    for file, unused, entry_id, unused_entry in _entries(documents):
        if entry_id == device.name:
            raise RefusedError(f"{file} configures {device.name}, which is not up.", f"{path}.name", f"Run netplan apply, or remove it from {file}.")
    if isinstance(device.wanted, Bridge) and device.wanted.vlan_filtering:
        raise RefusedError("netplan does not support bridges with VLAN filtering.", f"{path}.vlan_filtering", "Use a bridge over a VLAN instead.")


def _entry(device: Device, ids: t.Mapping[str, str], moved: t.Mapping[str, dict[str, t.Any]], nm: bool) -> dict[str, t.Any]:
    wanted = device.wanted
    entry: dict[str, t.Any] = {}
    ports = [ids.get(port, port) for port in device.ports]
    if isinstance(wanted, Bond):
        entry["interfaces"] = ports
        primary = ids.get(wanted.primary, wanted.primary) if wanted.primary else None
        parameters = {"mode": wanted.mode, "mii-monitor-interval": wanted.miimon, "lacp-rate": wanted.lacp_rate}
        parameters.update({"transmit-hash-policy": wanted.hash_policy, "primary": primary})
        entry["parameters"] = {key: value for key, value in parameters.items() if value is not None}
    elif isinstance(wanted, Bridge):
        entry["interfaces"] = ports
        entry["parameters"] = {"stp": True} if wanted.stp else {"stp": False, "forward-delay": 0}
    else:
        entry.update({"id": wanted.id, "link": ports[0]})
    if device.mac:
        entry["macaddress"] = device.mac
    if device.mtu:
        entry["mtu"] = device.mtu
    entry.update(moved.get(device.inherits or "", {}))
    if not device.inherits and not device.master:
        # it has no addresses, and the boot must not wait for one
        entry.update({"link-local": [], "optional": True})
        if nm:
            # without other addresses netplan configures one of 169.254.0.0/16 in NetworkManager, regardless of link-local
            entry["networkmanager"] = {"passthrough": {"ipv4.method": "disabled", "ipv6.method": "disabled"}}
    return entry


def _yes(value: t.Any) -> bool:
    return str(value).lower() in ("true", "yes", "on", "y")


def _plain(value: t.Any) -> t.Any:
    """Convert booleans and integers, so that they are written without quotes; netplan accepts all other values quoted."""
    if isinstance(value, t.Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    return int(value) if isinstance(value, str) and _NUMBER.match(value) else value


def _sentence(layout: Layout) -> str:
    return ", ".join(f"{device.name} over {', '.join(device.ports) or 'no port'}" for device in layout.devices)
