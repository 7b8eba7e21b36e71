# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decisions about leases. No input and output, and no clock.

A VM runs on its server only while one machine at least (its standby or a witness) granted it a lease. It is started on the standby only when all
of them have claimed it, and each grants no lease from its claim on. Each claims only when it has granted no lease for :data:`WAIT`, which
is longer than the last lease and everything that ends the VM after it.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import FRESH, LEASE, WAIT, Grants, Renewal, Seen

# what the service does with a VM
HOLDS, FENCES, FREE = "holds", "fences", "free"


# on a machine that grants leases


def renewed(grants: Grants, seen: Seen, asked: Renewal, now: float, started: bool) -> tuple[Grants, Seen, str | None]:
    """Grant a lease, or refuse it.

    :arg now: the clock of this machine.
    :arg started: whether this machine has recorded that the VM was started on its standby.
    :returns: what is kept, what was seen, and why it is refused; ``None`` if it is granted.
    """
    if started:
        return grants, seen, "it was started on its standby"
    if grants.claim is not None:
        return grants, seen, "its standby has claimed it"
    seen = seen._replace(granted=now)
    if asked.arm is not None and asked.arm >= grants.arm:
        grants = grants._replace(arm=asked.arm, grantors=asked.grantors)
        if asked.running is not None:
            grants = grants._replace(running=asked.running)
    return grants, seen, None


def disarmed(grants: Grants, number: int, started: bool) -> tuple[Grants, str | None]:
    """Never give the VM away under this number or an earlier one; refused once it is given away."""
    if started or grants.claim is not None:
        return grants, "it was started on its standby" if started else "its standby has claimed it"
    return grants._replace(disarmed=max(grants.disarmed, number)), None


def unready(grants: Grants) -> str | None:
    """Return why this machine would not give the VM away now, however long its server is silent; ``None`` if it would."""
    if grants.arm == 0:
        return "its server has not reported that it is under leases"
    if grants.arm <= grants.disarmed:
        return "its server has ended the automatic start, for example for a move or because it was shut down"
    if not grants.running:
        return "it was not running"
    return None


def claimed(grants: Grants, seen: Seen, arm: int, number: int, by: str, now: float, started: bool) -> tuple[Grants, str | None]:
    """Give the VM to its standby, or refuse that; from then on no lease is granted.

    :arg arm: the number under which the standby knows the VM.
    :arg number: of the claim; greater than that of any claim before.
    """
    if started:
        return grants, "its start is recorded already"
    if number <= grants.withdrawn:
        return grants, "the claim was withdrawn meanwhile"
    if grants.claim is not None:
        if grants.claimed_by != by:
            return grants, f"{grants.claimed_by} has claimed it"
        return grants._replace(claim=max(number, grants.claim)), None
    reason = unready(grants)
    if reason is not None:
        return grants, reason
    if arm != grants.arm:
        return grants, "its server has put it under leases again since, or not here"
    left = WAIT - silence(seen, now)
    if left > 0:
        return grants, f"its server was silent for less than {WAIT:.0f} s"
    return grants._replace(claim=number, claimed_by=by), None


def silence(seen: Seen, now: float) -> float:
    """Return for how many seconds certainly no lease was granted; what was before the boot of this machine is not known."""
    return now - max(seen.since, seen.granted if seen.granted is not None else seen.since)


def withdrawn(grants: Grants, number: int) -> Grants:
    """Withdraw a claim, and all earlier ones."""
    grants = grants._replace(withdrawn=max(grants.withdrawn, number))
    return grants._replace(claim=None, claimed_by=None) if grants.claim is not None and grants.claim <= number else grants


def returned(grants: Grants) -> Grants:
    """After the VM left its standby again: it runs elsewhere without leases, until its server puts it under a new number."""
    grants = grants._replace(disarmed=max(grants.disarmed, grants.arm))
    return withdrawn(grants, grants.claim) if grants.claim is not None else grants


def next_number(now: float, *known: int | None) -> int:
    """Return a number greater than those that are known.

    :arg now: Unix seconds; only used so that numbers also grow after everything that was known is lost.
    """
    return max(int(now * 1000), *((each or 0) + 1 for each in known), 1)


# on the server of the VM


def valid_until(sent: t.Iterable[float | None]) -> float | None:
    """Return when the lease ends: it counts from the moment in which the granted renewal was sent.

    :arg sent: for each machine the time at which its last granted renewal was sent, in the clock of this server.
    """
    known = [each for each in sent if each is not None]
    return max(known) + LEASE if known else None


def verdict(armed: bool, until: float | None, now: float) -> str:
    """Return whether a VM holds a lease, must not run, or needs no lease."""
    if not armed:
        return FREE
    return HOLDS if until is not None and now < until else FENCES


def may_arm(automatic: bool, paused: bool, until: float | None, now: float) -> bool:
    """Whether a VM is put under leases; without a fresh one it would be ended at once."""
    return automatic and not paused and until is not None and until - now >= LEASE - FRESH


def lacking(watched: t.Collection[str], grants: Grants) -> list[str]:
    """Return the machines that grant leases, but whose claim the standby cannot ask for."""
    return sorted(set(grants.grantors) - set(watched))
