# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Masking of secrets in configuration text for diffs and logs.

In known formats (YAML, ini files of NetworkManager and systemd) a value is a secret because of the
keys above it; in any text because of its own format, or the word before it. In doubt it is masked, such as the whole of
a YAML file that cannot be parsed: the result is only displayed and never parsed.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import LEAST, MASK, NAMES, is_harmless, is_secret

# a secret regardless of the text before it
_PEM = re.compile(
    r"(-----BEGIN (?!CERTIFICATE|PUBLIC KEY|RSA PUBLIC KEY|X509 CRL|NEW CERTIFICATE|DH PARAMETERS)[^-\n]*-----).*?(-----END [^-\n]*-----|\Z)", re.DOTALL
)
_URL = re.compile(r"(\w://[^\s/?#:@'\"]*:)(?!\d{1,5}/)[^\s'\"<>]*(?=@)")
_HASH = re.compile(r"\$(?:1|2[abxy]?|5|6|7|y|gy|sha1|argon2\w*|scrypt)\$[^\s:'\",;}]+|grub\.pbkdf2\.[\w.]+|\{S?SHA\d*\}[\w+/=]+")
# a WireGuard key, a TSIG key of 256 bits; public keys have the same format
_BASE64 = re.compile(r"(?<![\w+/=])[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=(?![\w+/=])")

_WORD = (
    rf"[\w.-]*(?:{NAMES}|(?<![a-z])pin(?![a-z])|community"
    r"|(?:private|pre[-_]?shared|shared|wep|wireless|api|auth|access|encryption)[-_ ]?key|mka[-_]cak|auth[-_]?token|access[-_]?token|api[-_]?token)[\w.-]*"
)
# NAME = VALUE and NAME: VALUE anywhere; NAME VALUE only at the start of a statement
_GIVEN = re.compile(rf"(?i)(?P<name>(?<![\w.-]){_WORD}\\*[\"']?\s*[:+]?[=:][^\S\n]*)(?P<value>\S[^\n]*)")
_STATED = re.compile(rf"(?im)(?P<name>(?:^|[{{;])[^\S\n]*[\"']?{_WORD}[\"']?[^\S\n]+)(?P<value>[^\s=:{{][^\n]*)")
# a value that continues on the next line after a backslash
_CONTINUED = re.compile(r"\\\n[^\n]*")

_YAML = (".yaml", ".yml")
_INI = ("/etc/NetworkManager/", "/etc/systemd/", "/run/systemd/")
_INI_ENDS = (".conf", ".cnf", ".ini")
_NAME = re.compile(r"[\w.-]+")
# the value of a setting without quotes and what follows it
_VALUE = re.compile(r"""[\s"']*([^\s"',;}]+)""")
_MASKED = re.compile(rf"{re.escape(MASK)}[^\s,;}}\]]*")
# a length, a lifetime, a switch or the like
_PLAIN = re.compile(r"(?i)\s*(?:[0-9]{1,5}|true|false|yes|no|on|off|none|null)\s*\Z")
# a known secret that is shorter may be an ordinary word, so it is masked only as a separate word
_LONG = 8
_SECTION = re.compile(r"\s*\[([^\]\n]*)\]\s*\Z")
_SETTING = re.compile(r"(\s*)([^=\s#;][^=]*?)(\s*=[^\S\n]*)(\S.*)\Z")


def mask_text(text: str, path: str = "", found: set[str] | None = None) -> str:
    """Return the text of a file, or a part of it, with all secrets masked; idempotent.

    :arg path: path of the file, which determines its format.
    :arg found: receives the values that are masked because of their names, or in URLs.
    """
    found = set() if found is None else found
    text = _PEM.sub(rf"\1{MASK}\2", text)
    if path.endswith(_YAML):
        text = _mask_yaml(text, found)
    elif path.startswith(_INI) or path.endswith(_INI_ENDS):
        text = _mask_ini(text, found)
    for pattern in (_GIVEN, _STATED):
        text = _mask_named(pattern, text, found)
    found.update(match[0][len(match[1]) :] for match in _URL.finditer(text))
    found.discard(MASK)
    text = _URL.sub(rf"\g<1>{MASK}", text)
    return _BASE64.sub(MASK, _HASH.sub(MASK, text))


def redact(value: t.Any, secrets: t.Iterable[str], path: str = "") -> t.Any:
    """Return a value with known secrets in its texts masked, and others that can be recognised in a text."""
    return _redact(value, _known(secrets), path)


def mask_known(text: str, secrets: t.Iterable[str]) -> str:
    """Return a text with known secrets masked, and no others: for one that was masked before where other secrets were known."""
    known = _known(secrets)
    return known.sub(MASK, text) if known else text


def _known(secrets: t.Iterable[str]) -> re.Pattern[str] | None:
    known = sorted({secret for secret in secrets if len(secret) >= LEAST and secret != MASK and not _PLAIN.match(secret)}, key=len, reverse=True)
    whole = [re.escape(secret) if len(secret) >= _LONG else rf"(?<![A-Za-z0-9_]){re.escape(secret)}(?![A-Za-z0-9_])" for secret in known]
    return re.compile("|".join(whole)) if whole else None


def _redact(value: t.Any, known: re.Pattern[str] | None, path: str) -> t.Any:
    if isinstance(value, t.Mapping):
        return {key: _redact(entry, known, path) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_redact(entry, known, path) for entry in value]
    if not isinstance(value, str):
        return value
    # also what can be recognised as a secret: keys, URLs with passwords, configuration lines
    return mask_text(known.sub(MASK, value) if known else value, path)


def _mask_yaml(text: str, values: set[str]) -> str:
    from ansible_collections.reduced.footprint.plugins.module_utils._core import model_yaml_scan

    try:
        # the mask itself would be an alias
        found = model_yaml_scan.scalars(text.replace(MASK, "x" * len(MASK)))
    except (ImportError, ValueError):
        return MASK
    # a mapping below such a name may contain anything, such as WireGuard keys or a user with a password
    for unused, start, end in sorted((one for one in found if any(is_secret(key) for key in one[0])), key=lambda one: -one[1]):
        values.update(_VALUE.findall(text[start:end])[:1])
        text = text[:start] + MASK + text[end:]
    return text


def _mask_ini(text: str, values: set[str]) -> str:
    lines, section = [], ""
    for line in text.split("\n"):
        named = _SECTION.match(line)
        given = _SETTING.match(line)
        if named:
            section = named.group(1).lower()
        elif given and (section == "vpn-secrets" or is_secret(given.group(2).strip(), 0 if _PLAIN.match(given.group(4)) else "x")):
            values.update(_VALUE.findall(given.group(4))[:1])
            line = f"{given.group(1)}{given.group(2)}{given.group(3)}{MASK}"
        lines.append(line)
    return "\n".join(lines)


def _mask_named(pattern: re.Pattern[str], text: str, values: set[str]) -> str:
    parts, position = [], 0
    while True:
        found = pattern.search(text, position)
        if found is None:
            return "".join([*parts, text[position:]])
        start = found.start("value")
        if is_harmless(_NAME.findall(found.group("name"))[-1]):
            parts.append(text[position:start])
            position = start
            continue
        # an already masked value ends after the mask, or after the rest of a value whose begin is a known secret; in YAML more text may follow
        masked = _MASKED.match(text, start)
        end = masked.end() if masked else _end(text, start, found.end("value"))
        values.update(_VALUE.findall(text[start:end])[:1])
        parts += [text[position:start], MASK]
        position = end


def _end(text: str, start: int, end: int) -> int:
    """Return the end of a value that starts at ``start`` and may extend beyond its line, which ends at ``end``."""
    quote = text[start]
    if quote in "\"'":
        closed = re.compile(rf"(?:[^{quote}\\]|\\.)*{quote}[^\n]*", re.DOTALL).match(text, start + 1)
        # an unterminated quote does not start a quotation
        end = closed.end() if closed else end
    elif quote in "|>":
        indent = len(text[text.rfind("\n", 0, start) + 1 : start]) - len(text[text.rfind("\n", 0, start) + 1 : start].lstrip(" -"))
        block = re.compile(rf"(?:\n[ \t]*(?=\n|\Z)|\n {{{indent + 1},}}[^\n]*)*").match(text, end)
        end = block.end() if block else end
    while text[end - 1 : end] == "\\" and end < len(text):
        more = _CONTINUED.match(text, end - 1)
        if more is None:
            break
        end = more.end()
    return end
