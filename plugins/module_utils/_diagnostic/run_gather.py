# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: what one host contributes to a diagnostic snapshot, all topics at once and each for a limited time. Changes nothing."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_questions import answers
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import io_sources, plan_archive, plan_sources
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.model_piece import Piece

_COMMAND_SECONDS = 10.0
#: The topics whose secrets are masked everywhere.
_SETTINGS = ("configuration", "state")
ROOT = pathlib.Path("/")


class _Reader:
    """Reads the topics of one host until a time."""

    def __init__(self, hours: int, seconds: float, root: pathlib.Path) -> None:
        self.hours, self.root = hours, root
        self.end = time.monotonic() + seconds

    def commands(self, topic: str, commands: t.Sequence[plan_sources.Command], most: int = plan_sources.COMMAND_BYTES) -> list[Piece]:
        """Return what commands print; those without time left are errors."""
        found = []
        for name, argv, path in commands:
            rest = min(_COMMAND_SECONDS, self.end - time.monotonic())
            name = f"{topic}/{name}.txt"
            found.append(io_sources.output(name, argv, most, rest, path) if rest > 0 else Piece(name, error="no time was left"))
        return found

    def files(self, topic: str) -> list[Piece]:
        """Return the ends of the files of a topic."""
        wanted = plan_sources.FILES[topic]
        since = time.time() - self.hours * 3600 if wanted.recent else 0.0
        paths = io_sources.files(self.root, wanted.patterns, since)
        most, follow = plan_sources.MOST_FILES, not wanted.recent
        found = [io_sources.end_of_file(f"{topic}/{path}", self.root / path, wanted.most, f"/{path}", follow) for path in paths[:most]]
        return found + [Piece(f"{topic}/{path}", error="too many files") for path in paths[most:]]

    def journals(self, topic: str) -> list[Piece]:
        """Return the ends of the journals of units."""
        listed = self._list("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager")
        problem = [Piece(f"{topic}/units.txt", error=listed.error)] if listed.error else []
        return problem + self.commands(topic, plan_sources.journals(plan_sources.units(listed.text), self.hours), plan_sources.JOURNAL_BYTES)

    def vms(self, topic: str) -> list[Piece]:
        """Return the VMs of each connection, with their documents."""
        found = []
        for uri in plan_sources.VM_CONNECTIONS:
            listed = self._list("virsh", "-r", "-c", uri, "list", "--all", "--name")
            if listed.error:
                found.append(Piece(f"{topic}/{uri.partition(':')[0]}.txt", text=listed.text, error=listed.error))
            else:
                found += self.commands(topic, plan_sources.vm_commands(uri, [name for name in listed.text.splitlines() if name]))
        return found

    def _list(self, *argv: str) -> Piece:
        return io_sources.output("", argv, plan_sources.COMMAND_BYTES, _COMMAND_SECONDS)

    def secrets(self) -> list[str]:
        """Return the content of files that contain one secret each."""
        paths = io_sources.files(self.root, plan_sources.SECRET_FILES, 0.0)
        return [io_sources.end_of_file("", self.root / path, plan_sources.COMMAND_BYTES, "", True).text for path in paths]


def gather(hours: int, size: int, seconds: int, root: pathlib.Path = ROOT) -> dict[str, t.Any]:
    """Return the texts of this host in one compressed document.

    :arg hours: age of the oldest lines in journals.
    :arg size: bytes of all texts together.
    :arg seconds: limit for reading; masking takes longer, half a second for each MiB.
    """
    for name, number in (("hours", hours), ("size_bytes", size), ("gather_timeout", seconds)):
        if number <= 0:
            raise InputError(f"{number} is not greater than 0.", name, "Write a greater number.")
    # a topic that used all of its time still has to return what it read
    reader = _Reader(hours, seconds * 0.8, root)
    questions: dict[str, t.Callable[[], t.Any]] = {
        **{topic: functools.partial(reader.commands, topic, commands) for topic, commands in plan_sources.COMMANDS.items()},
        **{topic: functools.partial(reader.files, topic) for topic in plan_sources.FILES},
        "journals": functools.partial(reader.journals, "journals"),
        "vms": functools.partial(reader.vms, "vms"),
        "": reader.secrets,
    }
    found = answers(questions, float(seconds))
    secrets = found.pop("")
    pieces: dict[str, list[Piece]] = {topic: [Piece(*piece) for piece in answer.get("value", ())] for topic, answer in found.items()}
    silent = [Piece(f"{topic}/missing.txt", error=str(answer["error"])) for topic, answer in found.items() if "error" in answer]
    if "error" in secrets:
        # what they contain cannot be recognised in other texts
        silent, pieces = [Piece("missing.txt", error=f"the files whose content must be masked are unknown: {secrets['error']}")], {}
    known = plan_archive.secret_lines(secrets.get("value", ())) | plan_archive.known_secrets(piece for topic in _SETTINGS for piece in pieces.get(topic, ()))
    texts = plan_archive.protect([piece for topic in pieces.values() for piece in topic] + silent, known, size)
    document = {"index": plan_archive.index(texts), "texts": {piece.name: piece.text for piece in texts if piece.text}}
    content = gzip.compress(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"), 6)
    return {
        "texts": len(document["texts"]),
        "size_bytes": sum(len(text.encode("utf-8", "replace")) for text in document["texts"].values()),
        "errors": [f"{piece.name}: {piece.error}" for piece in texts if piece.error],
        "content": base64.b64encode(content).decode("ascii"),
    }
