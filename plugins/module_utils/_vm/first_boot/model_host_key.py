# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SSH host key of a VM: the private key in OpenSSH format, and its cloud-init configuration.

Only ed25519 keys without a passphrase are supported: all current guests support them, and the
public key can be read from the private key file without a library.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import re
import struct
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_authorized_keys, model_cloud_init

KIND = "ssh-ed25519"
#: Folder of the keys of sshd in a file system.
FOLDER = ("etc", "ssh")
PRIVATE_NAME = "ssh_host_ed25519_key"
PUBLIC_NAME = PRIVATE_NAME + ".pub"

_PUBLIC = re.compile(rf"\A{KIND} [A-Za-z0-9+/]{{68}}(?=\s|\Z)")
_MAGIC = b"openssh-key-v1\0"
_BEGIN, _END = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
_FIX = "Replace it by an ed25519 key without a passphrase, or remove the file to get a new key for new VMs."


@dataclasses.dataclass(frozen=True)
class HostKey:
    """A key pair: ``private`` is the content of the private key file, ``public`` is type and base64 without a comment."""

    private: str = dataclasses.field(repr=False)
    public: str


def parse(text: t.Any, path: str) -> HostKey:
    """Return the key pair from the text of its private key file.

    :raises InputError: it is not an unencrypted OpenSSH ed25519 key; the message never contains the value.
    """
    if not isinstance(text, str) or _BEGIN not in text or _END not in text:
        raise model_errors.InputError("is not a private key in OpenSSH format.", path, _FIX)
    body = text.partition(_BEGIN)[2].partition(_END)[0]
    try:
        data = base64.b64decode("".join(body.split()), validate=True)
        if not data.startswith(_MAGIC):
            raise ValueError
        cipher, data = _string(data[len(_MAGIC) :])
        unused, data = _string(data)
        unused, data = _string(data)
        public = _string(data[4:])[0]
        kind = _string(public)[0]
    except (ValueError, binascii.Error, struct.error):
        raise model_errors.InputError("is a damaged private key.", path, _FIX) from None
    if cipher != b"none" or kind != KIND.encode("ascii"):
        raise model_errors.InputError("is not an ed25519 key without a passphrase.", path, _FIX)
    private = f"{_BEGIN}\n" + "\n".join(body.split()) + f"\n{_END}\n"
    return HostKey(private, f"{KIND} {base64.b64encode(public).decode('ascii')}")


def parse_all(value: t.Mapping[str, t.Any] | None, path: str) -> dict[str, HostKey]:
    """Return the key pairs of several VMs by id; empty texts are ignored."""
    return {str(key): parse(text, f"{path}.{key}") for key, text in (value or {}).items() if text not in (None, "")}


def public_key(text: str) -> str | None:
    """Return the ed25519 public key at the start of a ``.pub`` file, else ``None``."""
    found = _PUBLIC.match(text)
    return found.group() if found else None


def vendor_data(key: HostKey | None, authorized: t.Sequence[str] = ()) -> str:
    """Return vendor-data with which cloud-init installs the host key and the operator's keys at the first boot."""
    keys = {"ssh_keys": {"ed25519_private": key.private, "ed25519_public": key.public}} if key else {}
    return model_cloud_init.HEADER + model_cloud_init.to_json({**keys, **model_authorized_keys.access(authorized)})


def with_access(vendor: str, authorized: t.Sequence[str]) -> str:
    """Return the vendor-data of an earlier seed with other keys of the operator; other vendor-data is returned unchanged."""
    try:
        value = json.loads(vendor[len(model_cloud_init.HEADER) :]) if vendor.startswith(model_cloud_init.HEADER) else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return vendor
    return model_cloud_init.HEADER + model_cloud_init.to_json({**value, **model_authorized_keys.access(authorized)})


def public_in(vendor: bytes | str | None) -> str | None:
    """Return the public key in the result of :func:`vendor_data`, ``None`` for any other vendor-data."""
    try:
        text = vendor.decode("utf-8") if isinstance(vendor, bytes) else vendor or ""
        value = json.loads(text[len(model_cloud_init.HEADER) :]) if text.startswith(model_cloud_init.HEADER) else None
        return public_key(str(value["ssh_keys"]["ed25519_public"])) if value else None
    except (ValueError, KeyError, TypeError):
        return None


def decided_by_user(user_data: str) -> bool:
    """Whether user-data configures host keys itself, or disables vendor-data."""
    return any(word in user_data for word in ("ssh_keys", "vendor_data", "ssh_genkeytypes"))


def _string(data: bytes) -> tuple[bytes, bytes]:
    length = struct.unpack(">I", data[:4])[0]
    if len(data) < 4 + length:
        raise ValueError
    return data[4 : 4 + length], data[4 + length :]
