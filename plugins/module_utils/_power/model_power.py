# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power, boot device and boot mode of a server or VM: requests, states, and operations that are not supported."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError

ON, OFF, SOFT, CYCLE = "on", "off", "soft", "cycle"
STATES = (ON, OFF, SOFT, CYCLE)
#: The operating system has ended or is starting: neither on nor off yet.
OTHER = "transition"
PXE, DISK, CDROM, FIRMWARE, NONE = "pxe", "disk", "cdrom", "bios", "none"
DEVICES = (PXE, DISK, CDROM, FIRMWARE, NONE)
UEFI, BIOS = "uefi", "bios"
MODES = (UEFI, BIOS)
BOOT_DEVICE, BOOT_ONCE, BOOT_MODE = "boot_device", "boot_once", "boot_mode"
#: All operations, in the order in which they are listed.
OPERATIONS = (*STATES, BOOT_DEVICE, BOOT_ONCE, BOOT_MODE)
#: Options of modules for a machine, documented in the fragment ``power``.
MACHINE_ARGUMENTS: dict[str, dict[str, t.Any]] = {
    "bmc": {
        "type": "dict",
        "options": {
            **{name: {"type": "str", "required": True, "no_log": True} for name in ("address", "user", "password")},
            "verify_ca": {"type": "str", "default": "true"},
            "system": {"type": "str"},
            "server_address": {"type": "str"},
        },
    },
    "vm": {"type": "str"},
    "uri": {"type": "str"},
    "request_timeout": {"type": "int", "default": 30},
}


class UnsupportedError(RefusedError):
    """An operation that this kind of machine does not have, with the reason."""

    def __init__(self, operation: str, reason: str, hint: str | None = None) -> None:
        super().__init__(f"unsupported: {reason}.", operation, hint)


class Power(t.NamedTuple):
    """The state of a machine.

    :arg state: ``on``, ``off`` or ``transition``.
    :arg boot_device: the device of the next boot; ``none`` is the order of the firmware, ``None`` is unknown.
    :arg boot_mode: ``uefi``, ``bios`` or ``None`` for unknown.
    :arg unsupported: operation → reason, for the operations that it does not have.
    :arg uuid: UUID of the machine, lower case; empty if unknown.
    """

    state: str
    boot_device: str | None
    boot_once: bool
    boot_mode: str | None
    unsupported: t.Mapping[str, str]
    uuid: str = ""

    def as_result(self) -> dict[str, t.Any]:
        """Return the state as a result of a module."""
        return {
            **self._asdict(),
            "supported": [name for name in OPERATIONS if name not in self.unsupported],
            "unsupported": [{"operation": name, "reason": self.unsupported[name]} for name in OPERATIONS if name in self.unsupported],
        }


class Boot(t.NamedTuple):
    """A change of the boot settings; ``None`` is left as it is."""

    device: str | None
    once: bool
    mode: str | None


class Wish(t.NamedTuple):
    """What is requested; ``None`` is left as it is."""

    state: str | None = None
    boot_device: str | None = None
    boot_once: bool = False
    boot_mode: str | None = None


def wish(state: str | None, boot_device: str | None, boot_once: bool, boot_mode: str | None) -> Wish:
    """Return a request."""
    if state is None and boot_device is None and boot_mode is None:
        raise InputError("nothing is requested.", "state", f"Set state ({', '.join(STATES)}), boot_device or boot_mode.")
    if boot_once and boot_device in (None, NONE):
        raise InputError("requires a boot device.", BOOT_ONCE, f"Set boot_device to one of {', '.join(DEVICES[:-1])}.")
    return Wish(state, boot_device, boot_once, boot_mode)
