# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a known_hosts file after the key of a host was recorded."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

_NAME = re.compile(r"\A[^\s,@|#!*?][^\s,|#!*?]*\Z")


def check_name(name: str) -> str:
    """Return a name that an entry can have."""
    if not _NAME.match(name):
        hint = "Use the name or the address of one host, or [ADDRESS]:PORT."
        raise model_errors.InputError(f"{name!r} is not the name of a host.", "name", hint)
    return name


def parse_key(text: str) -> str:
    """Return type and base64 of a public key, without its comment."""
    kind, data = (*text.split(), "", "")[:2]
    try:
        content = base64.b64decode(data, validate=True)
    except (ValueError, binascii.Error):
        content = b""
    if not kind or content[4 : 4 + len(kind)] != kind.encode("ascii", "replace"):
        hint = "Use type and base64 of a file /etc/ssh/ssh_host_*_key.pub of the host, without its name."
        raise model_errors.InputError(f"{text!r} is not a public key.", "key", hint)
    return f"{kind} {data}"


def recorded(text: str, name: str, key: str, exclusive: bool) -> str:
    """Return the text with the key of a host.

    Its other keys are those of an earlier installation if this key is new, also those of other types: ssh would ask the host for a type that the
    file has. With a key that the file already has, they may be further keys of the same installation.

    :arg exclusive: the host has this key only, so all others are removed in any case.
    """
    lines = text.split("\n")
    found = any(_names(line, name) and _key(line) == key for line in lines)
    if found and not exclusive:
        return text
    kept = []
    for line in lines:
        if not _names(line, name) or _key(line) == key:
            kept.append(line)
            continue
        names, rest = line.split(None, 1)
        others = [other for other in names.split(",") if not _is(other, name)]
        if others:
            kept.append(f"{','.join(others)} {rest}")
    result = "\n".join(kept)
    return result if found else f"{result}{'' if not result or result.endswith(chr(10)) else chr(10)}{name} {key}\n"


def _names(line: str, name: str) -> bool:
    """Whether a line is an entry of a host; patterns, marked keys and comments are not."""
    words = line.split()
    return len(words) >= 3 and words[0][0] not in "@#" and any(_is(one, name) for one in words[0].split(","))


def _key(line: str) -> str:
    return " ".join(line.split()[1:3])


def _is(entry: str, name: str) -> bool:
    """Whether a name of an entry, which may be hashed, is this one."""
    if not entry.startswith("|1|"):
        return entry == name
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in entry[3:].split("|"))
    except (ValueError, binascii.Error):
        return False
    # the format of OpenSSH
    return hmac.compare_digest(hmac.new(salt, name.encode("utf-8", "surrogateescape"), hashlib.sha1).digest(), digest)
