# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of the network in the words of netplan, whichever of its two renderers the host has."""

from __future__ import annotations

import copy
import fnmatch
import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_yaml_text import to_yaml
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Change, Device, Layout, Link, Profile

_ETC = "/etc/netplan"
_RUN = "/run/netplan"
_OURS = "90-reduced-footprint.yaml"
_BEFORE = ".before-reduced-footprint"
_NETWORKD_RUN = "/run/systemd/network"
_NETWORKD_ETC = "/etc/systemd/network"
_KINDS = ("ethernets", "bonds", "bridges", "vlans")
_KIND_OF = {model_network.NIC: "ethernets", model_network.BOND: "bonds", model_network.BRIDGE: "bridges", model_network.VLAN: "vlans"}
# what belongs to the card or to the device itself; all else is about addresses and goes with them
_STAYING = frozenset(
    "match set-name wakeonlan mtu macaddress renderer optional activation-mode ignore-carrier emit-lldp auth openvswitch networkmanager"
    " receive-checksum-offload transmit-checksum-offload tcp-segmentation-offload tcp6-segmentation-offload"
    " generic-segmentation-offload generic-receive-offload large-receive-offload delay-virtual-functions-rebind"
    " embedded-switch-mode infiniband-mode virtual-function-count link interfaces parameters id".split()
)
_MADE = "# Made by reduced.footprint"
_NUMBER = re.compile(r"\A(0|[1-9][0-9]{0,17})\Z")

_Document = t.Mapping[str, t.Any]


def change(layout: Layout, profiles: t.Mapping[str, Profile], documents: t.Mapping[str, _Document], texts: t.Mapping[str, str]) -> Change:
    """The devices come in a file of their own; what they take over leaves the files it stood in.

    netplan merges its files and a later one cannot take anything away, so those files are written anew. All
    scalars of ``documents`` are texts as they stand in the file.

    :arg documents: netplan's files that count, parsed, in its order: path → content; ``texts`` the same as they are.
    :raises RefusedError: what netplan cannot say, or an entry that speaks of more than the link.
    """
    after = {path: copy.deepcopy(dict(content)) for path, content in documents.items()}
    ours = next((path for path in after if os.path.basename(path) == _OURS), f"{_ETC}/{_OURS}")
    after.setdefault(ours, {"network": {"version": "2"}})
    places = {name: _place(layout, name, profiles.get(name), documents) for name in layout.touched}
    moved: dict[str, dict[str, t.Any]] = {}
    for name in layout.taken:
        moved[name] = _take(places[name], after) if places[name] else {}
        if name in layout.mtus and places[name]:
            _set_mtu(places[name], after, layout.mtus[name])
    ids = {name: place[1] if place else name for name, place in places.items()}
    network = after[ours].setdefault("network", {})
    renderer = _renderer(layout, places, documents)
    common = {"renderer": renderer} if renderer else {}
    nm = (renderer or _common_renderer(documents)) == "NetworkManager"
    for name, place in places.items():
        if place is None:
            network.setdefault("ethernets", {})[name] = {**common, **({"mtu": layout.mtus[name]} if name in layout.mtus else {})}
    for device in layout.devices:
        _check(device, layout, documents)
        network.setdefault(_KIND_OF[device.kind], {})[device.name] = {**common, **_entry(device, ids, moved, nm)}
    return _change(layout, profiles, documents, texts, after, ours, moved)


def configured(documents: t.Mapping[str, _Document], link: Link) -> bool:
    """Whether netplan gives a link addresses."""
    entries = [entry for unused, unused_kind, unused_id, entry in _entries(documents) if _matches(unused_id, entry, link)]
    return any(_yes(entry.get("dhcp4")) or _yes(entry.get("dhcp6")) or entry.get("addresses") for entry in entries)


def speaks_of(documents: t.Mapping[str, _Document], link: Link) -> str | None:
    """The file in which netplan speaks of a link."""
    return next((path for path, unused, name, entry in _entries(documents) if _matches(name, entry, link)), None)


def _change(
    layout: Layout,
    profiles: t.Mapping[str, Profile],
    documents: t.Mapping[str, _Document],
    texts: t.Mapping[str, str],
    after: t.Mapping[str, t.Any],
    ours: str,
    moved: t.Mapping[str, t.Mapping[str, t.Any]],
) -> Change:
    trial: dict[str, str] = {}
    keep: dict[str, str] = {}
    # our own first: the file that loses the addresses must not stand without the one that gives them to somebody
    for path in sorted(after, key=lambda path: path != ours):
        if after[path] == documents.get(path):
            continue
        if os.path.dirname(path) == _RUN:
            raise RefusedError(f"{path} is made anew with each start of the host and would come back.", None, f"Move what it says to {_ETC}.")
        name = os.path.basename(path)
        text = f"{_MADE}: {_sentence(layout)}\n{to_yaml(_plain(after[path]))}"
        trial[f"{_RUN}/{name}"] = text
        if path != ours and not texts[path].startswith(_MADE):
            # what a person wrote beside the values is not lost
            keep[f"{_ETC}/{name}{_BEFORE}"] = texts[path]
        keep[f"{_ETC}/{name}"] = text
    for device in layout.devices:
        identity = profiles[device.inherits].identity if device.inherits in profiles else None
        if identity is not None and moved.get(device.inherits or "", {}).get("dhcp-identifier") != "mac":
            file = f"10-netplan-{device.name}.network.d/reduced-footprint.conf"
            text = f"{_MADE}: the DHCP server knows it as {device.inherits}\n[DHCPv4]\nIAID={identity}\n\n[DHCPv6]\nIAID={identity}\n"
            trial[f"{_NETWORKD_RUN}/{file}"] = text
            keep = {f"{_NETWORKD_ETC}/{file}": text, **keep}
    deletes = tuple(("ip", "link", "delete", "dev", device.name) for device in reversed(layout.devices))
    return Change(
        manager=model_network.NETPLAN,
        trial=trial,
        keep=keep,
        apply=(("netplan", "apply"),),
        revert=(*deletes, ("netplan", "apply")),
        # its files may hold passwords; networkd reads its own as another user
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
    """Kind and id of the entry that speaks of a link; ``None`` for a NIC that netplan does not know."""
    link = layout.links[name]
    told = re.match(r"\A10-netplan-(.+)\.network\Z", os.path.basename(profile.path or "")) if profile else None
    found: dict[tuple[str, str], list[t.Mapping[str, t.Any]]] = {}
    for unused, kind, entry_id, entry in _entries(documents):
        if told.group(1) == entry_id if told else _matches(entry_id, entry, link):
            found.setdefault((kind, entry_id), []).append(entry)
    if not found:
        if link.kind != model_network.NIC:
            raise RefusedError(f"netplan does not know {name}.", layout.paths.get(name), f"Bring {name} into netplan first.")
        return None
    place = next(iter(found))
    others = [other.name for other in layout.links.values() if other.name != name and any(_matches(place[1], entry, other) for entry in found[place])]
    if len(found) > 1 or others:
        also = (
            f"the entries {', '.join(entry_id for unused, entry_id in found)}"
            if len(found) > 1
            else f"{place[1]}, which speaks of {', '.join(sorted(others))} too"
        )
        message = f"netplan configures {name} by {also}."
        raise RefusedError(message, layout.paths.get(name), f"Give {name} one entry of its own in {_ETC}.")
    return place


def _take(place: tuple[str, str], after: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Remove what is about addresses from an entry, wherever it stands, and return it merged as netplan does."""
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
    """The renderer that stands at the links or their kind alone, not at the whole network."""
    found = None
    for path, kind, entry_id, entry in _entries(documents):
        if (kind, entry_id) in places.values():
            whole = _mapping(_mapping(documents[path]["network"]).get(kind)).get("renderer")
            found = entry.get("renderer") or whole or found
    return found


def _common_renderer(documents: t.Mapping[str, _Document]) -> str | None:
    """The renderer of the whole network; of several the last."""
    said = [_mapping(content.get("network")).get("renderer") for content in documents.values() if isinstance(content, t.Mapping)]
    return next((renderer for renderer in reversed(said) if renderer), None)


def _check(device: Device, layout: Layout, documents: t.Mapping[str, _Document]) -> None:
    path = layout.paths.get(device.name, "")
    for file, unused, entry_id, unused_entry in _entries(documents):
        if entry_id == device.name:
            raise RefusedError(f"{file} speaks of {device.name}, which is not up.", f"{path}.name", f"Run netplan apply, or remove it from {file}.")
    if isinstance(device.wanted, Bridge) and device.wanted.vlan_filtering:
        raise RefusedError("netplan makes no bridges with VLAN filtering.", f"{path}.vlan_filtering", "Make a bridge over a VLAN instead.")


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
        # it never gets an address, and the boot does not wait for one
        entry.update({"link-local": [], "optional": True})
        if nm:
            # whatever link-local says, netplan asks NetworkManager for one of 169.254.0.0/16 where there is no other address
            entry["networkmanager"] = {"passthrough": {"ipv4.method": "disabled", "ipv6.method": "disabled"}}
    return entry


def _yes(value: t.Any) -> bool:
    return str(value).lower() in ("true", "yes", "on", "y")


def _plain(value: t.Any) -> t.Any:
    """Texts that read the same without quotes; every other text is quoted, which is the same to netplan."""
    if isinstance(value, t.Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, str) and value in ("true", "false"):
        return value == "true"
    return int(value) if isinstance(value, str) and _NUMBER.match(value) else value


def _sentence(layout: Layout) -> str:
    return ", ".join(f"{device.name} over {', '.join(device.ports) or 'no port'}" for device in layout.devices)
