# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a certificate must be renewed. No I/O: the caller passes what was found."""

from __future__ import annotations

import dataclasses
import typing as t

DAY = 86400


@dataclasses.dataclass(frozen=True)
class Found:
    """A certificate and the key beside it.

    :arg fits: whether the key belongs to it.
    :arg signed: whether the authority at hand has signed it; for an authority: whether it may sign.
    :arg not_after: its end, in seconds since the epoch.
    :arg names: what it vouches for: names and addresses.
    """

    fits: bool
    signed: bool
    not_after: float
    names: frozenset[str] = frozenset()


def why_new_authority(found: Found | None, now: float, renew: float) -> str | None:
    """Why the authority has to be made anew; ``None`` when it serves on."""
    if found is None:
        return "there is none yet"
    if not found.fits:
        return "its key belongs to another one"
    if not found.signed:
        return "it may not sign"
    if found.not_after - now <= renew:
        return f"it ends in {max(0, int((found.not_after - now) // DAY))} days"
    return None


def why_new(found: Found | None, wanted: t.Iterable[str], now: float, renew: float) -> str | None:
    """Why a certificate has to be made anew; ``None`` when it serves on.

    :arg renew: seconds before its end at which it is renewed.
    """
    if found is None:
        return "there is none yet"
    if not found.fits:
        return "its key belongs to another one"
    if not found.signed:
        return "another authority signed it"
    wanted = frozenset(wanted)
    if found.names != wanted:
        gone, new = sorted(found.names - wanted), sorted(wanted - found.names)
        return " and ".join([*(f"it lacks {name}" for name in new), *(f"it still names {name}" for name in gone)])
    if found.not_after - now <= renew:
        return f"it ends in {max(0, int((found.not_after - now) // DAY))} days"
    return None


def complaints(found: Found, wanted: t.Iterable[str], now: float, renew: float) -> tuple[str, ...]:
    """What is worth a warning about a certificate that somebody gave.

    A name may be covered by one with an asterisk in its first part.
    """
    said = []
    for name in sorted(set(wanted)):
        covers = {name, f"*.{name.partition('.')[2]}"}
        if not covers & found.names:
            said.append(f"the certificate does not name {name}; clients that connect to it will refuse.")
    if found.not_after - now <= renew:
        said.append(f"the certificate ends in {int((found.not_after - now) // DAY)} days.")
    return tuple(said)
