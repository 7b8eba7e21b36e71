# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network links of the host, who manages them, and bridge changes under a dead-man switch (X8)."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend import deadman
from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run
from ansible_collections.reduced.footprint.plugins.module_utils._backend.files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._model.interfaces_file import has_stanza, sourced_patterns
from ansible_collections.reduced.footprint.plugins.module_utils._model.network import Change

RUN_DIR = "/run/reduced.footprint"
_SYS_NET = "/sys/class/net"
_NETIF = "/run/systemd/netif/links"
_LEASES = "/run/systemd/netif/leases"
_NETWORKD_DIRS = ("/etc/systemd/network", "/run/systemd/network", "/usr/local/lib/systemd/network", "/usr/lib/systemd/network", "/lib/systemd/network")
_INTERFACES = "/etc/network/interfaces"
_NM_DEVICES = "/run/NetworkManager/devices"


@dataclasses.dataclass(frozen=True)
class Link:
    """A network interface; ``ports`` are the ports of a bridge, ``master`` is the bridge or bond it is in."""

    name: str
    index: int
    mac: str
    is_bridge: bool
    ports: tuple[str, ...]
    master: str | None


@dataclasses.dataclass(frozen=True)
class Manager:
    """Who configures a link.

    ``name`` is networkd, netplan, networkmanager, ifupdown or ``None`` for nobody known; ``path``
    the file that speaks of the link, ``text`` its content, drop-ins appended.
    """

    name: str | None
    path: str | None = None
    text: str = ""


def links(root: str = _SYS_NET) -> dict[str, Link]:
    """All links of the host by name."""
    found = {}
    for place in sorted(pathlib.Path(root).iterdir()):
        if not (place / "ifindex").exists():
            continue  # bonding_masters
        brif = place / "brif"
        master = place / "master"
        found[place.name] = Link(
            name=place.name,
            index=int((read_text(place / "ifindex") or "0").strip()),
            mac=(read_text(place / "address") or "").strip(),
            is_bridge=(place / "bridge").is_dir(),
            ports=tuple(sorted(port.name for port in brif.iterdir())) if brif.is_dir() else (),
            master=os.path.basename(os.readlink(master)) if master.is_symlink() else None,
        )
    return found


def addresses(name: str) -> tuple[str, ...]:
    """The global addresses of a link with their prefix length, e.g. ``192.0.2.1/24``."""
    said = run(["ip", "-j", "address", "show", "dev", name], timeout=10).stdout
    found = json.loads(said or "[]")
    infos = [info for link in found for info in link.get("addr_info", []) if info.get("scope") == "global"]
    return tuple(sorted(f"{info['local']}/{info['prefixlen']}" for info in infos))


def manager_of(link: Link) -> Manager:
    """Who configures a link, by what the managers themselves keep under ``/run``."""
    nm = _key_values(read_text(f"{_NM_DEVICES}/{link.index}") or "")
    if nm.get("managed") == "true":
        return Manager("networkmanager")
    netif = _key_values(read_text(f"{_NETIF}/{link.index}") or "")
    path = netif.get("NETWORK_FILE")
    if path and netif.get("ADMIN_STATE") not in (None, "unmanaged"):
        if os.path.basename(path).startswith("10-netplan-"):
            return Manager("netplan", path)
        return Manager("networkd", path, _with_dropins(path) + _lease_identity(link.index))
    if shutil.which("ifup"):
        for candidate in _interfaces_files():
            text = read_text(candidate) or ""
            if has_stanza(text, link.name):
                return Manager("ifupdown", candidate, text)
    return Manager(None)


def trial_of(bridge: str) -> deadman.Trial:
    """The change of a bridge; its state is ``None`` when there is none."""
    return deadman.Trial(os.path.join(RUN_DIR, f"bridge-{bridge}"))


def start_trial(bridge: str, change: Change, timeout: int, patience: float = 30) -> None:
    """Apply a change by a detached unit and wait until it is live.

    :arg timeout: seconds after which the old configuration returns unless the change is confirmed.
    :raises BackendError: systemd did not start the unit, or the change could not be applied.
    """
    trial = trial_of(bridge)
    folder = pathlib.Path(trial.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    script = f"{folder}/deadman.py"
    # the module itself may be inside an archive that is gone when the unit runs
    write_atomic(script, deadman.__loader__.get_source(deadman.__name__))
    restore = {path: read_text(path) for path in (*change.trial, *change.keep)}
    plan = {
        "write": dict(change.trial),
        "keep": dict(change.keep),
        "apply": [list(argv) for argv in change.apply],
        "revert": [list(argv) for argv in change.revert],
        "restore": restore,
        "timeout": timeout,
    }
    write_atomic(folder / "plan.json", json.dumps(plan))
    trial.set_state(deadman.STATE_PLANNED)
    python = sys.executable or "/usr/bin/python3"
    unit = f"reduced-footprint-bridge-{bridge}"
    run(
        ["systemd-run", "--quiet", "--collect", f"--unit={unit}", f"--property=ExecStopPost={python} {script} settle {folder}",
         python, script, "try", str(folder)],
        timeout=30,
        mend="The host needs systemd; the network was not touched.",
    )  # fmt: skip
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and trial.state in (deadman.STATE_PLANNED, deadman.STATE_TRYING):
        time.sleep(0.1)
    if trial.state == deadman.STATE_REVERTED:
        raise BackendError(f"the bridge {bridge} was not made; the old configuration is back: {trial.reason}.")


def wait_for_takeover(bridge: str, port: str, wanted: t.Sequence[str], patience: float) -> str | None:
    """Wait until the bridge has its port and the port's former addresses; what is missing, or ``None``."""
    deadline = time.monotonic() + patience
    while True:
        missing = _missing(bridge, port, wanted)
        if missing is None or time.monotonic() >= deadline:
            return missing
        time.sleep(0.2)


def confirm_trial(bridge: str) -> None:
    """Make the change last, unless its time has run out.

    :raises BackendError: too late, the old configuration is back.
    """
    trial = trial_of(bridge)
    with trial:
        if trial.state == deadman.STATE_REVERTED:
            raise BackendError(
                f"the bridge {bridge} came too late; the old configuration is back: {trial.reason}.",
                mend="Check the bridge's configuration, or raise the timeout if the host is only slow.",
            )
        if trial.state == deadman.STATE_APPLIED:
            trial.confirm(trial.plan["keep"])


def _missing(bridge: str, port: str, wanted: t.Sequence[str]) -> str | None:
    now = links()
    if bridge not in now or port not in now[bridge].ports:
        return f"{bridge} does not have the port {port}"
    lost = sorted(set(wanted) - set(addresses(bridge)))
    return f"{bridge} does not have {', '.join(lost)}" if lost else None


def _with_dropins(path: str) -> str:
    text = read_text(path) or ""
    seen: dict[str, str] = {}
    for folder in _NETWORKD_DIRS:
        dropins = pathlib.Path(folder, f"{os.path.basename(path)}.d")
        if dropins.is_dir():
            for one in dropins.glob("*.conf"):
                seen.setdefault(one.name, read_text(one) or "")
    return "\n".join([text] + [seen[name] for name in sorted(seen)])


def _lease_identity(index: int) -> str:
    """What makes a DHCP server give a bridge the port's own address: networkd derives it from the name of the link."""
    client = _key_values(read_text(f"{_LEASES}/{index}") or "").get("CLIENTID", "")
    # RFC 4361: type 255, four bytes for the interface, then those for the machine
    return f"\n[DHCPv4]\nIAID={int(client[2:10], 16)}\n" if client.startswith("ff") and len(client) > 10 else ""


def _interfaces_files() -> list[str]:
    files = [_INTERFACES]
    for pattern in sourced_patterns(read_text(_INTERFACES) or ""):
        place = pathlib.Path("/etc/network", pattern)
        if place.is_dir():
            files += sorted(str(one) for one in place.iterdir() if one.is_file())
        else:
            files += sorted(str(one) for one in pathlib.Path("/").glob(str(place).lstrip("/")))
    return files


def _key_values(text: str) -> dict[str, str]:
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, value in pairs}
