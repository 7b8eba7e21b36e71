# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""root's authorized_keys: place, renew and withdraw the line of a one-time key; all other lines are kept."""

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import KEY_COMMANDS
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_one_time_key

PATH = pathlib.Path("/root/.ssh/authorized_keys")
# in a folder that a migration never copies
ALLOWED = pathlib.Path("/var/lib/reduced.footprint/source")
_LOCK = 30.0


def without(text: str, marker: str, key: str | None = None) -> str:
    """Return authorized_keys without the lines that end in the marker.

    :arg key: only lines of this key; a key of the same name may belong to another host by now.
    """
    return "".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(f" {key} {marker}" if key else f" {marker}"))


def current() -> str:
    """Return the text of the file, empty when it does not exist."""
    return read_text(PATH) or ""


def line_of(marker: str) -> str | None:
    """Return the line of a key, ``None`` when there is none."""
    return next((line for line in current().splitlines() if line.rstrip().endswith(f" {marker}")), None)


def accepts(name: str, key: str) -> bool:
    """Whether the file accepts a one-time key now; a file or an expiry that cannot be read accepts none, as in sshd.

    :arg key: base64 part of the public key.
    """
    try:
        return model_one_time_key.in_force(current(), model_one_time_key.key_marker(name), key, time.time())
    except (OSError, ValueError):
        return False


def _write(text: str) -> None:
    """Replace the file; owner and mode are kept, and so is a link: a key that is removed from its target must not be accepted any more."""
    path = pathlib.Path(os.path.realpath(PATH))
    try:
        before = os.stat(path)
        mode, owner = before.st_mode & 0o7777, (before.st_uid, before.st_gid)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        mode, owner = 0o600, (os.geteuid(), os.getegid())
    write_atomic(path, text, mode=mode, owner=owner)


def place(marker: str, line: str) -> None:
    """Add a key's line at the end, and remove other lines with the marker."""
    with host_lock("authorized_keys", _LOCK):
        before = without(current(), marker)
        if before and not before.endswith("\n"):
            before += "\n"
        _write(f"{before}{line}\n")


def forget(marker: str, key: str | None = None) -> bool:
    """Withdraw a key; returns whether there was one.

    :arg key: its base64 part; a different key with the same marker is kept.
    """
    with host_lock("authorized_keys", _LOCK):
        before = current()
        after = without(before, marker, key)
        if after == before:
            return False
        _write(after)
        return True


def renew(name: str, until: float) -> None:
    """Extend the expiry of a key in use by its full lifetime, but not beyond ``until`` (Unix seconds)."""
    marker = model_one_time_key.key_marker(name)
    now = time.time()
    ends = model_one_time_key.expires_at(current(), marker)
    new_end = min(now + model_one_time_key.LIFETIME, until)
    if ends is None or new_end - ends < model_one_time_key.RENEW_EVERY:
        return
    with host_lock("authorized_keys", _LOCK):
        before = current()
        after = model_one_time_key.renewed(before, marker, model_one_time_key.expiry(new_end))
        if after != before:
            _write(after)


def allow(name: str, commands: t.Sequence[t.Sequence[str]], home: pathlib.Path | None = None) -> None:
    """Store the hook commands that a migration's key may run."""
    (home or ALLOWED).mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(_allowed_file(name, home), json.dumps(KEY_COMMANDS.mark({"commands": [list(each) for each in commands]})) + "\n")


def allowed(name: str, home: pathlib.Path | None = None) -> list[list[str]]:
    """Return the hook commands that a migration's key may run."""
    path = _allowed_file(name, home)
    text = read_text(path)
    return [list(each) for each in KEY_COMMANDS.load(text, path, "commands")["commands"]] if text else []


def disallow(name: str, home: pathlib.Path | None = None) -> bool:
    """Remove the stored hook commands; returns whether there were any."""
    existed = _allowed_file(name, home).exists()
    _allowed_file(name, home).unlink(missing_ok=True)
    return existed


def _allowed_file(name: str, home: pathlib.Path | None) -> pathlib.Path:
    return (home or ALLOWED) / f"{name}.commands"
