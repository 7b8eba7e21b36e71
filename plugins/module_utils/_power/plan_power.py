# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What must be done to a machine for a requested power state and boot device. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power


class Plan(t.NamedTuple):
    """Changes of the boot settings, then of the power.

    :arg power: ``on``, ``off``, ``soft`` or ``cycle``; ``None`` if nothing is changed.
    :arg final: the power state to wait for, also if another client requested it.
    """

    boot: model_power.Boot | None
    power: str | None
    final: str | None
    actions: tuple[str, ...]


def plan(wanted: model_power.Wish, found: model_power.Power) -> Plan:
    """Compare a request with the state of a machine.

    The boot settings are first, so that they apply to the boot that the request causes. An operation that is not necessary is not
    requested, so it need not be supported.

    :raises UnsupportedError: the machine does not have a necessary operation; nothing was changed.
    """
    actions = []
    device = wanted.boot_device
    once = wanted.boot_once
    if device is not None and device == found.boot_device and (device == model_power.NONE or once == found.boot_once):
        device = None
    mode = wanted.boot_mode if wanted.boot_mode not in (None, found.boot_mode) else None
    if mode:
        _require(found, model_power.BOOT_MODE)
        actions.append(f"set the boot mode to {mode}")
    if device:
        _require(found, model_power.BOOT_DEVICE)
        if once:
            _require(found, model_power.BOOT_ONCE)
        how = "remove the boot device" if device == model_power.NONE else f"boot from {device} {'once' if once else 'continuously'}"
        actions.append(how)
    power = _power(wanted.state, found.state)
    if power:
        _require(found, power)
        actions.append({model_power.ON: "power on", model_power.OFF: "power off", model_power.SOFT: "shut down", model_power.CYCLE: "power cycle"}[power])
    final = {model_power.SOFT: model_power.OFF, model_power.CYCLE: model_power.ON}.get(wanted.state or "", wanted.state)
    return Plan(model_power.Boot(device, once, mode) if device or mode else None, power, final, tuple(actions))


def _power(wanted: str | None, found: str) -> str | None:
    if wanted in (None, found) or (wanted == model_power.SOFT and found == model_power.OFF):
        return None
    # a machine that is off has nothing to cycle
    return model_power.ON if wanted == model_power.CYCLE and found == model_power.OFF else wanted


def _require(found: model_power.Power, operation: str) -> None:
    if operation in found.unsupported:
        raise model_power.UnsupportedError(operation if operation.startswith("boot") else "state", found.unsupported[operation])
