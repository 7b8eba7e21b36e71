# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which values are secrets, by the names they stand under: one answer for results, records, diffs and dumps."""

from __future__ import annotations

import re
import typing as t

MASK = "********"

#: What the name of a secret looks like. A number below a name of the second kind (a lifetime, a length) is none.
_SURELY = re.compile(
    r"passw(or)?d|pass(phrase|code)|(?<![a-z])pass(?![a-z])|secret|credential|cookie|(?<!cpu_)(?<!cpu)pin$|psk|presharedkey|wep_?key|(^|_)cak$",
    re.IGNORECASE,
)
_MAYBE = re.compile(r"token|(^|_)keys?$|(private|api|access|auth|fernet|encryption|ssl|tls|host|shared)_?key|salt|community|fernet", re.IGNORECASE)
#: Names that speak of secrets and are none: where they are, how they are made.
_HARMLESS = re.compile(
    r"_(directory|dir|path|file|length|expiration|lifetime|rotation|user|group|provider|algorithm|host_key_checking)$|^footprint_secrets$",
    re.IGNORECASE,
)
#: Shorter texts would be found everywhere.
LEAST = 4
_LEAST_DETAIL = 3
_URL_PASSWORD = re.compile(r"\w://[^\s/?#:@]*:([^\s'\"<>/]+)@")
_PASSWD = re.compile(r"""\spasswd\s*=\s*(?:"([^"]*)"|'([^']*)')""")


def is_secret(name: str, value: t.Any = "x") -> bool:
    """Whether a value of this name is to be hidden."""
    if isinstance(value, bool) or value is None or value == "":
        return False
    name = name.replace("-", "_")
    if _HARMLESS.search(name):
        return False
    if _SURELY.search(name):
        return True
    return bool(_MAYBE.search(name)) and not isinstance(value, (int, float))


def hide(value: t.Any) -> t.Any:
    """Everything masked, only the shape remains."""
    if isinstance(value, t.Mapping):
        return {key: hide(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide(entry) for entry in value]
    return value if isinstance(value, bool) or value is None or value == "" else MASK


def masked(value: t.Any) -> t.Any:
    """The same value with whatever stands below the name of a secret masked."""
    if isinstance(value, t.Mapping):
        return {key: hide(entry) if is_secret(str(key)) else masked(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(entry) for entry in value]
    return value


def secret_texts(value: t.Any, below: bool = False) -> set[str]:
    """The texts :func:`masked` would mask, but for those too short to be looked for."""
    if isinstance(value, t.Mapping):
        return set().union(*(secret_texts(entry, below or is_secret(str(key))) for key, entry in value.items()), set())
    if isinstance(value, (list, tuple)):
        return set().union(*(secret_texts(entry, below) for entry in value), set())
    found = "" if not below or value is None or isinstance(value, bool) else str(value)
    return {found} if len(found) >= _LEAST_DETAIL else set()


def url_passwords(value: t.Any) -> set[str]:
    """The passwords in URLs anywhere in a value."""
    if isinstance(value, t.Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return set().union(*(url_passwords(entry) for entry in value), set())
    return set(_URL_PASSWORD.findall(value)) if isinstance(value, str) else set()


def display_passwords(template: str) -> set[str]:
    """The passwords of displays that stand in a template of a domain itself."""
    found = _PASSWD.findall(template) if " passwd" in template else []
    return {one or other for one, other in found if (one or other) and "{" not in one + other}


def hidden_values(raw: t.Any) -> set[str]:
    """The secrets in raw details, as a list or as JSON text, so that a module can keep them out of whatever it returns."""
    if isinstance(raw, str):
        from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_all

        try:
            raw = parse_all(raw)
        except ValueError:
            return set()
    return secret_texts(raw)
