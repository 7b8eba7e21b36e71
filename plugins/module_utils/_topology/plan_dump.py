# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of a host's settings may be shown: everything but secrets. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import LEAST, MASK, hide, is_secret
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text

_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(\s*(['\"])([\w.]+)\1")
_ANY_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
#: Lookups that bring nothing from outside. The result of any other may be a secret.
_OPEN_LOOKUPS = ("reduced.footprint.address", "reduced.footprint.deploy_plan", "vars", "ansible.builtin.vars")
_LONG = 8


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


def secrets_in(value: t.Any, name: str = "") -> t.Iterator[str]:
    """Texts that stand below the names of secrets, as far as they are no templates."""
    if isinstance(value, t.Mapping):
        for key, entry in value.items():
            yield from secrets_in(entry, name if is_secret(name, "x") else str(key))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from secrets_in(entry, name if is_secret(name, "x") else "")
    elif is_secret(name, value) and "{{" not in str(value) and len(str(value)) >= LEAST:
        yield str(value)


def redact(value: t.Any, secrets: t.Iterable[str]) -> t.Any:
    """A value with every known secret in its texts masked, and every other that a text itself gives away."""
    known = sorted({secret for secret in secrets if len(secret) >= LEAST and secret != MASK}, key=len, reverse=True)
    # a short one, which may well be an ordinary word, counts where it stands by itself
    whole = [re.escape(secret) if len(secret) >= _LONG else rf"(?<![A-Za-z0-9_]){re.escape(secret)}(?![A-Za-z0-9_])" for secret in known]
    return _redact(value, re.compile("|".join(whole)) if whole else None)


def _redact(value: t.Any, known: re.Pattern[str] | None) -> t.Any:
    if isinstance(value, t.Mapping):
        return {key: _redact(entry, known) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact(entry, known) for entry in value]
    if not isinstance(value, str):
        return value
    # and what looks like one by itself: keys, URLs with passwords, pieces of configuration
    return mask_text(known.sub(MASK, value) if known else value)


def origin(path: tuple[str, ...], told: t.Mapping[str, str], given: bool) -> str:
    """The layer a value came from, as the topology tells; what it does not tell of is a role's default or the inventory's."""
    for end in range(len(path), 0, -1):
        if ".".join(path[:end]) in told:
            return told[".".join(path[:end])]
    beside = ".".join(path[:2]) + "."
    # what stands beside a value that the topology tells of was merged with it
    return "inventory" if given and not any(other.startswith(beside) for other in told) else "component"
