# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backups of a Galera cluster, without I/O: choice of the member, metadata, retention, server compatibility."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import BACKUP
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import components, describe_components, primary_members

#: Compressor → file extension. The first installed one is used.
COMPRESSORS: t.Mapping[str, str] = {"zstd": "zst", "gzip": "gz"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MADE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Backup:
    """One backup, as described by its metadata file.

    :arg name: cluster and time, as in the file name.
    :arg file: name of the file with the data.
    :arg made: start time in UTC, ``20261122T021500Z``.
    :arg server: version of the server that was backed up.
    :arg uuid: cluster uuid, with ``seqno`` the exact position of the data.
    :arg gtid: position in the binary log, empty without one.
    :arg unpacked_bytes: size of the data after it was unpacked and prepared; 0 in the metadata of earlier versions.
    """

    name: str
    file: str
    cluster: str
    member: str
    made: str
    server: str
    compression: str
    sha256: str
    bytes: int
    uuid: str
    seqno: int
    gtid: str = ""
    databases: tuple[str, ...] = ()
    unpacked_bytes: int = 0

    @property
    def room(self) -> int:
        """Return the bytes that are required to unpack it."""
        return max(2 * self.bytes, self.unpacked_bytes + self.unpacked_bytes // 10)

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible and the metadata file."""
        return BACKUP.mark({**dataclasses.asdict(self), "databases": list(self.databases)})

    def note(self) -> str:
        """Return the text of the metadata file."""
        return json.dumps(self.as_dict(), indent=2, sort_keys=True) + "\n"


def check_name(value: t.Any, path: str) -> str:
    """Validate a string that becomes part of a file name.

    :raises InputError: invalid string.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InputError(
            f"{shown(value)} is not valid as part of a file name.", path=path, hint="Use letters, digits, '.', '_' and '-', first a letter or digit."
        )
    return value


def backup_name(cluster: str, made: str) -> str:
    """Return the name of a new backup.

    :raises InputError: the cluster name is not valid as part of a file name.
    """
    return f"{check_name(cluster, 'cluster')}-{made}"


def parse_note(text: str, path: str) -> Backup:
    """Parse the text of a metadata file.

    :arg path: source of the text, for messages.
    :raises InputError: invalid metadata.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"invalid backup metadata: {error}.", path=path, hint="Use another backup.") from error
    return parse_backup(content, path)


def parse_backup(content: t.Any, path: str) -> Backup:
    """Build a backup from plain values.

    :raises InputError: a value is missing or has another type.
    """
    hint = "Use another backup; only galera_backup writes this metadata."
    if not isinstance(content, dict) or content.get(BACKUP.key) is None:
        raise InputError(f"invalid backup metadata, expected a mapping with {BACKUP.key}.", path=path, hint=hint)
    BACKUP.check(content[BACKUP.key], path)
    given = {}
    for field in dataclasses.fields(Backup):
        if field.name not in content and field.default is dataclasses.MISSING:
            raise InputError("is missing.", path=f"{path}.{field.name}", hint=hint)
        value = content.get(field.name, field.default)
        wanted: t.Any = {"bytes": int, "unpacked_bytes": int, "seqno": int, "databases": (list, tuple)}.get(field.name, str)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InputError(f"expected {getattr(wanted, '__name__', 'list')}, got {shown(value)}.", path=f"{path}.{field.name}", hint=hint)
        given[field.name] = value
    backup = Backup(**{**given, "databases": tuple(given["databases"])})
    for name in ("name", "file", "cluster"):
        check_name(getattr(backup, name), f"{path}.{name}")
    if backup.compression not in COMPRESSORS:
        raise InputError(f"expected one of {', '.join(COMPRESSORS)}, got {shown(backup.compression)}.", path=f"{path}.compression", hint=hint)
    for name, pattern in (("made", _MADE), ("sha256", _SHA256)):
        if not pattern.fullmatch(getattr(backup, name)):
            raise InputError(f"{shown(getattr(backup, name))} is not valid.", path=f"{path}.{name}", hint=hint)
    return backup


def choose_member(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], wanted: str | None = None) -> str:
    """Choose the member that is backed up: of the ready members the one with the fewest clients, so not the writer; at a tie the last.

    :arg looks: member → result of ``galera_info``, empty or ``None`` if it does not answer.
    :arg wanted: member that the operator named.
    :raises RefusedError: no member, or not the requested one, is ready.
    """
    ready = [name for name, facts in looks.items() if facts and facts.get("ready")]
    if wanted:
        if wanted not in looks:
            raise RefusedError(f"{wanted} is not among the members {', '.join(looks)}.", path="galera_backup_member", hint="Name a member, or unset it.")
        if wanted not in ready:
            why = "; ".join((looks[wanted] or {}).get("problems") or ["it does not answer"])
            raise RefusedError(f"{wanted} is not ready: {why}.", path="galera_backup_member", hint="Name another member, or unset it.")
        return wanted
    if not ready:
        raise RefusedError(
            "no member is Primary and Synced, so none has consistent data to back up.",
            hint="Recover the cluster first: ansible-playbook reduced.footprint.recover_database.",
        )
    apart = components(primary_members(looks))
    if len(apart) > 1:
        raise RefusedError(
            f"{describe_components(apart)}.",
            path="galera_backup_member",
            hint="A backup contains the rows of one of them. Name a member of each, one after the other.",
        )
    return min(reversed(ready), key=lambda name: int((looks[name] or {}).get("clients") or 0))


def superfluous(backups: t.Iterable[Backup], last: Backup, keep: int) -> tuple[Backup, ...]:
    """Return the backups of a cluster beyond the newest ``keep``, oldest first; 0 keeps all.

    Backups that are dated later than the last one were made before a clock was set back. They are neither removed nor counted, because the
    last one, which has the current data, would otherwise be the oldest.

    :arg last: the backup that was stored last.
    """
    of_cluster = sorted(
        (backup for backup in backups if backup.cluster == last.cluster and backup.made <= last.made), key=lambda backup: (backup.made, backup.name)
    )
    return tuple(of_cluster[:-keep]) if keep else ()


def _series(version: str) -> tuple[int, int] | None:
    found = re.search(r"([0-9]+)\.([0-9]+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else None


def check_server(backup: Backup, version: str) -> None:
    """Require that the server is of the same release series as the backup.

    :raises RefusedError: the series differ.
    """
    backup_series, server_series = _series(backup.server), _series(version)
    if backup_series is None or backup_series != server_series:
        raise RefusedError(
            f"the backup is from MariaDB {backup.server}, the server on this host is {version or 'not installed'}.",
            path="galera_restore_file",
            hint="A physical backup requires the same release series. Install that series, restore, then upgrade.",
        )


def fetched_from(keys: t.Sequence[t.Mapping[str, t.Any]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[dict[str, t.Any]]:
    """Return the members from which a host fetches backups, as ``galera_backup`` takes them.

    :arg keys: the result of reading the public ssh host key of each member, with its ``item`` and ``content`` (base64).
    """
    return [
        {
            "name": key["item"],
            "host": hostvars[key["item"]].get("ansible_host") or key["item"],
            "port": int(hostvars[key["item"]].get("ansible_port") or 22),
            "host_keys": [" ".join(base64.b64decode(key["content"]).decode("ascii").split()[:2])],
        }
        for key in keys
    ]
