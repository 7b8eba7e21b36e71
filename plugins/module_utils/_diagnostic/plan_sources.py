# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a diagnostic snapshot collects on a host: commands, files and journals. No text comes from a file that only contains secrets."""

from __future__ import annotations

import typing as t

KIB = 1024


class Command(t.NamedTuple):
    """A command that reads.

    :arg name: name of the text.
    :arg argv: program and arguments.
    :arg path: path of a file whose format the output has, for masking.
    """

    name: str
    argv: tuple[str, ...]
    path: str = ""


class Files(t.NamedTuple):
    """Files of one kind.

    :arg patterns: below the root of the host.
    :arg most: bytes at the end of each that are read.
    :arg recent: only those that were written during the hours that are asked for, and no links: others than root write them.
    """

    patterns: tuple[str, ...]
    most: int = 128 * KIB
    recent: bool = False


def _command(name: str, line: str, path: str = "") -> Command:
    return Command(name, tuple(line.split()), path)


#: Topic → commands. Lists of processes have no arguments, because others put secrets there.
COMMANDS: t.Mapping[str, tuple[Command, ...]] = {
    "system": (
        _command("kernel", "uname -a"),
        _command("uptime", "uptime"),
        _command("boots", "journalctl --list-boots --no-pager"),
        _command("memory", "free -m"),
        _command("load", "vmstat 1 2"),
        _command("processor", "lscpu"),
        _command("processes", "ps -eo pid,ppid,user,stat,etimes,rss,pcpu,comm --sort=-rss"),
        _command("disks", "lsblk -o NAME,SIZE,TYPE,FSTYPE,MOUNTPOINT,ROTA,MODEL"),
        _command("space", "df -PTh"),
        _command("inodes", "df -Pi"),
        _command("mounts", "findmnt --real"),
        _command("volume-groups", "vgs"),
        _command("logical-volumes", "lvs -a"),
        _command("sysctl", "sysctl -a", "sysctl.conf"),
        _command("units", "systemctl list-units --all --no-pager --plain"),
        _command("failed-units", "systemctl list-units --failed --no-pager --plain"),
        _command("timers", "systemctl list-timers --all --no-pager"),
        _command("packages", "dpkg-query -W -f=${db:Status-Abbrev}${binary:Package}\\t${Version}\\n"),
    ),
    "clock": (
        _command("settings", "timedatectl show"),
        _command("tracking", "chronyc -n tracking"),
        _command("sources", "chronyc -n sources"),
    ),
    "network": (
        _command("addresses", "ip -d address"),
        _command("counters", "ip -s link"),
        _command("routes", "ip route show table all"),
        _command("rules", "ip rule"),
        _command("neighbours", "ip neigh"),
        _command("bridge-ports", "bridge link"),
        _command("bridge-vlans", "bridge vlan"),
        _command("listeners", "ss -tulnp"),
        _command("connections", "ss -tn"),
        _command("packet-filter", "nft list ruleset"),
        _command("openvswitch", "ovs-vsctl show"),
    ),
    "cluster": (
        _command("pacemaker", "crm_mon -1rf"),
        _command("corosync", "corosync-quorumtool"),
        Command("galera", ("mariadb", "--batch", "--execute=SHOW GLOBAL STATUS")),
    ),
}

#: Asked about each connection that a host may have. Read-only connections do not show passwords of displays.
VM_CONNECTIONS = ("qemu:///system", "lxc:///system")
VM_COMMANDS = ("list --all", "nodeinfo", "pool-list --all --details", "net-list --all")
EACH_VM = ("dominfo", "dumpxml")
MOST_VMS = 200

_SERVICES = ("keystone", "glance", "nova", "neutron", "cinder", "placement", "openstack-dashboard")
FILES: t.Mapping[str, Files] = {
    "configuration": Files(
        (
            "etc/os-release",
            "etc/hosts",
            "etc/resolv.conf",
            "etc/fstab",
            "etc/haproxy/*.cfg",
            "etc/keepalived/*.conf",
            "etc/mysql/**/*.cnf",
            "etc/rabbitmq/*.conf",
            "etc/rabbitmq/*.config",
            "etc/rabbitmq/enabled_plugins",
            "etc/memcached*.conf",
            *(f"etc/{name}/**/*.{suffix}" for name in _SERVICES for suffix in ("conf", "ini", "yaml", "json")),
            "etc/apache2/*-enabled/*.conf",
            "etc/libvirt/*.conf",
            "etc/chrony/**/*.conf",
            "etc/chrony/sources.d/*.sources",
            "etc/corosync/corosync.conf",
            "etc/nftables.conf",
            "etc/sysctl.d/*.conf",
            "etc/network/interfaces",
            "etc/network/interfaces.d/*",
            "etc/netplan/*.yaml",
            "etc/systemd/network/*",
            "etc/NetworkManager/system-connections/*.nmconnection",
            "etc/systemd/system/*.service",
            "etc/systemd/system/*.timer",
            "etc/systemd/system/*.d/*.conf",
        )
    ),
    "state": Files(("var/lib/reduced.footprint/**/*.json", "var/lib/reduced.footprint/*/*/log", "run/reduced.footprint/**/*.json")),
    "logs": Files(
        tuple(
            f"var/log/{name}/**/*.log"
            for name in ("apache2", "corosync", "libvirt", "mysql", "openvswitch", "ovn", "pacemaker", "rabbitmq", *_SERVICES)
        ),
        512 * KIB,
        True,
    ),
}
#: The most files of one topic.
MOST_FILES = 400

#: Files that contain one secret and nothing else. They are never collected; their content is masked wherever else it is found.
SECRET_FILES = (
    "var/lib/rabbitmq/.erlang.cookie",
    "var/lib/reduced.footprint/write-probe/password",
    "etc/keystone/fernet-keys/*",
    "etc/keystone/credential-keys/*",
)

#: Beginnings of the names of units that a footprint uses.
UNITS = (
    "footprint", "reduced-footprint", "mariadb", "rabbitmq", "garbd", "memcached", "haproxy", "keepalived", "keystone", "glance", "nova", "neutron",
    "cinder", "placement", "apache2", "ovn", "ovs", "openvswitch", "libvirt", "virt", "lxc", "chrony", "corosync", "pacemaker", "sbd", "ssh", "nftables",
    "networking", "systemd-networkd", "systemd-timesyncd", "NetworkManager",
)  # fmt: skip
JOURNAL_BYTES = 1024 * KIB
COMMAND_BYTES = 512 * KIB


def units(listed: str) -> list[str]:
    """Return the units of a footprint in the output of ``systemctl list-units --plain --no-legend``."""
    names = [line.split()[0] for line in listed.splitlines() if line.split()]
    return [name for name in names if name.startswith(UNITS)]


def journals(names: t.Sequence[str], hours: int) -> list[Command]:
    """Return the commands that read the journals of units, of the kernel, and the errors of all others."""
    base = ("journalctl", "--no-pager", "--output=short-iso-precise", "--lines=20000", f"--since=-{hours}h")
    return [
        Command("kernel", (*base, "_TRANSPORT=kernel")),
        Command("errors", (*base, "--priority=err")),
        *(Command(name, (*base, f"--unit={name}")) for name in names),
    ]


def vm_commands(uri: str, names: t.Sequence[str]) -> list[Command]:
    """Return the commands about a connection and its VMs."""
    virsh, kind = ("virsh", "-r", "-c", uri), uri.partition(":")[0]
    about = [Command(f"{kind}/{line.split()[0]}", (*virsh, *line.split())) for line in VM_COMMANDS]
    return about + [Command(f"{kind}/{name}/{what}", (*virsh, what, name)) for name in names[:MOST_VMS] for what in EACH_VM]
