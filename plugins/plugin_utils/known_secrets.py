# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The secrets that the control node knows, so that they can be masked in texts from hosts."""

from __future__ import annotations

import contextlib
import pathlib
import typing as t

from ansible.errors import AnsibleError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import DIRECTORY
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.plan_archive import secret_lines
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_dump import secrets_in

_SEALED = b"$ANSIBLE_VAULT"
_CERTIFICATE, _KEY = "-----BEGIN CERTIFICATE", "PRIVATE KEY-----"


class Known(t.NamedTuple):
    """Secrets.

    :arg values: their texts.
    :arg unread: files and variables that cannot be decrypted or read.
    """

    values: set[str]
    unread: list[str]


def raw_variables(hostvars: t.Any) -> t.Iterator[dict[str, t.Any]]:
    """Yield the variables of each host, not templated."""
    for host in hostvars or {}:
        yield dict(hostvars.raw_get(host) if hasattr(hostvars, "raw_get") else {})


def known_secrets(variables: t.Mapping[str, t.Any], loader: t.Any) -> Known:
    """Return the secrets in the variables of all hosts, and in the directories of generated ones.

    :arg variables: those of a host, with ``hostvars``.
    :arg loader: reads files that are encrypted with Ansible Vault.
    """
    found, unread, folders = set(), [], {str(pathlib.Path(str(variables["inventory_dir"]), DIRECTORY))} if variables.get("inventory_dir") else set()
    for values in raw_variables(variables.get("hostvars")):
        for name, value in values.items():
            if name in ("hostvars", "vars", "groups"):
                continue
            try:
                found |= {*secrets_in({name: value}), *_sealed(value)}
            except AnsibleError:
                unread.append(name)
    for host in variables.get("hostvars") or {}:
        with contextlib.suppress(AnsibleError):
            folders.add(str(variables["hostvars"][host].get("footprint_secrets") or ""))
    for path in sorted(path for folder in folders - {""} for path in pathlib.Path(folder).expanduser().rglob("*") if path.is_file()):
        try:
            text = _text(path, loader)
            public = path.name == "known_hosts.txt" or _CERTIFICATE in text and _KEY not in text
            found |= set() if public else {text}
        except (AnsibleError, OSError, UnicodeDecodeError):
            unread.append(str(path))
    return Known(secret_lines(found), sorted(set(unread)))


def _text(path: pathlib.Path, loader: t.Any) -> str:
    if not path.read_bytes().startswith(_SEALED):
        return path.read_text("utf-8")
    readable = loader.get_real_file(str(path))
    try:
        return pathlib.Path(readable).read_text("utf-8")
    finally:
        loader.cleanup_tmp_file(readable)


def _sealed(value: t.Any) -> t.Iterator[str]:
    """Yield the decrypted texts in a value that are encrypted with Ansible Vault, whatever their names."""
    if isinstance(value, t.Mapping):
        for entry in value.values():
            yield from _sealed(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _sealed(entry)
    elif type(value).__name__ in ("EncryptedString", "AnsibleVaultEncryptedUnicode"):
        yield str(value)
