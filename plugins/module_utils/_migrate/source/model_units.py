# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units of a source: which ones stop and which keep running, and the units of this collection that quiesce it and return it to service."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import ALL, MAINTENANCE_BOOT

# target of the boot without services
MAINTENANCE_TARGET = "reduced-footprint-maintenance.target"

# podman leaves the monitor of a container in the unit that starts it, and systemd ends the monitor, and so the container, with that unit
IN_A_SCOPE = ("systemd-run", "--quiet", "--scope", "--collect")

# Units that the migration depends on, by the beginning of their name.
_CARRIERS = re.compile(
    r"\A("
    # ssh, and services for root logins
    r"sshd?[.@-]|dropbear|sssd|nslcd|polkit"
    # the message bus, systemd's own, logins, consoles
    r"|dbus|systemd-|user@|user-runtime-dir@|getty@|serial-getty@|console-getty|container-getty@|rescue|emergency"
    # the network
    r"|networking\.|network\.|NetworkManager|network-manager|wpa_supplicant|iwd\.|wicked|netplan|ifup@|ifupdown|dhcpcd|dhclient|connman|resolvconf"
    r"|teamd@|openvswitch|ovs-|ovsdb-|wg-quick@|openvpn|strongswan|ipsec"
    # stopping a firewall may block or open all ports
    r"|nftables|iptables|ip6tables|netfilter-persistent|firewalld|ufw\.|ferm\.|shorewall|apparmor|auditd"
    # disks; blk-availability unmounts when it is stopped
    r"|lvm2-|dm-event|blk-availability|multipath|iscsi|open-iscsi|mdmonitor|mdadm|zfs-|nvme|fcoe"
    # a watchdog that is not triggered resets the machine
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
    """Whether the migration depends on a unit."""
    return bool(_CARRIERS.match(name))


def units_to_stop(units: t.Iterable[Unit], needed: t.Container[str]) -> list[str]:
    """The units that ``services: all`` stops: running services, and active units that could start one.

    Services that ran once and ended are left out: they hold nothing open, and starting them again could do harm.

    :arg needed: units that the carriers require.
    """
    found = []
    for unit in units:
        kind = unit.name.rpartition(".")[2]
        up = unit.active in _UP and not (kind == "service" and unit.sub == "exited")
        if kind in _STOPPABLE and unit.load == "loaded" and up and not is_carrier(unit.name) and unit.name not in needed:
            found.append(unit.name)
    return sorted(found)


def user_service(cgroup: str) -> tuple[int, str] | None:
    """The user and the unit of a process below a user's service manager, which runs without a login if the user has lingering.

    The manager itself and the message bus of the user are left out: they write no data.

    :arg cgroup: content of ``/proc/PID/cgroup``.
    """
    found = re.search(r"/user@(\d+)\.service/(\S+)", cgroup)
    if not found:
        return None
    name = next((part for part in reversed(found[2].split("/")) if part.endswith((".service", ".scope"))), "")
    return None if name in ("", "init.scope", "dbus.service", "dbus-broker.service") else (int(found[1]), name)


def units_to_keep(units: t.Iterable[Unit]) -> list[str]:
    """The units that a maintenance boot starts: the carriers that are active now, without user sessions."""
    return sorted(
        unit.name
        for unit in units
        if unit.active in _UP
        and unit.name.rpartition(".")[2] in ("service", "socket")
        and is_carrier(unit.name)
        and not unit.name.startswith(("user@", "user-runtime-dir@", "reduced-footprint-", "ssh@", "sshd@"))
    )


def rest_target(units: t.Sequence[str]) -> str:
    """A target whose start stops units in one transaction, so that systemd's own order applies."""
    lines = [line for unit in units for line in (f"Conflicts={unit}", f"After={unit}")]
    return "\n".join(["[Unit]", "Description=Services stopped while the master moves (reduced.footprint)", "DefaultDependencies=no", *lines, ""])


def return_target(units: t.Sequence[str]) -> str:
    """A target whose start starts units in one transaction."""
    return "\n".join(["[Unit]", "Description=Services started when the master returns (reduced.footprint)", *(f"Wants={unit}" for unit in units), ""])


def maintenance_target(service: str, keep: t.Sequence[str]) -> str:
    """The target of the maintenance boot: the carriers and the watch."""
    lines = [
        "[Unit]",
        "Description=Network and ssh only while the master moves (reduced.footprint)",
        # not basic.target: it pulls in all sockets, timers and paths
        "Requires=sysinit.target",
        "After=sysinit.target",
        "Wants=network.target",
        *(f"Wants={unit}" for unit in [*keep, service]),
        "AllowIsolate=yes",
        "",
    ]
    return "\n".join(lines)


def maintenance_service(argv: t.Sequence[str], usual_link: str | None, link: str) -> str:
    """The service that returns from a maintenance boot.

    Its first command restores the usual default target without any program of this collection, so that any
    further boot uses it. If the watch cannot be started, systemd reboots the machine.

    :arg usual_link: the previous target of ``link``; ``None`` if there was no link.
    """
    back = f"/bin/ln -sfn {usual_link} {link}" if usual_link else f"/bin/rm -f {link}"
    return (
        "[Unit]\nDescription=Return of a master from its maintenance boot (reduced.footprint)\nAfter=network.target\n"
        "StartLimitIntervalSec=120\nStartLimitBurst=5\nStartLimitAction=reboot\n\n"
        f"[Service]\nExecStartPre={back}\nExecStart={' '.join(argv)}\nRestart=on-failure\nRestartSec=2\n"
    )


def watch_service(argv: t.Sequence[str]) -> str:
    """The service that runs the watch on a source that boots while it is set aside; restarted without limit."""
    return (
        "[Unit]\nDescription=Return of a master that was moved by reduced.footprint\nAfter=network.target\nStartLimitIntervalSec=0\n\n"
        f"[Service]\nRestart=on-failure\nRestartSec=1\nExecStart={' '.join(argv)}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def holds_everything(services: t.Sequence[str], quiesce: str) -> bool:
    """Whether all units except the carriers stop: requested by ``all``, or because of a maintenance boot."""
    return quiesce == MAINTENANCE_BOOT or tuple(services) == (ALL,)


def passphrase_volume(crypttab: str) -> str | None:
    """The first volume of a crypttab that requires a passphrase at boot; ``None`` if there is none."""
    for line in crypttab.splitlines():
        fields = line.split()
        if len(fields) > 1 and not fields[0].startswith("#"):
            key = fields[2] if len(fields) > 2 else "none"
            options = fields[3] if len(fields) > 3 else ""
            if key in ("none", "-") and not re.search(r"(^|,)(noauto|tpm2-device=|fido2-device=|swap|tmp)", options):
                return fields[0]
    return None
