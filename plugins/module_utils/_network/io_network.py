# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the network links of the host and their network managers."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, missing_libraries
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_interfaces_file import has_stanza, methods, sourced_patterns
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link, Profile

_NETIF = "/run/systemd/netif"
_NETWORKD_DIRS = ("/etc/systemd/network", "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network")
_INTERFACES = "/etc/network/interfaces"
_NM_DEVICES = "/run/NetworkManager/devices"
_NETPLAN_DIRS = ("/run/netplan", "/etc/netplan", "/lib/netplan")
_KINDS = {"bridge": model_network.BRIDGE, "bond": model_network.BOND, "vlan": model_network.VLAN}
_SYS_MODULE = "/sys/module"
# paths that exist if the module is built into the kernel
_BUILT_IN = {"bonding": "/sys/class/net/bonding_masters", "8021q": "/proc/net/vlan"}
_ADDRESSED = re.compile(r"^\s*(Address\s*=|Gateway\s*=|DHCP\s*=\s*(?!(?:no|false|none|off|0)\s*$)\S)", re.MULTILINE | re.IGNORECASE)


def links() -> dict[str, Link]:
    """Return all links of the host by name."""
    output = json.loads(run(["ip", "-details", "-json", "address", "show"], timeout=10).stdout or "[]")
    found = [one for one in output if one.get("ifname")]
    return {one["ifname"]: _link(one, found) for one in found}


def _link(entry: t.Mapping[str, t.Any], found: t.Sequence[t.Mapping[str, t.Any]]) -> Link:
    info = entry.get("linkinfo", {})
    kind = model_network.LOOPBACK if entry.get("link_type") == "loopback" else _KINDS.get(info.get("info_kind", ""), model_network.NIC)
    found_addresses = [one for one in entry.get("addr_info", ()) if one.get("scope") == "global" and not one.get("temporary")]
    # DHCPv6 assigns /128 addresses, a router announces a /64 prefix
    autoconf = [one for one in found_addresses if one.get("family") == "inet6" and one.get("dynamic") and one.get("prefixlen") == 64]
    return Link(
        name=entry["ifname"],
        index=entry["ifindex"],
        mac=entry.get("address", "").lower(),
        kind=kind,
        mtu=entry.get("mtu", 1500),
        master=entry.get("master"),
        lower=entry.get("link") if kind == model_network.VLAN else None,
        ports=tuple(sorted(one["ifname"] for one in found if one.get("master") == entry["ifname"])),
        addresses=_with_prefix(found_addresses),
        autoconf=_with_prefix(autoconf),
        leased=_with_prefix(one for one in found_addresses if one.get("dynamic")),
        settings=info.get("info_data", {}),
    )


def _with_prefix(addresses: t.Iterable[t.Mapping[str, t.Any]]) -> tuple[str, ...]:
    return tuple(sorted(f"{one['local']}/{one['prefixlen']}" for one in addresses))


def need_module(name: str, check_mode: bool) -> None:
    """Load a kernel module; in check mode only check whether it can be loaded."""
    if os.path.exists(os.path.join(_SYS_MODULE, name)) or os.path.exists(_BUILT_IN[name]):
        return
    # by default the module creates a bond0 when it is loaded
    options = ["max_bonds=0"] if name == "bonding" else []
    try:
        run(["modprobe", *(["--dry-run"] if check_mode else []), name, *options], timeout=30)
    except CommandError as error:
        hint = f"Boot a kernel with {name}, and install its module package; the network was not changed."
        raise BackendError(f"the kernel {os.uname().release} of this host has no module {name}: {error.message}.", hint=hint) from error


def need_files(packages: t.Mapping[str, str]) -> None:
    """Check that the helpers of a network manager exist: file → package."""
    lacking = sorted({package for path, package in packages.items() if not os.path.exists(path)})
    if lacking:
        raise BackendError(f"ifupdown requires {' and '.join(lacking)}.", hint=f"Install {' '.join(lacking)}; the network was not changed.")


def profile_of(link: Link) -> Profile:
    """Return the network manager and the configuration of a link, from the state of the managers in ``/run``.

    netplan is detected with :func:`netplan_documents`, because it delegates to one of the others.
    """
    nm = _key_values(read_text(f"{_NM_DEVICES}/{link.index}") or "")
    if nm.get("managed") == "true":
        return Profile(model_network.NETWORKMANAGER)
    netif = _key_values(read_text(f"{_NETIF}/links/{link.index}") or "")
    path = netif.get("NETWORK_FILE")
    if path and netif.get("ADMIN_STATE") not in (None, "unmanaged"):
        path = _where_it_is_now(path)
        text = _with_dropins(path)
        return Profile(model_network.NETWORKD, path, text, configured=bool(_ADDRESSED.search(text)), identity=_lease_identity(link.index))
    if shutil.which("ifup"):
        for candidate, text in interfaces_files().items():
            if has_stanza(text, link.name):
                configured = any(method not in ("manual", "loopback") for unused, method in methods(text, link.name))
                return Profile(model_network.IFUPDOWN, candidate, text, configured=configured)
    return Profile(None)


def default_manager() -> str | None:
    """Return the network manager for a link without configuration, ``None`` if there is none."""
    if shutil.which("netplan") and netplan_texts():
        return model_network.NETPLAN
    if os.path.isdir(_NM_DEVICES):
        return model_network.NETWORKMANAGER
    if os.path.exists(f"{_NETIF}/state"):
        return model_network.NETWORKD
    return model_network.IFUPDOWN if shutil.which("ifup") and os.path.exists(_INTERFACES) else None


def interfaces_files() -> dict[str, str]:
    """Return the files of ifupdown in order: path → text."""
    main = read_text(_INTERFACES) or ""
    files = {_INTERFACES: main}
    for pattern in sourced_patterns(main):
        place = pathlib.Path(os.path.dirname(_INTERFACES), pattern)
        found = place.iterdir() if place.is_dir() else pathlib.Path("/").glob(str(place).lstrip("/"))
        files.update((str(one), read_text(one) or "") for one in sorted(found) if one.is_file())
    return files


def netplan_texts() -> dict[str, str]:
    """Return the effective files of netplan in order: path → text; a file in ``/run`` overrides one of the same name in ``/etc``."""
    if not shutil.which("netplan"):
        return {}
    found: dict[str, pathlib.Path] = {}
    for folder in _NETPLAN_DIRS:
        for one in pathlib.Path(folder).glob("*.yaml"):
            found.setdefault(one.name, one)
    return {str(found[name]): read_text(found[name]) or "" for name in sorted(found)}


def netplan_documents(texts: t.Mapping[str, str]) -> dict[str, t.Mapping[str, t.Any]]:
    """Parse the files of netplan; every scalar is a string as written in the file."""
    yaml = _yaml()
    documents = {}
    for path, text in texts.items():
        try:
            content = yaml.load(text, Loader=yaml.BaseLoader)  # creates strings, lists and mappings only
        except yaml.YAMLError as error:
            raise BackendError(f"{path} is not valid YAML: {error}".replace("\n", " "), hint="Run netplan generate and fix the reported error.") from error
        documents[path] = content if isinstance(content, dict) else {}
    return documents


def netplan_text(content: t.Any) -> str:
    """Return the text of a netplan file."""
    return _yaml().safe_dump(content, allow_unicode=True, sort_keys=False, width=float("inf"))


def _yaml() -> t.Any:
    try:
        # pylint: disable-next=import-outside-toplevel  # netplan depends on it
        import yaml
    except ImportError as error:
        raise missing_libraries("yaml") from error
    return yaml


def _where_it_is_now(path: str) -> str:
    """Return the current path of a file: after a confirmation networkd reports the path of the trial until it is reloaded."""
    if os.path.exists(path):
        return path
    names = (os.path.basename(path), os.path.basename(path).replace("00-0-", "00-", 1))
    places = (os.path.join(folder, name) for name in names for folder in _NETWORKD_DIRS)
    return next((place for place in places if os.path.exists(place)), path)


def _with_dropins(path: str) -> str:
    text = read_text(path) or ""
    seen: dict[str, str] = {}
    for folder in _NETWORKD_DIRS:
        dropins = pathlib.Path(folder, f"{os.path.basename(path)}.d")
        if dropins.is_dir():
            for one in dropins.glob("*.conf"):
                seen.setdefault(one.name, read_text(one) or "")
    return "\n".join([text] + [seen[name] for name in sorted(seen)])


def _lease_identity(index: int) -> int | None:
    """Return the IAID of the DHCP lease, which networkd derives from the link name; with it a bridge gets the address of its port."""
    client = _key_values(read_text(f"{_NETIF}/leases/{index}") or "").get("CLIENTID", "")
    # RFC 4361: type 255, four bytes IAID, then the DUID
    return int(client[2:10], 16) if client.startswith("ff") and len(client) > 10 else None


def _key_values(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}
