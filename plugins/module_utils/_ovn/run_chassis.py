# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: bring Open vSwitch of a chassis to its wanted state."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_chassis
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.io_chassis import Switch
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.model_chassis import Found, Wanted, parse_wanted

__all__ = ["Request", "Result", "ensure", "parse_wanted"]

AUTO, SYSTEM, NETDEV = "auto", "system", "netdev"


@dataclasses.dataclass(frozen=True)
class Request:
    """The wanted state of a chassis.

    :arg datapath: ``system`` (in the kernel), ``netdev`` (in the process), or ``auto`` for the kernel's if it has one.
    :arg tso: whether the switch handles segments that are larger than packets, ``None`` for only with ``netdev``.
    """

    wanted: Wanted
    datapath: str = AUTO
    tso: bool | None = None


@dataclasses.dataclass(frozen=True)
class Result:
    """The datapath in use, the proof, and the commands."""

    datapath: str
    proof: str
    actions: tuple[str, ...]
    before: t.Mapping[str, t.Any]
    after: t.Mapping[str, t.Any]


def ensure(request: Request, *, check_mode: bool, switch: t.Any = None) -> Result:
    """Bring Open vSwitch to the wanted state.

    :raises RefusedError: the datapath of the kernel is requested, but the kernel has none.
    """
    switch = switch or Switch()
    if not switch.installed():
        if check_mode:
            return Result(request.datapath, "Open vSwitch is not installed yet", ("configure Open vSwitch",), {}, {})
        raise BackendError("Open vSwitch is not installed on this host.", hint="Run the role ovn_chassis.")
    usable, answer = switch.kernel()
    if request.datapath == SYSTEM and not usable:
        raise RefusedError(
            f"the kernel of this host has no datapath of Open vSwitch ({answer}).",
            "datapath",
            "Install a kernel with the module openvswitch, or set datapath: netdev for a test system.",
        )
    datapath = request.datapath if request.datapath != AUTO else SYSTEM if usable else NETDEV
    wanted = _with_datapath(request, datapath)
    found = switch.read()
    commands = plan_chassis.commands(wanted, found)
    restart = plan_chassis.restarts(wanted, found)
    actions = [" ".join(command) for command in commands] + (["restart ovs-vswitchd"] if restart else [])
    if not check_mode:
        if commands or restart:
            # noted in the same transaction, so that the next run completes one that is killed here
            switch.change([*commands, plan_chassis.restart_due(True)] if restart else commands)
        if restart:
            switch.restart()
            switch.change([plan_chassis.restart_due(False)])
    after = switch.read() if actions and not check_mode else found
    proof = "the kernel has the datapath" if usable else answer
    return Result(datapath, proof, tuple(actions), _shown(found), _shown(after))


def _with_datapath(request: Request, datapath: str) -> Wanted:
    wanted = request.wanted
    tso = (datapath == NETDEV) if request.tso is None else request.tso
    return wanted._replace(
        external_ids={**wanted.external_ids, "ovn-bridge-datapath-type": datapath},
        other_config={**wanted.other_config, "userspace-tso-enable": "true" if tso else None},
        bridges=tuple(bridge._replace(datapath=datapath) for bridge in wanted.bridges),
    )


def _shown(found: Found) -> dict[str, t.Any]:
    return {
        "external_ids": dict(found.external_ids),
        "other_config": dict(found.other_config),
        "managers": list(found.managers),
        # ports of OVN change with the VMs
        "bridges": sorted(found.bridges),
        "observer": found.observer,
    }
