# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and recipes of generated secrets. Pure; the random source is passed in."""

from __future__ import annotations

import base64
import dataclasses
import random
import re
import string
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

#: Relative to the inventory. Hidden, because Ansible reads all other subdirectories of an inventory directory, and warns about
#: (with any_unparsed_is_failed: fails on) those without an inventory file.
DIRECTORY = ".secrets"
_PART = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}\Z")
_SETS: t.Mapping[str, str] = {
    "ascii_letters": string.ascii_letters,
    "ascii_lowercase": string.ascii_lowercase,
    "ascii_uppercase": string.ascii_uppercase,
    "digits": string.digits,
    "hexdigits": "0123456789abcdef",
    "punctuation": string.punctuation,
}
_ENCODINGS: t.Mapping[str, t.Callable[[bytes], str]] = {
    "base64url": lambda data: base64.urlsafe_b64encode(data).decode("ascii"),
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "hex": lambda data: data.hex(),
}
ENCODINGS = tuple(_ENCODINGS)
_MOST = 4096


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How to generate a new secret.

    :arg length: number of characters.
    :arg size: number of random bytes to encode instead; 0 for characters.
    """

    length: int
    alphabet: str
    size: int = 0
    encoding: str = "base64url"

    @classmethod
    def parse(cls, length: t.Any, chars: t.Any, size: t.Any = None, encoding: str = "base64url") -> Recipe:
        """Return the recipe for the given options."""
        if encoding not in _ENCODINGS:
            raise InputError(f"{encoding!r} is not supported.", "encoding", f"Use one of {', '.join(ENCODINGS)}.")
        wanted = "".join(_SETS.get(str(name), str(name)) for name in ([chars] if isinstance(chars, str) else chars or ()))
        alphabet = "".join(dict.fromkeys(wanted))
        bad = [character for character in alphabet if not character.isprintable() or character.isspace()]
        if bad:
            raise InputError(f"{bad[0]!r} cannot be part of a secret, which is one line of text.", "chars", "Use printable characters.")
        if len(alphabet) < 2:
            raise InputError("at least two different characters are required.", "chars", f"Use e.g. {', '.join(_SETS)}, or characters.")
        return cls(_number(length, 8, "length"), alphabet, _number(size, 8, "bytes") if size not in (None, 0) else 0, encoding)

    def make(self, chance: random.Random) -> str:
        """Return a new secret."""
        if self.size:
            return _ENCODINGS[self.encoding](chance.randbytes(self.size))
        return "".join(chance.choice(self.alphabet) for _index in range(self.length))


def _number(value: t.Any, least: int, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"{value!r} is not supported.", path, f"Use a whole number from {least} to {_MOST}.")
    return value


def secret_name(value: t.Any, path: str = "name") -> str:
    """Return a valid secret name such as ``rabbitmq/footprint``."""
    parts = value.split("/") if isinstance(value, str) else []
    if not 1 <= len(parts) <= 8 or not all(_PART.match(part) for part in parts):
        raise InputError(
            f"{value!r} is not a valid secret name.", path, "Use parts of letters, digits, _, - and . between single slashes; start no part with a dot."
        )
    return str(value)


def environment_name(value: t.Any, path: str = "footprint_environment") -> str:
    """Return a valid environment name, which is used as a directory name."""
    if not isinstance(value, str) or not _PART.match(value):
        raise InputError(f"{value!r} is not a valid environment name.", path, "Use letters, digits, _, - and ., and do not start with a dot.")
    return value
