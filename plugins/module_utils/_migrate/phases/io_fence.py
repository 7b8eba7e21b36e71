# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packet filter around a VM that is not committed yet: it reaches this host and, by ARP only, its neighbours.

Data that clients write to a VM which is discarded afterwards would be lost, so clients are admitted only after the commit.
Frames between this host and the VM do not pass the forward hook of the bridge; all other frames do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_link, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

#: Rule sets that are loaded before libvirt when the host boots.
HOME = pathlib.Path("/var/lib/reduced.footprint/fences")
UNITS = pathlib.Path("/etc/systemd/system")
_INTERFACE = re.compile(r"\A[^\s/\"\\{}]{1,15}\Z")
_MAC = re.compile(r"\A[0-9a-f]{2}(?::[0-9a-f]{2}){5}\Z")


def table(name: str) -> str:
    """Name of the nftables table of a migration; valid for any migration name."""
    return f"reduced_footprint_{hashlib.sha256(name.encode('utf-8')).hexdigest()[:12]}"


def rules(name: str, macs: t.Sequence[str], *, ports: t.Sequence[str] = (), known: t.Sequence[t.Sequence[str]] = ()) -> str:
    """Return the fence as an nft rule set: no frame is forwarded from or to the VM, except ARP.

    :arg ports: bridge ports of the VM, if known; required to drop broadcast and multicast.
    :arg known: per bridge, its ports before the VM is started. Any additional port counts as the VM's until ``ports`` are known.
    """
    for each in [*ports, *(port for bridge in known for port in bridge)]:
        if not _INTERFACE.match(each):
            raise InputError(f"{each!r} is not a valid interface name.")
    cards = [each.lower() for each in macs]
    for each in cards:
        if not _MAC.match(each):
            raise InputError(f"{each!r} is not a valid MAC address.")
    lines = ["ether type arp accept"]
    if cards:
        lines += [f"ether {way} {_set(cards, quote=False)} drop" for way in ("saddr", "daddr")]
    if ports:
        lines += [f"{way} {_set(ports)} drop" for way in ("iifname", "oifname")]
    for bridge in known:
        if bridge:
            lines += [f"iifname {_set(bridge)} oifname != {_set(bridge)} drop", f"iifname != {_set(bridge)} oifname {_set(bridge)} drop"]
    return (
        # create and delete the table first, so that closing an already closed fence succeeds
        f"table bridge {table(name)}\n"
        f"delete table bridge {table(name)}\n"
        f"table bridge {table(name)} {{\n"
        "  chain forward {\n"
        "    type filter hook forward priority -200; policy accept;\n" + "".join(f"    {line}\n" for line in lines) + "  }\n}\n"
    )


def _set(values: t.Sequence[str], *, quote: bool = True) -> str:
    return "{ " + ", ".join(f'"{each}"' if quote else each for each in sorted(set(values))) + " }"


def ports_of(bridge: str) -> list[str]:
    """The current ports of a bridge."""
    try:
        return sorted(os.listdir(f"/sys/class/net/{bridge}/brif"))
    except OSError:
        return []


def close(name: str, macs: t.Sequence[str], bridges: t.Sequence[str]) -> None:
    """Block clients of a VM that is about to start; effective beyond the end of the caller and after a reboot of the host.

    :raises CommandError: the host has no nft, or its kernel does not support the bridge family.
    """
    _load(rules(name, macs, known=[ports_of(bridge) for bridge in sorted(set(bridges))]))
    # on a full disk the fence is effective until the host restarts
    with contextlib.suppress(OSError):
        _keep(name, rules(name, macs))


def tighten(name: str, macs: t.Sequence[str], ports: t.Sequence[str]) -> None:
    """Block clients of the running VM by its bridge ports only; restores a fence that was flushed."""
    _load(rules(name, macs, ports=ports))


def open_up(name: str) -> None:
    """Admit clients; an already open fence is accepted."""
    wants = UNITS / "multi-user.target.wants"
    with contextlib.suppress(OSError):
        (wants / unit(name)).unlink(missing_ok=True)
        (UNITS / unit(name)).unlink(missing_ok=True)
        _file(name).unlink(missing_ok=True)
    run(["nft", "-f", "-"], stdin=f"table bridge {table(name)}\ndelete table bridge {table(name)}\n", timeout=30)
    # after a power loss the fence must not come back around a VM that serves
    with contextlib.suppress(OSError):
        sync_path(wants)


def _load(text: str) -> None:
    run(["nft", "-f", "-"], stdin=text, timeout=30, hint="Install nftables on the destination.")


def unit(name: str) -> str:
    """The systemd unit that closes the fence at boot, before libvirt can start the VM."""
    return f"{table(name).replace('_', '-')}-fence.service"


def _file(name: str) -> pathlib.Path:
    return HOME / f"{table(name)}.nft"


def _keep(name: str, text: str) -> None:
    """Restore the fence after a reboot by the MACs only, because the ports get other names."""
    HOME.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(_file(name), text)
    nft = shutil.which("nft", path="/usr/sbin:/sbin:/usr/bin:/bin") or "/usr/sbin/nft"
    write_atomic(
        UNITS / unit(name),
        "[Unit]\nDescription=Block clients of a VM whose migration is not complete (reduced.footprint)\n"
        # after packet filters that flush all tables, and before any guest starts
        "After=nftables.service firewalld.service\n"
        "Before=libvirtd.service libvirtd.socket virtqemud.service virtqemud.socket libvirt-guests.service\n\n"
        f"[Service]\nType=oneshot\nExecStart={nft} -f {_file(name)}\n\n"
        "[Install]\nWantedBy=multi-user.target\n",
        mode=0o644,
    )
    make_link(UNITS / "multi-user.target.wants" / unit(name), UNITS / unit(name))
