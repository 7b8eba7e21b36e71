# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leases of VMs that their standby starts by itself: time limits, what a machine that grants leases keeps, and the requests.

All times are seconds of one machine's own clock since its boot; no clock is compared with that of another machine.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Voter, parse_voter
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

#: The VM may run for this time after a renewal was sent that was granted.
LEASE = 30.0
RENEW = 3.0
#: Within this time after the end of its lease the VM is dead, or the server is reset.
STOP = 10.0
#: systemd kills a service that does not report within this time, three times before its VMs are killed without it.
HANG = 10.0
RESTARTS = 3
#: The hardware watchdog resets a server whose systemd does not report within this time.
WATCHDOG = 20.0
#: Each machine refuses to give the VM away until it has granted no lease for this time: that of the lease, of three kills of a service that
#: hangs with a second before each restart, of the watchdog, and clocks that differ by 2 %, rounded up.
WAIT = 95.0
#: A VM is put under its lease only if that is at most this old.
FRESH = 10.0
#: A standby that has not all claims within this time withdraws them.
CLAIMING = 45.0

REQUIRED, SOFTWARE, NONE = ("required", "software", "none")


class Grants(t.NamedTuple):
    """What a standby or witness keeps about one VM, durably.

    :arg arm: the last number with which the server of the VM put it under leases.
    :arg disarmed: up to this number it withdrew that: this machine gives the VM away only for a greater one.
    :arg running: whether the VM was running, as its server said last.
    :arg grantors: names of all machines that grant leases under this number.
    :arg claim: number of the claim of the standby for which no lease is granted any more.
    :arg withdrawn: up to this number claims were withdrawn, so that late ones are refused.
    """

    arm: int = 0
    disarmed: int = 0
    running: bool = False
    grantors: tuple[str, ...] = ()
    claim: int | None = None
    claimed_by: str | None = None
    withdrawn: int = 0


class Seen(t.NamedTuple):
    """What it has seen since its boot: from which time on it would have noted a lease, and when it granted the last one."""

    since: float
    granted: float | None = None


class Renewal(t.NamedTuple):
    """What the server of the VM sends.

    :arg arm: the number under which the VM needs a lease, ``None`` if it needs none.
    :arg running: ``None`` if that is not decided, for example after a boot.
    """

    arm: int | None
    running: bool | None
    grantors: tuple[str, ...]


class Watch(t.NamedTuple):
    """What a standby needs to claim a VM."""

    id: str
    cluster: str
    name: str
    witnesses: tuple[Voter, ...]


def parse_renewal(data: t.Mapping[str, t.Any]) -> Renewal:
    """Parse a renewal.

    :raises InputError: it is not valid.
    """
    arm, running = data.get("arm"), data.get("running")
    if arm is not None and (not isinstance(arm, int) or isinstance(arm, bool) or arm < 1) or running not in (None, True, False):
        raise InputError("is not a valid renewal.", "renewal")
    names = tuple(parse_name(each, f"grantors[{index}]") for index, each in enumerate(data.get("grantors") or ()))
    return Renewal(arm, running, names)


def parse_number(value: t.Any, path: str) -> int:
    """Parse the number of a claim or of a period under leases.

    :raises InputError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError("is not a positive number.", path)
    return value


def parse_grants(data: t.Mapping[str, t.Any]) -> Grants:
    """Return what a machine keeps, from its file."""
    known = {key: value for key, value in data.items() if key in Grants._fields}
    return Grants(**{**known, "grantors": tuple(known.get("grantors") or ())})


def parse_watch(data: t.Mapping[str, t.Any]) -> Watch:
    """Parse the request to watch a VM, from module parameters or from its file.

    :raises InputError: with the path of the invalid value.
    """
    witnesses = tuple(parse_voter(each, f"witnesses[{index}]") for index, each in enumerate(data.get("witnesses") or ()))
    if not witnesses:
        raise InputError("is empty.", "witnesses", "An automatic start needs at least one witness, a machine that is neither of the two servers.")
    return Watch(
        parse_name(data.get("id"), "id"), parse_name(data.get("cluster") or "default", "cluster"), parse_name(data.get("name") or "standby", "name"), witnesses
    )


def watch_data(watch: Watch) -> dict[str, t.Any]:
    """Return the mapping of its file."""
    return {**watch._asdict(), "witnesses": [{**each._asdict(), "host_keys": list(each.host_keys)} for each in watch.witnesses]}
