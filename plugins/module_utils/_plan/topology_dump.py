# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a host's settings may be shown: everything but secrets (C2). Pure."""

from __future__ import annotations

import re
import typing as t

MASK = "********"

#: What the name of a secret looks like. A number below a name of the second kind (a lifetime, a length) is none.
_SURELY = re.compile(r"passw(or)?d|pass(phrase|code)|(?<![a-z])pass(?![a-z])|secret|credential|cookie|pin$", re.IGNORECASE)
_MAYBE = re.compile(r"token|(^|_)keys?$|(private|api|access|auth|fernet|encryption|ssl|tls|host)_?key|salt|community|fernet", re.IGNORECASE)
#: Names that speak of secrets and are none: where they are, how they are made.
_HARMLESS = re.compile(
    r"_(directory|dir|path|file|length|expiration|lifetime|rotation|user|group|provider|algorithm|host_key_checking)$|^footprint_secrets$",
    re.IGNORECASE,
)

_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(\s*(['\"])([\w.]+)\1")
_ANY_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
#: Lookups that bring nothing from outside. The result of any other may be a secret.
_OPEN_LOOKUPS = ("reduced.footprint.address", "reduced.footprint.deploy_plan", "vars", "ansible.builtin.vars")
#: Shorter ones would be found everywhere.
_LEAST = 4
_LONG = 8


def is_secret(name: str, value: t.Any = "") -> bool:
    """Whether a value of this name is to be hidden."""
    if isinstance(value, bool) or value is None or value == "" or _HARMLESS.search(name):
        return False
    if _SURELY.search(name):
        return True
    return bool(_MAYBE.search(name)) and not isinstance(value, (int, float))


def brings_secret(text: str) -> bool:
    """Whether a template fetches something from outside that may be a secret."""
    open_ones = sum(1 for found in _LOOKUP.finditer(text) if found.group(2) in _OPEN_LOOKUPS)
    return len(_ANY_LOOKUP.findall(text)) > open_ones


def shield(value: t.Any, name: str = "", vaulted: t.Callable[[t.Any], bool] = lambda unused: False) -> t.Any:
    """The same value, not templated yet, with all that is secret masked: by name, by origin, by the lookup it comes from.

    Containers without a secret are returned as they are, so that what Ansible knows about their texts is kept.
    """
    if vaulted(value):
        return MASK
    if isinstance(value, t.Mapping):
        if is_secret(name, "x"):
            return {key: hide(entry) for key, entry in value.items()}
        shielded = {key: shield(entry, str(key), vaulted) for key, entry in value.items()}
        return shielded if any(shielded[key] is not value[key] for key in shielded) else value
    if isinstance(value, (list, tuple)):
        entries = [hide(entry) if is_secret(name, "x") else shield(entry, "", vaulted) for entry in value]
        return entries if any(new is not old for new, old in zip(entries, value)) else value
    if is_secret(name, value) or (isinstance(value, str) and brings_secret(value)):
        return MASK
    return value


def hide(value: t.Any) -> t.Any:
    """Everything masked, only the shape remains."""
    if isinstance(value, t.Mapping):
        return {key: hide(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide(entry) for entry in value]
    return value if isinstance(value, bool) or value is None or value == "" else MASK


def secrets_in(value: t.Any, name: str = "") -> t.Iterator[str]:
    """Texts that stand below the names of secrets, as far as they are no templates."""
    if isinstance(value, t.Mapping):
        for key, entry in value.items():
            yield from secrets_in(entry, name if is_secret(name, "x") else str(key))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from secrets_in(entry, name if is_secret(name, "x") else "")
    elif is_secret(name, value) and "{{" not in str(value) and len(str(value)) >= _LEAST:
        yield str(value)


def redact(value: t.Any, secrets: t.Iterable[str]) -> t.Any:
    """A value with every known secret in its texts masked."""
    known = sorted({secret for secret in secrets if len(secret) >= _LEAST and secret != MASK}, key=len, reverse=True)
    # a short one, which may well be an ordinary word, counts where it stands by itself
    whole = [re.escape(secret) if len(secret) >= _LONG else rf"(?<![A-Za-z0-9_]){re.escape(secret)}(?![A-Za-z0-9_])" for secret in known]
    return _redact(value, re.compile("|".join(whole))) if whole else value


def _redact(value: t.Any, known: re.Pattern[str]) -> t.Any:
    if isinstance(value, t.Mapping):
        return {key: _redact(entry, known) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact(entry, known) for entry in value]
    return known.sub(MASK, value) if isinstance(value, str) else value


def origin(path: tuple[str, ...], told: t.Mapping[str, str], given: bool) -> str:
    """The layer a value came from, as the topology tells; what it does not tell of is a role's default or the inventory's."""
    for end in range(len(path), 0, -1):
        if ".".join(path[:end]) in told:
            return told[".".join(path[:end])]
    beside = ".".join(path[:2]) + "."
    # what stands beside a value that the topology tells of was merged with it
    return "inventory" if given and not any(other.startswith(beside) for other in told) else "component"
