# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detection of secrets by the names of their keys, for results, records, diffs and dumps."""

from __future__ import annotations

import re
import typing as t

MASK = "********"

#: Parts of names of secrets, in data and in texts.
NAMES = (
    r"psk|passw(?:or)?d|pass(?:phrase|code)|(?<!by)(?<!com)(?<!sur)(?<!tres)pass(?![a-z])|pwd|pw(?![a-z])|secret|credential|(?<![a-z])cred(?![a-z])"
    r"|creds(?![a-z])|bearer|authorization|(?<![a-z])(?:basic|http|digest|sst|stats)[-_]?auth(?![a-z])|(?<![a-z])(?:jwt|t?otp|pin[-_]?code)(?![a-z])|cookie"
)
#: A number with a name of the second kind (a lifetime, a length) is not a secret.
_SURELY = re.compile(rf"{NAMES}|(?<!cpu_)(?<!cpu)pin$|presharedkey|wep_?key|(^|_)cak$", re.IGNORECASE)
_MAYBE = re.compile(r"token|(^|_)keys?$|(private|api|access|auth|fernet|encryption|ssl|tls|host|shared)_?key|salt|community|fernet", re.IGNORECASE)
#: Names related to secrets whose values are not secret, such as paths and lifetimes.
_HARMLESS = re.compile(
    r"_(directory|dir|path|file|length|rotation|user|group|roles?|required|provider|algorithm|strategy|rounds|regex|policy|count|size|bits|host_key_checking)$"
    r"|_(expir(y|ation|es?)|lifetime|ttl|timeout|interval|age|days|hours|minutes|seconds)$|^footprint_secrets$",
    re.IGNORECASE,
)
#: Shorter texts would match too often.
LEAST = 4
_LEAST_DETAIL = 3
_URL_PASSWORD = re.compile(r"\w://[^\s/?#:@]*:([^\s'\"<>/]+)@")
_PASSWD = re.compile(r"""\spasswd\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def is_secret(name: str, value: t.Any = "x") -> bool:
    """Whether a value with this name must be masked."""
    if isinstance(value, bool) or value is None or value == "":
        return False
    name = name.replace("-", "_")
    if is_harmless(name):
        return False
    if _SURELY.search(name):
        return True
    return bool(_MAYBE.search(name)) and not isinstance(value, (int, float))


def is_harmless(name: str) -> bool:
    """Whether a name is related to secrets, but is that of a path, a lifetime or the like."""
    return bool(_HARMLESS.search(name.replace("-", "_")))


def hide(value: t.Any) -> t.Any:
    """Return the structure of a value with all values masked."""
    if isinstance(value, t.Mapping):
        return {key: hide(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide(entry) for entry in value]
    return value if isinstance(value, bool) or value is None or value == "" else MASK


def masked(value: t.Any) -> t.Any:
    """Return a value with everything below the name of a secret masked."""
    if isinstance(value, t.Mapping):
        return {key: hide(entry) if is_secret(str(key)) else masked(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(entry) for entry in value]
    return value


def secret_texts(value: t.Any, below: bool = False) -> set[str]:
    """Return the texts that :func:`masked` masks, except for those too short to search for."""
    if isinstance(value, t.Mapping):
        return set().union(*(secret_texts(entry, below or is_secret(str(key))) for key, entry in value.items()), set())
    if isinstance(value, (list, tuple)):
        return set().union(*(secret_texts(entry, below) for entry in value), set())
    found = "" if not below or value is None or isinstance(value, bool) else str(value)
    return {found} if len(found) >= _LEAST_DETAIL else set()


def url_passwords(value: t.Any) -> set[str]:
    """Return the passwords of all URLs in a value."""
    if isinstance(value, t.Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*(url_passwords(entry) for entry in value), set())
    return set(_URL_PASSWORD.findall(value)) if isinstance(value, str) else set()


def display_passwords(template: str) -> set[str]:
    """Return the literal display passwords in a domain template."""
    found = _PASSWD.findall(template) if " passwd" in template else []
    return {one or other for one, other in found if (one or other) and "{" not in one + other}


def hidden_values(raw: t.Any) -> set[str]:
    """Return the secrets in raw VM details (a list or JSON text), which a module must mask in its result."""
    if isinstance(raw, str):
        from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_all

        try:
            raw = parse_all(raw)
        except ValueError:
            return set()
    return secret_texts(raw)
