# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resources of Redfish: parsed to power states, and requests for changes."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power

#: Types of a reset by operation, the preferred one first.
_RESETS: t.Mapping[str, tuple[str, ...]] = {
    model_power.ON: ("On", "ForceOn"),
    model_power.OFF: ("ForceOff",),
    model_power.SOFT: ("GracefulShutdown",),
    # ForceRestart does not power it off
    model_power.CYCLE: ("PowerCycle",),
}
_TARGETS: t.Mapping[str, str] = {
    model_power.PXE: "Pxe",
    model_power.DISK: "Hdd",
    model_power.CDROM: "Cd",
    model_power.FIRMWARE: "BiosSetup",
    model_power.NONE: "None",
}
_MODES: t.Mapping[str, str] = {model_power.UEFI: "UEFI", model_power.BIOS: "Legacy"}
_SETTINGS = ("BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode")
#: Added to a system: the path of the resource with its settings for the next boot.
PENDING = "pending"
_MOST_NAMES = 10

Resource = t.Mapping[str, t.Any]


def _inside(value: t.Any, *keys: str) -> dict[str, t.Any]:
    """A mapping in a resource, empty where there is none: controllers leave out what they do not have."""
    for key in keys:
        value = value.get(key) if isinstance(value, t.Mapping) else None
    return dict(value) if isinstance(value, t.Mapping) else {}


def local(path: t.Any) -> str:
    """Return a path of the same controller; another machine must not get the credentials."""
    if not isinstance(path, str) or not path.startswith("/") or path.startswith("//"):
        raise BackendError("a link of the BMC leads to another machine, or is missing.", "bmc.address", "Update the firmware of the BMC.")
    return path


def link(resource: Resource, name: str) -> str:
    """Return the path of a linked resource."""
    return local(_inside(resource, name).get("@odata.id"))


def members(collection: Resource) -> list[str]:
    """Return the paths of the members of a collection."""
    listed = collection.get("Members")
    return [local(_inside(entry).get("@odata.id")) for entry in listed] if isinstance(listed, list) else []


def choose(paths: t.Sequence[str], wanted: str | None, read: t.Callable[[str], Resource]) -> str:
    """Return the path of the system.

    :arg wanted: its id, name or UUID; ``None`` for the only one.
    """
    ids = {path: path.rstrip("/").rpartition("/")[2] for path in paths}
    listed = f"{', '.join(list(ids.values())[:_MOST_NAMES])}{', ...' if len(ids) > _MOST_NAMES else ''}"
    if wanted is None:
        if len(paths) == 1:
            return paths[0]
        if not paths:
            raise BackendError("the BMC lists no system.", "bmc.system", "Check what the user may see, and the firmware of the BMC.")
        raise RefusedError(f"the BMC has {len(paths)} systems: {listed}.", "bmc.system", "Name the one that is this server.")
    for path, name in ids.items():
        if name == wanted:
            return path
    found = []
    for path in paths:
        resource = read(path)
        if wanted in (resource.get("Id"), resource.get("Name")) or wanted.lower() == str(resource.get("UUID")).lower():
            found.append(path)
    if len(found) == 1:
        return found[0]
    if found:
        raise RefusedError(f"{len(found)} systems of the BMC have this name.", "bmc.system", f"Use the id of one: {listed}.")
    raise InputError("the BMC has no such system.", "bmc.system", f"It has {listed or 'none'}.")


def power(system: Resource) -> model_power.Power:
    """Return the state of a system."""
    boot = _inside(system, "Boot")
    enabled = boot.get("BootSourceOverrideEnabled")
    target = boot.get("BootSourceOverrideTarget")
    device = next((name for name, value in _TARGETS.items() if value == target), None)
    if enabled == "Disabled" or device is None and target in (None, "None"):
        device = model_power.NONE if boot else None
    mode = next((name for name, value in _MODES.items() if value == boot.get("BootSourceOverrideMode")), None)
    state = {"On": model_power.ON, "Off": model_power.OFF}.get(str(system.get("PowerState")), model_power.OTHER)
    uuid = system.get("UUID")
    return model_power.Power(state, device, enabled == "Once", mode, unsupported(system), uuid.lower() if isinstance(uuid, str) else "")


def unsupported(system: Resource) -> dict[str, str]:
    """Return the operations that a controller does not list, with the reason."""
    found = {}
    action = _inside(system, "Actions", "#ComputerSystem.Reset")
    offered = action.get("ResetType@Redfish.AllowableValues")
    for operation in model_power.STATES:
        if operation == model_power.CYCLE and model_power.OFF not in found and model_power.ON not in found:
            continue
        if not action.get("target"):
            found[operation] = "the BMC has no power control"
        # without the list, the only way to find out is to request it
        elif isinstance(offered, list) and not set(_RESETS[operation]) & set(offered):
            found[operation] = f"the BMC offers {', '.join(map(str, offered)) or 'none'}, not {' or '.join(_RESETS[operation])}"
    boot = _inside(system, "Boot")
    if "BootSourceOverrideTarget" not in boot and "BootSourceOverrideTarget@Redfish.AllowableValues" not in boot:
        found.update(dict.fromkeys((model_power.BOOT_DEVICE, model_power.BOOT_ONCE), "the BMC has no setting for the boot device"))
    ways = boot.get("BootSourceOverrideEnabled@Redfish.AllowableValues")
    if isinstance(ways, list) and "Once" not in ways:
        found[model_power.BOOT_ONCE] = "the BMC has no boot device for the next boot only"
    modes = boot.get("BootSourceOverrideMode@Redfish.AllowableValues")
    if not isinstance(modes, list) and "BootSourceOverrideMode" not in boot:
        found[model_power.BOOT_MODE] = "the BMC has no setting for the boot mode"
    elif isinstance(modes, list) and len(modes) < 2:
        found[model_power.BOOT_MODE] = f"the firmware has {', '.join(map(str, modes)) or 'no mode'} only"
    return found


def switches(system: Resource) -> bool:
    """Whether a controller powers a server off and on with separate requests."""
    return not {model_power.ON, model_power.OFF} & set(unsupported(system))


def reset(operation: str, system: Resource) -> tuple[str, str]:
    """Return the path and the type of the reset for an operation."""
    reason = unsupported(system).get(operation)
    if reason:
        raise model_power.UnsupportedError("state", reason)
    action = _inside(system, "Actions", "#ComputerSystem.Reset")
    offered = action.get("ResetType@Redfish.AllowableValues")
    kinds = _RESETS[operation]
    kind = next((name for name in kinds if isinstance(offered, list) and name in offered), kinds[0])
    return local(action["target"]), kind


def boot_request(change: model_power.Boot, system: Resource) -> dict[str, t.Any]:
    """Return the body of a request for a change of the boot settings."""
    now = _inside(system, "Boot")
    wanted: dict[str, t.Any] = {}
    if change.mode:
        _offered(now, "Mode", _MODES[change.mode], change.mode, model_power.BOOT_MODE)
        wanted["BootSourceOverrideMode"] = _MODES[change.mode]
    if change.device == model_power.NONE:
        wanted["BootSourceOverrideEnabled"] = "Disabled"
    elif change.device:
        _offered(now, "Target", _TARGETS[change.device], change.device, model_power.BOOT_DEVICE)
        wanted["BootSourceOverrideTarget"] = _TARGETS[change.device]
        wanted["BootSourceOverrideEnabled"] = "Once" if change.once else "Continuous"
    return {"Boot": wanted}


def complete(request: Resource, system: Resource) -> dict[str, t.Any]:
    """Return a request for a change with the settings that remain as they are."""
    now = _inside(system, "Boot")
    return {"Boot": {**{name: now[name] for name in _SETTINGS if now.get(name)}, **request["Boot"]}}


def pending(system: Resource) -> str | None:
    """Return the path of the resource with the settings for the next boot; most systems have none."""
    found = _inside(system, "@Redfish.Settings", "SettingsObject")
    return local(found["@odata.id"]) if found.get("@odata.id") else None


def with_pending(system: Resource, path: str, settings: Resource) -> dict[str, t.Any]:
    """Return a system with its settings for the next boot, if these are boot settings and not, for example, the boot order alone."""
    boot = _inside(settings, "Boot")
    return {**system, "Boot": {**_inside(system, "Boot"), **boot}, PENDING: path} if set(_SETTINGS) & set(boot) else dict(system)


def versions(*tags: t.Any) -> list[str | None]:
    """Return the values of If-Match to be tried, in this order.

    :arg tags: the versions of a resource that a controller sends. Some of them are weak, which never match according to HTTP.
    """
    given = [tag for tag in tags if isinstance(tag, str) and tag.isascii() and tag.isprintable() and tag]
    return list(dict.fromkeys([*given, *(tag.removeprefix("W/") for tag in given), None, "*"]))


def is_stored(change: model_power.Boot, before: Resource, after: Resource) -> bool:
    """Whether a system has the boot settings of a change, and those that it does not concern.

    A device that is stored as continuous instead of once is accepted: some controllers have nothing else.
    """
    old, new = power(before), power(after)
    device, once = (change.device, change.once) if change.device else (old.boot_device, old.boot_once)
    return device == new.boot_device and (once or device == model_power.NONE or not new.boot_once) and (change.mode or old.boot_mode) in (None, new.boot_mode)


def not_stored(change: model_power.Boot, system: Resource) -> BackendError:
    """Return the error of a change that a controller has accepted and not stored."""
    boot = _inside(system, "Boot")
    found = ", ".join(str(boot.get(name))[:40] for name in _SETTINGS)
    return BackendError(
        f"the BMC accepted the change of the boot settings, and reports {found} afterwards. The power was not changed.",
        model_power.BOOT_DEVICE if change.device else model_power.BOOT_MODE,
        "Set it in the web interface of the BMC or in the setup of the firmware, or update the firmware of the BMC.",
    )


def _offered(boot: Resource, name: str, value: str, given: str, option: str) -> None:
    offered = boot.get(f"BootSourceOverride{name}@Redfish.AllowableValues")
    if isinstance(offered, list) and value not in offered:
        raise model_power.UnsupportedError(option, f"the firmware offers {', '.join(map(str, offered)) or 'none'}, not {value} ({given})")


def message(body: t.Any) -> str:
    """Return the message of an error, empty if there is none."""
    error = _inside(body, "error")
    extended = error.get("@Message.ExtendedInfo")
    for entry in extended if isinstance(extended, list) else [extended]:
        text = _inside(entry).get("Message")
        if isinstance(text, str) and text.strip():
            return text.strip().rstrip(".")
    text = error.get("message")
    return text.strip().rstrip(".") if isinstance(text, str) else ""
