# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Predict the duration of the pause from the measured duration of the same steps."""

from __future__ import annotations

import typing as t

# estimates in seconds: stopping one service
_STOP = 1.0
# shutdown of the source, and shutdown and boot without services if the duration of its last boot is unknown
_DOWN, _REBOOT = 10.0, 90.0
# boot of the VM if no rehearsal measured one
_BOOT = 30.0


def predict(passes: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], services: int, *, reboots: bool = False) -> dict[str, t.Any]:
    """Predict the pause: ``seconds`` in total, ``data`` for copy, fix-ups and verification, ``parts`` by phase.

    The last live pass started right after the one before it had ended, like the final copy; the second comparison of
    the manifests read as few files again as the verification in the pause will.

    :arg passes: of the copy so far.
    :arg facts: of the journal: ``manifest`` (of the last comparison), ``fixup_seconds``, ``boot_seconds`` (of a rehearsal),
        ``reboot_seconds`` (of an earlier maintenance boot), ``source_facts``.
    :arg services: number of services to stop.
    :arg reboots: the source is quiesced by a maintenance boot.
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
