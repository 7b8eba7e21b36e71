# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's public SSH keys, which root of a new VM accepts."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

#: Their file in the root of a container.
FOLDER = ("root", ".ssh")
NAME = "authorized_keys"

_KIND = r"(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-nistp[0-9]+|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
# options may precede the type, a comment may follow the key
_LINE = re.compile(rf"\A(?:\S.* )?{_KIND} AAAA[A-Za-z0-9+/]{{32,}}={{0,3}}(?: .*)?\Z")
_HINT = "Use the content of a .pub file, e.g. {{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}."


def parse(value: t.Sequence[t.Any], path: str) -> tuple[str, ...]:
    """Return the keys, each a line of authorized_keys, without duplicates.

    :raises InputError: not a public key; the message never contains the value, which may be a private key.
    """
    keys = []
    for index, entry in enumerate(value):
        line = entry.strip() if isinstance(entry, str) else ""
        if not line.isprintable() or not _LINE.match(line):
            what = "is a private key." if "PRIVATE KEY" in line else "is not a public SSH key on one line."
            raise model_errors.InputError(what, f"{path}[{index}]", _HINT)
        keys.append(line)
    return tuple(dict.fromkeys(keys))


def access(keys: t.Sequence[str]) -> dict[str, t.Any]:
    """Return the cloud-init configuration with which root and the image's own user accept the keys."""
    return {"ssh_authorized_keys": list(keys), "disable_root": False} if keys else {}


def added(text: str, keys: t.Sequence[str]) -> str:
    """Return the text of authorized_keys with the keys that it does not contain."""
    lines = text.splitlines()
    return "".join(f"{line}\n" for line in [*lines, *(key for key in keys if key not in lines)])
