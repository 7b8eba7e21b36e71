# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is done with a server to read its hardware, and whether the machine that answered is this server. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean

KNOWN, BOOT, RESTART, READ, WAIT, REFUSE = "known", "boot", "restart", "read", "wait", "refuse"
ON, OFF = "on", "off"


class Step(t.NamedTuple):
    """What is done with a server, and why."""

    action: str
    reason: str


class Situation(t.NamedTuple):
    """The state of a server.

    :arg known: when its hardware was read; empty if it was not.
    :arg begun: whether an interrupted run booted it.
    :arg recent: whether that was too recent for anyone to have put it into use.
    :arg again: whether to read it again.
    :arg restart: whether the user named it for a restart.
    :arg power: its power state.
    :arg booted: whether it runs the small system.
    """

    known: str
    begun: bool
    recent: bool
    again: bool
    restart: bool
    power: str
    booted: bool


def choose(name: str, now: Situation) -> Step:
    """Return what is done with a server. One that runs anything else than the small system is restarted only if it is named."""
    if now.known and not now.again and not now.begun:
        return Step(KNOWN, f"its hardware was read {now.known}")
    if now.power == OFF:
        return Step(BOOT, "it is off")
    if now.booted:
        return Step(READ, "it already runs the system for the discovery")
    if now.restart:
        return Step(RESTART, "discover_servers_restart names it")
    if now.begun and now.recent:
        return Step(WAIT, "an interrupted run booted it")
    return Step(
        REFUSE,
        f"{name} is {now.power} and runs something else than the system for the discovery, so it is not restarted. Shut it down, or name it "
        f"in discover_servers_restart: [{name}], which shuts it down and boots it over the network.",
    )


def needs_power(now: Situation) -> bool:
    """Whether the decision depends on the power state."""
    return choose("", now._replace(power=OFF)).action != KNOWN


def chosen(asked: t.Sequence[str], restart: t.Sequence[str], with_bmc: t.Sequence[str], servers: t.Sequence[str]) -> list[str]:
    """Return the servers to discover, in the order of the inventory.

    :arg asked: names; empty means every server with a management controller.
    """
    for position, name in enumerate(asked):
        if name not in servers:
            hint = did_you_mean(name, servers, f"Use some of {', '.join(servers)}.")
            raise InputError(f"{name!r} is not a server of the inventory.", f"discover_servers_names[{position}]", hint)
        if name not in with_bmc:
            hint = "Add {address: 192.0.2.101, user: operator, secret: bmc/NAME, boot_mac: '52:54:00:12:34:56'}."
            raise InputError("is required to boot the server over the network.", f"servers.{name}.bmc", hint)
    found = [name for name in servers if name in (asked or with_bmc)] if asked or with_bmc else []
    for position, name in enumerate(restart):
        if name not in found:
            hint = did_you_mean(name, found, f"Use some of {', '.join(found)}.")
            raise InputError(f"{name!r} is not one of the servers that are discovered.", f"discover_servers_restart[{position}]", hint)
    if not found:
        raise InputError("no server has a management controller.", "servers", "Add bmc to the servers, with the address of their BMC and boot_mac.")
    return found


def identity(hardware: t.Mapping[str, t.Any]) -> str:
    """Return what identifies a machine: its UUID, else its serial number, else its first MAC."""
    system = hardware.get("system") or {}
    for key in ("uuid", "serial"):
        if system.get(key):
            return f"{key} {system[key]}"
    macs = sorted(nic["mac"] for nic in hardware.get("nics") or ())
    return f"MAC {macs[0]}" if macs else ""


def one_machine(one: t.Mapping[str, t.Any], other: t.Mapping[str, t.Any]) -> bool:
    """Return whether two descriptions are of one machine. Some vendors give all boards the same UUID, but not the same network cards."""
    macs = [{nic["mac"] for nic in its.get("nics") or ()} for its in (one, other)]
    return bool(identity(one)) and identity(one) == identity(other) and (not all(macs) or bool(macs[0] & macs[1]))


def problems(
    name: str, hardware: t.Mapping[str, t.Any], boot_mac: str | None, address: str, kept: t.Mapping[str, t.Mapping[str, t.Any]], folder: str
) -> list[str]:
    """Return why a machine is not the server that it was booted as.

    :arg kept: the hardware of all servers that was read before, also by earlier runs.
    :arg folder: where it is kept.
    """
    found = []
    macs = [nic["mac"] for nic in hardware["nics"]]
    if boot_mac and boot_mac.lower() not in macs:
        found.append(
            f"servers.{name}.bmc.boot_mac: the machine that answers at {address} has no network card {boot_mac.lower()}, but "
            f"{', '.join(macs) or 'none'}. Check the cabling, the address of the BMC, and that no other machine uses {address}."
        )
    mine = identity(hardware)
    before = identity(kept[name]) if name in kept else mine
    if mine != before:
        found.append(
            f"servers.{name}.bmc: its BMC controls the machine with {mine}; that of {name} had {before}. Correct the address of the BMC, "
            f"or remove {folder}/{name}.json if the server was replaced."
        )
    for other, its in sorted(kept.items()):
        if other != name and one_machine(hardware, its):
            found.append(
                f"servers.{name}.bmc: its BMC controls the machine with {mine}, which is {other}. Correct the address of the BMC, or remove "
                f"{folder}/{other}.json if {other} was renamed."
            )
    return found


def duplicates(hardware: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """Return the servers that are one machine, each with a sentence that names the other one."""
    found: dict[str, list[str]] = {}
    for name, its in hardware.items():
        for other in [each for each in hardware if each != name and one_machine(its, hardware[each])]:
            found.setdefault(name, []).append(f"servers.{name}.bmc: {name} and {other} are one machine ({identity(its)}). Correct the address of their BMCs.")
    return found
