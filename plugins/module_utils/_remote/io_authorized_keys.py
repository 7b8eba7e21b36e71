# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""root's authorized_keys: the line of a one-time key is placed, renewed and withdrawn; all other lines stay as they are."""

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key

PATH = pathlib.Path("/root/.ssh/authorized_keys")
# below what a migration never copies
ALLOWED = pathlib.Path("/var/lib/reduced.footprint/source")
_LOCK = 30.0


def without(text: str, marker: str, key: str | None = None) -> str:
    """authorized_keys without the lines that end in the marker.

    :arg key: only the lines of this key; one of the same name may be another host's by now.
    """
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(f" {key} {marker}" if key else f" {marker}"))


def current() -> str:
    """The file's text, empty where there is none."""
    return read_text(PATH) or ""


def line_of(marker: str) -> str | None:
    """The line of a key."""
    return next((line for line in current().splitlines() if line.rstrip().endswith(f" {marker}")), None)


def _write(text: str) -> None:
    """Replace the file; its owner and mode stay."""
    try:
        before = os.stat(PATH)
        mode, owner = before.st_mode & 0o7777, (before.st_uid, before.st_gid)
    except FileNotFoundError:
        PATH.parent.mkdir(mode=0o700, exist_ok=True)
        mode, owner = 0o600, (os.geteuid(), os.getegid())
    write_atomic(PATH, text, mode=mode, owner=owner)


def place(marker: str, line: str) -> None:
    """Have this one line with the marker, at the end."""
    with host_lock("authorized_keys", _LOCK):
        before = without(current(), marker)
        if before and not before.endswith("\n"):
            before += "\n"
        _write(f"{before}{line}\n")


def forget(marker: str, key: str | None = None) -> bool:
    """Withdraw a key; tells whether there was one.

    :arg key: its base64 part, where no other of the same name is meant.
    """
    with host_lock("authorized_keys", _LOCK):
        before = current()
        after = without(before, marker, key)
        if after == before:
            return False
        _write(after)
        return True


def renew(name: str, until: float) -> None:
    """Let a key that is in use be accepted for its whole lifetime again, but not beyond ``until`` (Unix seconds)."""
    marker = model_one_time_key.key_marker(name)
    now = time.time()
    ends = model_one_time_key.expires_at(current(), marker)
    wanted = min(now + model_one_time_key.LIFETIME, until)
    if ends is None or wanted - ends < model_one_time_key.RENEW_EVERY:
        return
    with host_lock("authorized_keys", _LOCK):
        before = current()
        after = model_one_time_key.renewed(before, marker, model_one_time_key.expiry(wanted))
        if after != before:
            _write(after)


def allow(name: str, commands: t.Sequence[t.Sequence[str]], home: pathlib.Path | None = None) -> None:
    """Name the commands of hooks that a migration's key may run."""
    (home or ALLOWED).mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(_allowed_file(name, home), json.dumps([list(each) for each in commands]) + "\n")


def allowed(name: str, home: pathlib.Path | None = None) -> list[list[str]]:
    """The commands of hooks that a migration's key may run."""
    text = read_text(_allowed_file(name, home))
    return [list(each) for each in json.loads(text)] if text else []


def disallow(name: str, home: pathlib.Path | None = None) -> bool:
    """Forget the commands of hooks; tells whether there were any."""
    there = _allowed_file(name, home).exists()
    _allowed_file(name, home).unlink(missing_ok=True)
    return there


def _allowed_file(name: str, home: pathlib.Path | None) -> pathlib.Path:
    return (home or ALLOWED) / f"{name}.commands"
