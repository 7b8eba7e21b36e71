# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: read and change power, boot device and boot mode of a server or VM through one interface."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc, model_power, plan_power

UNTRUSTED = "The certificate of the BMC is not verified (verify_ca: false), so any machine that answers at its address receives the password."


class Machine(t.Protocol):
    """A server or VM."""

    def read(self) -> model_power.Power:
        """Return its state."""

    def check(self, boot: model_power.Boot | None, operation: str | None) -> None:
        """Check that it has boot settings, and that its power state may be changed; changes nothing."""

    def set_boot(self, change: model_power.Boot) -> model_power.Power:
        """Change its boot settings, and return its state as it was read afterwards."""

    def set_power(self, operation: str) -> None:
        """Request a change of its power state."""

    def cycle(self, timeout: float) -> None:
        """Power it off, wait until it is off, and request that it is powered on."""

    def wait(self, state: str, timeout: float) -> model_power.Power:
        """Wait for a power state."""


class PowerResult(t.NamedTuple):
    """The state afterwards (in check mode before), and what was done."""

    changed: bool
    actions: tuple[str, ...]
    before: model_power.Power
    after: model_power.Power
    warnings: tuple[str, ...] = ()

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the module, with the settings that changed as texts."""
        names = ("state", "boot_device", "boot_once", "boot_mode")
        before, after = ("".join(f"{name}: {getattr(each, name)}\n" for name in names) for each in (self.before, self.after))
        found = {"changed": self.changed, "power": self.after.as_result(), "actions": list(self.actions), "warnings": list(self.warnings)}
        return {**found, "diff": {"before": before, "after": after}}


def machine(params: t.Mapping[str, t.Any]) -> t.Any:
    """Return the machine of the parameters of a module."""
    given = params["bmc"]
    if (given is None) == (params["vm"] is None):
        raise InputError("a server or a VM is required, not both.", "bmc", "Set bmc for a server, or vm for a VM of this host.")
    # either kind needs libraries that the other one does not
    if given is None:
        from ansible_collections.reduced.footprint.plugins.module_utils._power import io_vm  # pylint: disable=import-outside-toplevel

        return io_vm.find(params["vm"], params["uri"])
    from ansible_collections.reduced.footprint.plugins.module_utils._power import io_redfish  # pylint: disable=import-outside-toplevel

    own = [given["server_address"]] if given.get("server_address") else []
    return io_redfish.RedfishServer(model_bmc.parse(given), given["password"], own, params["request_timeout"])


def read(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the state of a machine, and warnings."""
    found = machine(params)
    try:
        return {"power": found.read().as_result(), "warnings": _trust(params)}
    finally:
        _close(found)


def ensure(params: t.Mapping[str, t.Any], check_mode: bool) -> PowerResult:
    """Read the state of a machine, and request what is necessary.

    :raises UnsupportedError: this kind of machine does not have a necessary operation; nothing was changed.
    """
    wanted = model_power.wish(params["state"], params["boot_device"], params["boot_once"], params["boot_mode"])
    found = machine(params)
    try:
        return _ensure(found, wanted, check_mode, params["wait_timeout"], params["wait"], _trust(params))
    finally:
        _close(found)


def _ensure(found: Machine, wanted: model_power.Wish, check_mode: bool, timeout: int, wait: bool, warnings: tuple[str, ...]) -> PowerResult:
    before = found.read()
    plan = plan_power.plan(wanted, before)
    found.check(plan.boot, plan.power)
    if check_mode:
        return PowerResult(bool(plan.actions), plan.actions, before, _expected(before, plan), warnings)
    stored = found.set_boot(plan.boot) if plan.boot else before
    if plan.power == model_power.CYCLE:
        # its state is the same before and afterwards
        found.cycle(timeout)
    elif plan.power:
        found.set_power(plan.power)
    if plan.final and wait and (plan.power or before.state != plan.final):
        after = found.wait(plan.final, timeout)
    else:
        after = found.read() if plan.actions else before
    if plan.boot and plan.boot.once and not stored.boot_once:
        warnings += ("The boot device was set, but it is reported as continuous, not once: set another one after the boot.",)
    return PowerResult(bool(plan.actions), plan.actions, before, after, warnings)


def _expected(before: model_power.Power, plan: plan_power.Plan) -> model_power.Power:
    after = before
    if plan.boot and plan.boot.device:
        after = after._replace(boot_device=plan.boot.device, boot_once=plan.boot.once)
    if plan.boot and plan.boot.mode:
        after = after._replace(boot_mode=plan.boot.mode)
    return after._replace(state=plan.final) if plan.final else after


def _trust(params: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    given = params["bmc"]
    return (UNTRUSTED,) if given is not None and model_bmc.verify_ca(given.get("verify_ca"), "bmc.verify_ca") is False else ()


def _close(found: t.Any) -> None:
    close = getattr(found, "close", None)
    if close:
        close()
