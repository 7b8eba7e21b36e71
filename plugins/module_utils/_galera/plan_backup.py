# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Backups of a Galera cluster, pure: who makes one, what is noted beside it, which are kept, which server takes it."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import components, describe_components, primary_members

FORMAT = 1
#: Compressor → how its files end. The first that is installed is taken.
COMPRESSORS: t.Mapping[str, str] = {"zstd": "zst", "gzip": "gz"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MADE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclasses.dataclass(frozen=True)
class Backup:
    """One backup, as the note beside it tells.

    :arg name: cluster and time, as in the file's name.
    :arg file: the name of the file with the data.
    :arg made: when it was begun, UTC, ``20261122T021500Z``.
    :arg server: the version of the server that it was taken from.
    :arg uuid: the cluster's, with ``seqno`` the exact position the data are at.
    :arg gtid: the position in the binary log, empty without one.
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

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible and for the note."""
        return {"format": FORMAT, **dataclasses.asdict(self), "databases": list(self.databases)}

    def note(self) -> str:
        """The text of the note."""
        return json.dumps(self.as_dict(), indent=2, sort_keys=True) + "\n"


def check_name(value: t.Any, path: str) -> str:
    """A word that may be part of a file's name.

    :raises InputError: it may not.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise InputError(
            f"{shown(value)} cannot be part of a file's name.", path=path, hint="Use letters, digits, '.', '_' and '-', first a letter or digit."
        )
    return value


def backup_name(cluster: str, made: str) -> str:
    """The name of a backup that is made now.

    :raises InputError: the cluster's name cannot be part of a file's name.
    """
    return f"{check_name(cluster, 'cluster')}-{made}"


def parse_note(text: str, path: str) -> Backup:
    """A backup from the text beside it.

    :arg path: where the text stands, for messages.
    :raises InputError: it is not what a backup's note is.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"this is no note of a backup: {error}.", path=path, hint="Take another backup.") from error
    return parse_backup(content, path)


def parse_backup(content: t.Any, path: str) -> Backup:
    """A backup from plain values.

    :raises InputError: something is missing or of another kind.
    """
    hint = "Take another backup; notes are written by galera_backup alone."
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"this is no note of a backup of format {FORMAT}.", path=path, hint=hint)
    given = {}
    for field in dataclasses.fields(Backup):
        if field.name not in content and field.default is dataclasses.MISSING:
            raise InputError("is missing.", path=f"{path}.{field.name}", hint=hint)
        value = content.get(field.name, field.default)
        wanted: t.Any = {"bytes": int, "seqno": int, "databases": (list, tuple)}.get(field.name, str)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise InputError(f"{shown(value)} is no {getattr(wanted, '__name__', 'list')}.", path=f"{path}.{field.name}", hint=hint)
        given[field.name] = value
    backup = Backup(**{**given, "databases": tuple(given["databases"])})
    for name in ("name", "file", "cluster"):
        check_name(getattr(backup, name), f"{path}.{name}")
    if backup.compression not in COMPRESSORS:
        raise InputError(f"{shown(backup.compression)} is none of {', '.join(COMPRESSORS)}.", path=f"{path}.compression", hint=hint)
    for name, pattern in (("made", _MADE), ("sha256", _SHA256)):
        if not pattern.fullmatch(getattr(backup, name)):
            raise InputError(f"{shown(getattr(backup, name))} is none.", path=f"{path}.{name}", hint=hint)
    return backup


def choose_member(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], wanted: str | None = None) -> str:
    """Who makes the backup: of the ready members the one with the fewest clients, which is not the writer; at a tie the last.

    :arg looks: member → what ``galera_info`` tells, nothing for one that does not answer.
    :arg wanted: the member an operator named.
    :raises RefusedError: nobody, or not the one who is wanted, is ready.
    """
    ready = [name for name, facts in looks.items() if facts and facts.get("ready")]
    if wanted:
        if wanted not in looks:
            raise RefusedError(f"{wanted} is not among the members {', '.join(looks)}.", path="galera_backup_member", hint="Name a member, or none.")
        if wanted not in ready:
            why = "; ".join((looks[wanted] or {}).get("problems") or ["it does not answer"])
            raise RefusedError(f"{wanted} is not ready: {why}.", path="galera_backup_member", hint="Name another member, or none.")
        return wanted
    if not ready:
        raise RefusedError(
            "no member is Primary and Synced, so nobody has data that are worth a backup.",
            hint="Bring the cluster back first: ansible-playbook reduced.footprint.recover_database.",
        )
    apart = components(primary_members(looks))
    if len(apart) > 1:
        raise RefusedError(
            f"{describe_components(apart)}.",
            path="galera_backup_member",
            hint="A backup holds the rows of one of them. Name a member of each, one after the other.",
        )
    return min(reversed(ready), key=lambda name: int((looks[name] or {}).get("clients") or 0))


def superfluous(backups: t.Iterable[Backup], cluster: str, keep: int) -> tuple[Backup, ...]:
    """The backups of a cluster that are older than the newest ``keep``, oldest first; 0 keeps all."""
    ours = sorted((backup for backup in backups if backup.cluster == cluster), key=lambda backup: (backup.made, backup.name))
    return tuple(ours[:-keep]) if keep else ()


def _series(version: str) -> tuple[int, int] | None:
    found = re.search(r"([0-9]+)\.([0-9]+)", version)
    return (int(found.group(1)), int(found.group(2))) if found else None


def check_server(backup: Backup, version: str) -> None:
    """Refuse a server that cannot take a physical backup of another series.

    :raises RefusedError: theirs differ.
    """
    theirs, ours = _series(backup.server), _series(version)
    if theirs is None or theirs != ours:
        raise RefusedError(
            f"the backup is from MariaDB {backup.server}, the server here is {version or 'not installed'}.",
            path="galera_restore_file",
            hint="A copy of the files fits the same series only. Install that one, restore, and upgrade then.",
        )
