# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: decisions about the discovery and installation of whole servers."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import decision_module

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware_compare

DOCUMENTATION = r"""
name: metal_decision
short_description: Decide what the discovery or installation of a server does next
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes the decisions of the playbooks C(discover_servers) and C(install_server).
  - For internal use; the functions in its file document the arguments and results of each decision.
positional: decision
options:
  _input:
    description: C(hostvars), with V(discovery_problems) the hardware of the machine, or with V(discovery_step) and V(install_step) the name of the server.
    type: raw
    required: true
  decision:
    description:
      - V(discovery_servers) and V(install_plan) choose and check the servers, V(discovery_step) and V(install_step) find the next step of one.
      - V(discovery_problems) finds the reasons why a machine is not the server, V(discovery_report) compares all servers with the inventory.
    type: str
    required: true
    choices: [discovery_problems, discovery_report, discovery_servers, discovery_step, install_plan, install_step]
"""

EXAMPLES = r"""
- name: Decide what to do
  ansible.builtin.debug:
    msg: "{{ 'metal1' | reduced.footprint.metal_decision('discovery_step', result.power.state) }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: raw
"""

Variables = t.Mapping[str, t.Any]


def discovery_problems(
    hardware: Variables, name: str, address: str, folder: str, boot_mac: str | None = None, declared: Variables | None = None
) -> list[str]:
    """Return why a machine is not the server that it was booted as; see :func:`plan_discovery.problems`.

    :arg hardware: as read by ``server_hardware_info``.
    :arg address: at which it was reached.
    :arg folder: of the files with the hardware of all servers.
    :arg declared: the variables of the server, if it must have the hardware that they declare.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    others = {path.stem: _hardware(path) for path in pathlib.Path(folder).glob("*.json")}
    found = list(plan_discovery.problems(name, hardware, boot_mac, address, {each: its for each, its in others.items() if its}, folder))
    if declared is not None:
        found += _compare(name, declared, hardware).differences
    return found


def discovery_report(hostvars: t.Mapping[str, Variables], hosts: t.Sequence[str], folder: str, failed: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return ``ok``, ``table`` (lines), ``lines`` (differences, failures and notes), and ``differences``, a list of sentences for each server with some.

    :arg folder: of the files with the hardware.
    :arg failed: the reason for each server whose discovery failed, or an empty text.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery, plan_hardware_compare

    hardware = {name: _hardware(pathlib.Path(folder) / f"{name}.json") for name in hosts}
    rows, lines, differences = [], [], {}
    twice = plan_discovery.duplicates({name: found for name, found in hardware.items() if found})
    for name, found in hardware.items():
        variables = hostvars[name]
        compared = _compare(name, variables, found, twice.get(name, ())) if found else None
        state = "failed" if failed.get(name) else "not read" if compared is None else "differs" if compared.differences else "as declared"
        if state == "as declared" and not (variables.get("hardware") or variables.get("node_capacity")):
            state = "nothing declared"
        rows.append(plan_hardware_compare.row(name, found, state))
        if failed.get(name):
            lines.append(f"FAILED {name}: {failed[name]}")
        if compared is not None:
            if compared.differences:
                differences[name] = list(compared.differences)
            lines += [f"DIFFERS {one}" for one in compared.differences] + [f"{name}: {note}" for note in compared.notes]
    return {"ok": not differences and not any(failed.values()), "table": plan_hardware_compare.table(rows), "lines": lines, "differences": differences}


def discovery_servers(hostvars: t.Mapping[str, Variables], hosts: t.Sequence[str], names: t.Any = (), restart: t.Any = ()) -> dict[str, t.Any]:
    """Return ``servers``, and ``restart``, those that may be restarted; with an invalid name ``error``. See :func:`plan_discovery.chosen`.

    :arg names: the servers to discover, a list or names separated by commas; empty means all.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    again = _names(restart)
    try:
        chosen = plan_discovery.chosen(_names(names), again, [name for name in hosts if hostvars[name].get("bmc")], list(hosts))
    except InputError as error:
        return {"error": str(error), "servers": [], "restart": []}
    return {"servers": chosen, "restart": again}


def discovery_step(
    name: str, power: str = "", booted: bool = False, kept: str = "", begun: int = -1, limit: int = 900, again: bool = False, restart: bool = False
) -> dict[str, str]:
    """Return ``action`` and ``reason``; see :func:`plan_discovery.choose`.

    :arg power: its power state, empty to decide whether it matters.
    :arg booted: whether it runs the system for the discovery.
    :arg kept: text of the file with its hardware, empty if it was never read.
    :arg begun: seconds since an interrupted run booted it, negative if none did.
    :arg limit: seconds that it takes to boot; twice this time after an interrupted run booted it, it may have been put into use.
    :arg again: whether to read the hardware again.
    :arg restart: whether it may be restarted.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_discovery

    known = _values(kept, name) if kept else {}
    now = plan_discovery.Situation(str(known.get("read") or ""), int(begun) >= 0, int(begun) <= 2 * int(limit), again, restart, power, booted)
    if not power:
        return {"action": "ask" if plan_discovery.needs_power(now) else plan_discovery.KNOWN, "reason": plan_discovery.choose(name, now).reason}
    return plan_discovery.choose(name, now)._asdict()


def install_plan(
    hostvars: t.Mapping[str, Variables], hosts: t.Sequence[str], names: t.Any = (), restart: t.Any = (), erase: t.Any = ()
) -> dict[str, t.Any]:
    """Return ``servers``, each with ``options`` (of ``server_install``), ``lines`` (partitions), ``recorded`` and ``connection`` (variables with which only
    the installed system is accepted), ``restart`` and ``erase``; with an invalid value ``error``.

    :arg names: the servers to install, a list or names separated by commas; empty means all with ``install``.
    :arg erase: serial numbers of disks whose data may be lost.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install, plan_install_step

    variables = {name: hostvars[name] for name in hosts}
    try:
        asked, again = _names(names), _names(restart)
        found = model_install.servers(asked, variables, _install)
        plan_install_step.check(asked, again, variables, found)
        serials = plan_install.serials(erase, found)
        return {"servers": {one.name: _one(one, variables[one.name]) for one in found}, "restart": again, "erase": serials}
    except InputError as error:
        return {"error": str(error), "servers": {}, "restart": [], "erase": []}


def install_step(
    name: str, power: str = "", booted: bool = False, installed: bool = False, begun: int = -1, restart: bool = False
) -> dict[str, str]:
    """Return ``action`` and ``reason``; see :func:`plan_install_step.choose`.

    :arg power: its power state, empty to decide whether it matters.
    :arg booted: whether it runs the system that it boots over the network.
    :arg installed: whether it runs the installed system, and its installation is complete.
    :arg begun: seconds since an unfinished installation was started, negative without one.
    :arg restart: whether it may be restarted.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install_step

    if not power and not installed:
        return {"action": "ask", "reason": "its power state is not known"}
    return plan_install_step.choose(name, plan_install_step.Situation(installed, int(begun), restart, power, booted))._asdict()


def _names(value: t.Any) -> list[str]:
    # a survey and the command line give text
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else [str(name) for name in value or ()]


def _values(text: str, name: str) -> dict[str, t.Any]:
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import DISCOVERED_SERVER

    try:
        return DISCOVERED_SERVER.load(text, f"the file of {name}")
    except ValueError as error:
        raise InputError(f"cannot parse the file with the hardware of {name}: {error}.", hint="Remove it.") from None


def _hardware(path: pathlib.Path) -> t.Any:
    """Return the hardware in a file, ``None`` without it."""
    return _values(path.read_text("utf-8"), path.stem).get("hardware") if path.is_file() else None


def _compare(name: str, variables: Variables, found: Variables, more: t.Sequence[str] = ()) -> plan_hardware_compare.Result:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_hardware_compare

    try:
        declared = model_hardware.parse(variables.get("hardware"), f"servers.{name}.hardware")
        result = plan_hardware_compare.compare(declared, variables.get("node_capacity"), found)
    except InputError as error:
        return plan_hardware_compare.Result((str(error),), ())
    return result._replace(differences=(*more, *result.differences))


def _install(name: str, variables: Variables) -> model_install.Install:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, model_install

    path = f"servers.{name}"
    hardware = model_hardware.parse(variables.get("hardware"), f"{path}.hardware")
    bmc = variables.get("bmc") or {}
    known = model_install.Known(bmc.get("boot_mac"), tuple(disk.serial for disk in hardware.disks), tuple(nic.mac for nic in hardware.nics))
    return model_install.parse(variables.get("install"), name, variables.get("ansible_host", name), f"{path}.install", known, path)


def _one(install: model_install.Install, variables: Variables) -> dict[str, t.Any]:
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_hardware, model_install, run_inventory
    from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install

    hosts = variables.get("footprint_known_hosts")
    if not hosts:
        raise InputError("is required for the host key of the server.", "footprint_known_hosts", "Use the inventory plugin reduced.footprint.nodes.")
    hardware = model_hardware.parse(variables.get("hardware"), "hardware")
    firmware = hardware.firmware or "bios"
    size = next((disk.size for disk in hardware.disks if disk.serial == install.disk), None)
    lines = plan_install.lines(plan_install.layout(install, firmware, size))
    if not hardware.firmware:
        lines[0] = "partition 1: for the boot loader, by the firmware that boots"
    path = pathlib.Path(str(hosts))
    return {
        "options": model_install.options(install),
        "lines": lines,
        "recorded": install.name in run_inventory.host_keys(path).public,
        "connection": run_inventory.host_connection(install.name, path),
    }


FilterModule = decision_module(
    "metal_decision",
    discovery_problems=discovery_problems,
    discovery_report=discovery_report,
    discovery_servers=discovery_servers,
    discovery_step=discovery_step,
    install_plan=install_plan,
    install_step=install_step,
)
