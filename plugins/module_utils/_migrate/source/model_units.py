# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of a source: what rests and what keeps running, and the units of ours that bring it there and back."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import ALL, MAINTENANCE_BOOT

# the boot without services
MAINTENANCE_TARGET = "reduced-footprint-maintenance.target"

# What the migration stands on, by the first letters of a unit's name.
_CARRIERS = re.compile(
    r"\A("
    # ssh, and who lets root in
    r"sshd?[.@-]|dropbear|sssd|nslcd|polkit"
    # the message bus, init's own, logins, consoles
    r"|dbus|systemd-|user@|user-runtime-dir@|getty@|serial-getty@|console-getty|container-getty@|rescue|emergency"
    # the network
    r"|networking\.|network\.|NetworkManager|network-manager|wpa_supplicant|iwd\.|wicked|netplan|ifup@|ifupdown|dhcpcd|dhclient|connman|resolvconf"
    r"|teamd@|openvswitch|ovs-|ovsdb-|wg-quick@|openvpn|strongswan|ipsec"
    # a firewall that ends may close or open everything
    r"|nftables|iptables|ip6tables|netfilter-persistent|firewalld|ufw\.|ferm\.|shorewall|apparmor|auditd"
    # the disks; blk-availability unmounts when it is stopped
    r"|lvm2-|dm-event|blk-availability|multipath|iscsi|open-iscsi|mdmonitor|mdadm|zfs-|nvme|fcoe"
    # a watchdog that is not fed resets the machine
    r"|watchdog|wd_keepalive|qemu-guest-agent|open-vm-tools|vmtoolsd"
    r"|reduced-footprint-)"
)
_STOPPABLE = ("service", "socket", "timer", "path")
_UP = ("active", "activating", "reloading")


class Unit(t.NamedTuple):
    """One unit as systemd lists it."""

    name: str
    load: str
    active: str
    sub: str


def parse_units(text: str) -> list[Unit]:
    """Units from what ``systemctl list-units --plain --no-legend`` prints."""
    rows = [line.replace("\u25cf", " ").split(None, 4) for line in text.splitlines()]
    return [Unit(*row[:4]) for row in rows if len(row) >= 4]


def is_carrier(name: str) -> bool:
    """Whether the migration stands on a unit."""
    return bool(_CARRIERS.match(name))


def units_to_stop(units: t.Iterable[Unit], needed: t.Container[str]) -> list[str]:
    """What ``services: all`` stops: every service that runs, and what could start one.

    A service that ran once and ended holds nothing open; starting it again could do harm.

    :arg needed: units that carriers cannot do without.
    """
    found = []
    for unit in units:
        kind = unit.name.rpartition(".")[2]
        up = unit.active in _UP and not (kind == "service" and unit.sub == "exited")
        if kind in _STOPPABLE and unit.load == "loaded" and up and not is_carrier(unit.name) and unit.name not in needed:
            found.append(unit.name)
    return sorted(found)


def units_to_keep(units: t.Iterable[Unit]) -> list[str]:
    """What a maintenance boot starts: the carriers that are up now, sessions of people aside."""
    return sorted(
        unit.name
        for unit in units
        if unit.active in _UP
        and unit.name.rpartition(".")[2] in ("service", "socket")
        and is_carrier(unit.name)
        and not unit.name.startswith(("user@", "user-runtime-dir@", "reduced-footprint-", "ssh@", "sshd@"))
    )


def rest_target(units: t.Sequence[str]) -> str:
    """A target whose start stops units in one go, so that systemd's own order applies to them."""
    lines = [line for unit in units for line in (f"Conflicts={unit}", f"After={unit}")]
    return "\n".join(["[Unit]", "Description=What a master holds while it moves (reduced.footprint)", "DefaultDependencies=no", *lines, ""])


def return_target(units: t.Sequence[str]) -> str:
    """A target whose start starts units in one go."""
    return "\n".join(["[Unit]", "Description=What a master serves again (reduced.footprint)", *(f"Wants={unit}" for unit in units), ""])


def maintenance_target(service: str, keep: t.Sequence[str]) -> str:
    """The target of a boot in which nothing is served: the carriers and the way back."""
    lines = [
        "[Unit]",
        "Description=Only the network and ssh, while the master moves (reduced.footprint)",
        # not basic.target: that brings all sockets, timers and paths
        "Requires=sysinit.target",
        "After=sysinit.target",
        "Wants=network.target",
        *(f"Wants={unit}" for unit in [*keep, service]),
        "AllowIsolate=yes",
        "",
    ]
    return "\n".join(lines)


def maintenance_service(argv: t.Sequence[str], usual_link: str | None, link: str) -> str:
    """The way back from a maintenance boot.

    Before anything of ours runs, the usual target is put back with plain tools: whatever happens
    next, one more boot leads to it. And when our program cannot run, that boot is made.
    """
    back = f"/bin/ln -sfn {usual_link} {link}" if usual_link else f"/bin/rm -f {link}"
    return (
        "[Unit]\nDescription=Way back of a master in its maintenance boot (reduced.footprint)\nAfter=network.target\n"
        "StartLimitIntervalSec=120\nStartLimitBurst=5\nStartLimitAction=reboot\n\n"
        f"[Service]\nExecStartPre={back}\nExecStart={' '.join(argv)}\nRestart=on-failure\nRestartSec=2\n"
    )


def watch_service(argv: t.Sequence[str]) -> str:
    """The way back of a source that boots while it stands aside; never given up on."""
    return (
        "[Unit]\nDescription=Way back of a master that was moved by reduced.footprint\nAfter=network.target\nStartLimitIntervalSec=0\n\n"
        f"[Service]\nRestart=on-failure\nRestartSec=1\nExecStart={' '.join(argv)}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def holds_everything(services: t.Sequence[str], quiesce: str) -> bool:
    """Whether all but the carriers comes to rest: asked for, or because the machine boots without the rest."""
    return quiesce == MAINTENANCE_BOOT or tuple(services) == (ALL,)


def passphrase_volume(crypttab: str) -> str | None:
    """The first volume of a crypttab that is opened by hand."""
    for line in crypttab.splitlines():
        fields = line.split()
        if len(fields) > 1 and not fields[0].startswith("#"):
            key = fields[2] if len(fields) > 2 else "none"
            options = fields[3] if len(fields) > 3 else ""
            if key in ("none", "-") and not re.search(r"(^|,)(noauto|tpm2-device=|fido2-device=|swap|tmp)", options):
                return fields[0]
    return None
