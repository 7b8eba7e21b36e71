# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The management controller of a server (BMC): ``bmc`` in the inventory, and as an option of a module."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, parse_mac
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import secret_name

#: Keys of ``bmc`` in the inventory.
KEYS = ("address", "user", "secret", "verify_ca", "system", "boot_mac")
_EXAMPLE = "Write {address: 192.0.2.101, user: operator, secret: bmc/metal1}."
_HOST = re.compile(r"\A(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?))(?::(?P<port>[0-9]{1,5}))?\Z")
_USER = re.compile(r"\A[^\s:\x00-\x1f]{1,255}\Z")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


class Bmc(t.NamedTuple):
    """A management controller with Redfish.

    :arg host: name or address, without the port.
    :arg verify_ca: ``True`` verifies the certificate with the authorities of this machine, a path with that file, ``False`` not at all.
    :arg system: id, name or UUID of the system, where the controller has several.
    """

    host: str
    port: int
    user: str
    verify_ca: bool | str
    system: str | None
    boot_mac: str | None = None

    @property
    def url(self) -> str:
        """The root of its URLs, without a slash at the end."""
        return f"https://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def place(self) -> tuple[str, int, str]:
        """What identifies the machine that it controls."""
        return self.host.lower(), self.port, self.system or ""


def check_entry(entry: t.Any, own_address: t.Any, path: str) -> Bmc:
    """Check ``bmc`` of a server in the inventory, which names its secret.

    :arg own_address: address of the server itself; ``None`` if unknown.
    """
    if isinstance(entry, t.Mapping) and "password" in entry:
        raise InputError("a password does not belong into the inventory.", f"{path}.password", f"Name the secret instead: {path}.secret: bmc/NAME.")
    check_known(entry, KEYS, path, _EXAMPLE)
    for key in ("address", "user", "secret"):
        if not entry.get(key):
            raise InputError("is required.", f"{path}.{key}", _EXAMPLE)
    secret_name(entry["secret"], f"{path}.secret")
    bmc = parse(entry, path)
    refuse_own(bmc, [own_address] if own_address else [], path)
    return bmc


def parse(entry: t.Mapping[str, t.Any], path: str = "bmc") -> Bmc:
    """Return the controller of an entry that has the required keys.

    Values are not part of the messages: they are the operator's only.

    :raises InputError: an invalid value, with its path.
    """
    given = entry["address"]
    found = _HOST.match(given) if isinstance(given, str) else None
    if not found or not 0 < int(found["port"] or 443) < 65536:
        raise InputError(
            f"is not an address{'' if isinstance(given, str) else f', but {kind_of(given)}'}.",
            f"{path}.address",
            "Write a name or an address, with a port if it is not 443: 192.0.2.101 or [2001:db8::1]:8443, without https:// and without a path.",
        )
    if not isinstance(entry["user"], str) or not _USER.match(entry["user"]):
        raise InputError("is not the name of a user.", f"{path}.user", "Write its name, without colons and spaces.")
    system = entry.get("system")
    if system is not None and (not isinstance(system, str) or not system.strip()):
        raise InputError(f"is {kind_of(system)}, not text.", f"{path}.system", "Write the id, name or UUID of the system, in quotes if it is a number.")
    mac = parse_mac(entry["boot_mac"], f"{path}.boot_mac") if entry.get("boot_mac") is not None else None
    verify = verify_ca(entry.get("verify_ca"), f"{path}.verify_ca")
    return Bmc(found["v6"] or found["name"], int(found["port"] or 443), entry["user"], verify, system, mac)


def verify_ca(value: t.Any, path: str) -> bool | str:
    """Return how to verify the certificate: with the authorities of the machine (the default), with a file, or not at all."""
    if value is None or isinstance(value, bool):
        return value is not False
    text = str(value).strip()
    if text.lower() in (*_TRUE, *_FALSE):
        return text.lower() in _TRUE
    if isinstance(value, str) and text.startswith("/"):
        return text
    raise InputError(f"{value!r} is not supported.", path, "Use true, false, or the absolute path of a file with the certificate of the authority.")


def refuse_own(bmc: Bmc, addresses: t.Iterable[str], path: str = "bmc") -> None:
    """Refuse a controller at an address of the server itself, which is not reachable while the server is off."""
    if bmc.host.lower() in {str(each).strip("[]").lower() for each in addresses}:
        raise RefusedError(
            "is the address of the server itself, not of its management controller.",
            f"{path}.address",
            "Give the address of its BMC (iDRAC, iLO, XCC): it must answer while the server is off.",
        )
