# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dead-man switch of a network change: applied by a detached unit, reverted unless confirmed in time.

This file is copied to the host and run by systemd, so it only imports the
standard library: ``python3 deadman.py try|settle FOLDER``. The folder contains ``plan.json``:

- ``write``: path → text, the files of the trial;
- ``apply``: commands that activate the trial;
- ``restore``: path → old text, or null if the file did not exist; every path that a trial or a confirmation writes;
- ``revert``: commands that activate the old configuration;
- ``keep``: path → text, the files that make the change permanent, and ``confirm``: commands after them;
- ``modes``: path → mode of files that are not world-readable;
- ``timeout``: seconds from the activation of the trial to its end.

and ``state``: planned → trying → applied → confirmed, or reverted. ``try`` applies and waits;
``settle`` runs when ``try`` has ended, also if it was killed, and reverts an unconfirmed
change. A lock serializes the timeout and a late confirmation.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time

STATE_PLANNED = "planned"
STATE_TRYING = "trying"
STATE_APPLIED = "applied"
STATE_CONFIRMED = "confirmed"
STATE_REVERTED = "reverted"


class Trial:
    """The folder of one change; as a context manager it holds the lock."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = None

    def __enter__(self) -> Trial:
        self._lock = open(os.path.join(self.folder, "lock"), "w", encoding="ascii")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        return self

    def __exit__(self, *unused: object) -> None:
        self._lock.close()

    @property
    def plan(self) -> dict:
        """The plan."""
        with open(os.path.join(self.folder, "plan.json"), encoding="utf-8") as stream:
            return json.load(stream)

    @property
    def state(self) -> str | None:
        """The state of the change, ``None`` if there is none."""
        try:
            with open(os.path.join(self.folder, "state"), encoding="utf-8") as stream:
                return stream.read().split("\n", 1)[0]
        except FileNotFoundError:
            return None

    @property
    def reason(self) -> str:
        """The reason of the state."""
        with open(os.path.join(self.folder, "state"), encoding="utf-8") as stream:
            return stream.read().partition("\n")[2].strip()

    def set_state(self, state: str, reason: str = "") -> None:
        """Write the state of the change."""
        write({os.path.join(self.folder, "state"): f"{state}\n{reason}\n"}, {})

    def confirm(self) -> str | None:
        """Make the trial permanent; returns the error if it had to be reverted.

        Call with the lock held.
        """
        plan = self.plan
        # in order: the file that removes the addresses of the port is last, so the host is reachable after a power loss
        error = _written(plan["keep"], plan["modes"]) or _first_failure(plan["confirm"])
        if error:
            self.revert(f"the change could not be made permanent: {error}")
            return error
        self.set_state(STATE_CONFIRMED)
        for path in plan["write"]:
            if path not in plan["keep"]:
                _remove(path)
        return None

    def revert(self, reason: str) -> None:
        """Restore the old configuration, also if a file cannot be written or a command fails. Call with the lock held."""
        plan = self.plan
        failed = []
        # in reverse order: the file of the port must never exist without those of its device
        for path, text in reversed(list(plan["restore"].items())):
            if text is None:
                _remove(path)
            elif _read(path) != text:
                error = _written({path: text}, plan["modes"])
                if error:
                    failed.append(error)
        for argv in plan["revert"]:
            if argv[:4] == ["ip", "link", "delete", "dev"] and not os.path.exists(f"/sys/class/net/{argv[4]}"):
                continue  # it was never created
            error = _call(argv)
            if error:
                failed.append(error)
        self.set_state(STATE_REVERTED, "; ".join([reason] + failed))


def write(texts: dict, modes: dict) -> None:
    """Write files atomically, and rename all of them within a moment.

    The default mode is 0644, because network daemons read them as their own user; an existing file
    keeps its mode and owner.
    """
    for path, text in texts.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # bytes that are not UTF-8, in comments of the old file, are preserved
        with open(_temporary(path), "w", encoding="utf-8", errors="surrogateescape", opener=_private) as stream:
            try:
                was = os.stat(path)
                os.fchown(stream.fileno(), was.st_uid, was.st_gid)
                os.fchmod(stream.fileno(), was.st_mode & 0o7777)
            except FileNotFoundError:
                os.fchmod(stream.fileno(), modes.get(path, 0o644))
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    # all data is on disk, only renames follow
    for path in texts:
        os.replace(_temporary(path), path)
    for folder in {os.path.dirname(path) for path in texts}:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _written(texts: dict, modes: dict) -> str | None:
    """Write files; returns the error, for example of a full disk."""
    try:
        write(texts, modes)
    except OSError as error:
        for path in texts:
            _remove(_temporary(path))
        return f"{error.filename or next(iter(texts), '')} cannot be written: {error.strerror}"
    return None


def _first_failure(commands: list) -> str | None:
    """Run commands up to the first that fails; returns its error."""
    for argv in commands:
        error = _call(argv)
        if error:
            return error
    return None


def attempt(folder: str) -> int:
    """Apply the plan, then wait for the confirmation."""
    trial = Trial(folder)
    with trial:
        if trial.state != STATE_PLANNED:
            return 0
        plan = trial.plan
        trial.set_state(STATE_TRYING)
        error = _written(plan["write"], plan["modes"]) or _first_failure(plan["apply"])
        if error:
            trial.revert(f"the change could not be applied: {error}")
            return 1
        trial.set_state(STATE_APPLIED)
    deadline = time.monotonic() + plan["timeout"]
    while time.monotonic() < deadline and trial.state == STATE_APPLIED:
        time.sleep(0.2)
    return 0


def settle(folder: str) -> int:
    """Revert an unconfirmed change."""
    trial = Trial(folder)
    with trial:
        if trial.state in (STATE_TRYING, STATE_APPLIED):
            trial.revert(f"the change was not confirmed within {trial.plan['timeout']} s")
    return 0


def _temporary(path: str) -> str:
    # hidden, because ifupdown includes all other files of its folder
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.reduced-footprint")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _call(argv: list) -> str | None:
    try:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{argv[0]}: {error}"
    if done.returncode:
        output = done.stdout.decode("utf-8", "replace").strip().splitlines()[-2:]
        return f"{' '.join(argv)} ended with exit code {done.returncode}: {' | '.join(output)}"
    return None


if __name__ == "__main__":
    raise SystemExit({"try": attempt, "settle": settle}[sys.argv[1]](sys.argv[2]))
