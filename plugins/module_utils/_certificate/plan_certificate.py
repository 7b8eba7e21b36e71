# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide when a certificate must be renewed. No I/O: the caller passes the existing certificate."""

from __future__ import annotations

import dataclasses
import math
import typing as t

DAY = 86400
#: Validity of an authority, and when it is renewed before its end. Until then, the earlier one is valid on hosts and clients that have not got the new one.
AUTHORITY_DAYS, AUTHORITY_RENEW_DAYS = 3650, 730


@dataclasses.dataclass(frozen=True)
class Found:
    """An existing certificate and its key.

    :arg fits: whether the key belongs to the certificate.
    :arg signed: whether it is signed by the existing authority; for an authority: whether it may sign.
    :arg not_after: its expiry, in seconds since the epoch.
    :arg names: its subject alternative names, DNS names and addresses.
    """

    fits: bool
    signed: bool
    not_after: float
    names: frozenset[str] = frozenset()


def why_new_authority(found: Found | None, now: float, renew: float) -> str | None:
    """Return why a new authority must be created; ``None`` if the existing one can be kept."""
    if found is None:
        return "none exists"
    if not found.fits:
        return "the key does not match the current one"
    if not found.signed:
        return "the current one is not a certificate authority"
    if found.not_after - now <= renew:
        return f"the current one expires in {max(0, int((found.not_after - now) // DAY))} days"
    return None


def why_new(found: Found | None, wanted: t.Iterable[str], now: float, renew: float, latest: float = math.inf) -> str | None:
    """Return why a new certificate must be created; ``None`` if the existing one can be kept.

    :arg renew: seconds before its expiry at which it is renewed.
    :arg latest: the end of its authority, which a new one would not outlive either.
    """
    if found is None:
        return "none exists"
    if not found.fits:
        return "the key does not match the current one"
    if not found.signed:
        return "another authority signed the current one"
    wanted = frozenset(wanted)
    if found.names != wanted:
        surplus, missing = sorted(found.names - wanted), sorted(wanted - found.names)
        return "the current one " + " and ".join([*(f"does not name {name}" for name in missing), *(f"still names {name}" for name in surplus)])
    if found.not_after - now <= renew and found.not_after < latest:
        return f"the current one expires in {max(0, int((found.not_after - now) // DAY))} days"
    return None


def complaints(found: Found, wanted: t.Iterable[str], now: float, renew: float) -> tuple[str, ...]:
    """Return warnings about a certificate given by the operator.

    A wildcard name covers one level of subdomains.
    """
    warnings = []
    for name in sorted(set(wanted)):
        covers = {name, f"*.{name.partition('.')[2]}"}
        if not covers & found.names:
            warnings.append(f"the certificate does not name {name}; clients that connect to this name will reject it.")
    if found.not_after - now <= renew:
        warnings.append(f"the certificate expires in {int((found.not_after - now) // DAY)} days.")
    return tuple(warnings)
