# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long the pause will be, from what the same steps cost a moment ago."""

from __future__ import annotations

import typing as t

# a service is given so long to stop, in seconds, where none was stopped yet
_STOP = 1.0
# what a source is thought to take to go down and to come back without services, where it cannot tell how long its last boot took
_DOWN, _REBOOT = 10.0, 90.0
# what a boot is thought to take before one was measured
_BOOT = 30.0


def predict(passes: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], services: int, *, reboots: bool = False) -> dict[str, t.Any]:
    """Seconds of the pause in all, and of its parts.

    The last live pass began when the one before had just ended, as the last copy does; the second look at both
    manifests read as little anew as the proof in the pause will.

    :arg facts: of the journal: ``manifest`` (the last look), ``fixup_seconds``, ``boot_seconds`` (of a rehearsal),
        ``reboot_seconds`` (of an earlier maintenance boot), ``source_facts``.
    :arg reboots: the source comes to rest by a maintenance boot.
    """
    boot = (facts.get("source_facts") or {}).get("boot_seconds")
    reboot = facts.get("reboot_seconds") or (boot + _DOWN if boot else _REBOOT)
    parts = {
        "quiesce": float(reboot) if reboots else services * _STOP,
        "final": float(passes[-1]["seconds"]) if passes else 0.0,
        "fixup": float(facts.get("fixup_seconds") or 0.0),
        "verify": float((facts.get("manifest") or {}).get("seconds") or 0.0),
        "cutover": float(facts.get("boot_seconds") or _BOOT),
    }
    data = parts["final"] + parts["fixup"] + parts["verify"]
    return {"seconds": round(sum(parts.values()), 1), "data": round(data, 1), "parts": {name: round(seconds, 2) for name, seconds in parts.items()}}
