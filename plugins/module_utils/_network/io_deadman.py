# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dead-man switch of a network change: applied by a detached unit, taken back unless confirmed in time.

This file is copied to the host as it is and run by systemd there, so it imports nothing but the
standard library: ``python3 deadman.py try|settle FOLDER``. The folder holds ``plan.json``:

- ``write``: path → text, the files of the trial;
- ``apply``: commands that make the trial live;
- ``restore``: path → old text, or null where there was none; every path a trial or a confirmation writes;
- ``revert``: commands that make the old configuration live again;
- ``keep``: path → text, the files that make it last, and ``confirm``: commands after them;
- ``modes``: path → mode of files that are not for everybody;
- ``timeout``: seconds from the moment the trial is live to its end.

and ``state``: planned → trying → applied → confirmed, or reverted. ``try`` applies and waits;
``settle`` runs whenever ``try`` has ended, however it ended, killed included, and takes back
what nobody confirmed. A lock orders the end of the time against a late confirmation.
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
    """The folder of one change, locked while it is used as a context."""

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
        """The plan as it was written."""
        with open(os.path.join(self.folder, "plan.json"), encoding="utf-8") as stream:
            return json.load(stream)

    @property
    def state(self) -> str | None:
        """Where the change stands, ``None`` when there is none."""
        try:
            with open(os.path.join(self.folder, "state"), encoding="utf-8") as stream:
                return stream.read().split("\n", 1)[0]
        except FileNotFoundError:
            return None

    @property
    def reason(self) -> str:
        """Why it stands there."""
        with open(os.path.join(self.folder, "state"), encoding="utf-8") as stream:
            return stream.read().partition("\n")[2].strip()

    def set_state(self, state: str, reason: str = "") -> None:
        """Remember where the change stands."""
        write({os.path.join(self.folder, "state"): f"{state}\n{reason}\n"}, {})

    def confirm(self) -> str | None:
        """Make the trial last: its files where they outlive a reboot; what went wrong, if it had to be taken back.

        Call with the lock held.
        """
        plan = self.plan
        # in their order: the file that gives the port away comes last, so a power loss leaves a host that answers
        write(plan["keep"], plan["modes"])
        for argv in plan["confirm"]:
            error = _call(argv)
            if error:
                self.revert(f"the change could not be kept: {error}")
                return error
        self.set_state(STATE_CONFIRMED)
        for path in plan["write"]:
            if path not in plan["keep"]:
                _remove(path)
        return None

    def revert(self, reason: str) -> None:
        """Bring the old configuration back; goes on past a command that fails; call with the lock held."""
        plan = self.plan
        # last written, first taken back: the port's own file is the one that must not stand alone
        for path, text in reversed(list(plan["restore"].items())):
            if text is None:
                _remove(path)
            elif _read(path) != text:
                write({path: text}, plan["modes"])
        failed = []
        for argv in plan["revert"]:
            if argv[:4] == ["ip", "link", "delete", "dev"] and not os.path.exists(f"/sys/class/net/{argv[4]}"):
                continue  # it never came up
            error = _call(argv)
            if error:
                failed.append(error)
        self.set_state(STATE_REVERTED, "; ".join([reason] + failed))


def write(texts: dict, modes: dict) -> None:
    """Write files so that each is whole at any moment, and all of them within a moment.

    0644 where nothing else is said, for network daemons read them as their own user; a file that was there
    keeps its mode and owner.
    """
    for path, text in texts.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(_temporary(path), "w", encoding="utf-8", opener=_private) as stream:
            try:
                was = os.stat(path)
                os.fchown(stream.fileno(), was.st_uid, was.st_gid)
                os.fchmod(stream.fileno(), was.st_mode & 0o7777)
            except FileNotFoundError:
                os.fchmod(stream.fileno(), modes.get(path, 0o644))
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    # the disk's work is done: only names change from here on
    for path in texts:
        os.replace(_temporary(path), path)
    for folder in {os.path.dirname(path) for path in texts}:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def attempt(folder: str) -> int:
    """Apply the plan, then wait for the confirmation."""
    trial = Trial(folder)
    with trial:
        if trial.state != STATE_PLANNED:
            return 0
        plan = trial.plan
        trial.set_state(STATE_TRYING)
        write(plan["write"], plan["modes"])
        for argv in plan["apply"]:
            error = _call(argv)
            if error:
                trial.revert(f"the change could not be applied: {error}")
                return 1
        trial.set_state(STATE_APPLIED)
    deadline = time.monotonic() + plan["timeout"]
    while time.monotonic() < deadline and trial.state == STATE_APPLIED:
        time.sleep(0.2)
    return 0


def settle(folder: str) -> int:
    """Take back what nobody confirmed."""
    trial = Trial(folder)
    with trial:
        if trial.state in (STATE_TRYING, STATE_APPLIED):
            trial.revert(f"nobody confirmed the change (it had {trial.plan['timeout']} s)")
    return 0


def _temporary(path: str) -> str:
    # hidden: ifupdown takes in whatever else lies in its folder
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.reduced-footprint")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as stream:
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
        said = done.stdout.decode("utf-8", "replace").strip().splitlines()[-2:]
        return f"{' '.join(argv)} ended with exit code {done.returncode}: {' | '.join(said)}"
    return None


if __name__ == "__main__":
    raise SystemExit({"try": attempt, "settle": settle}[sys.argv[1]](sys.argv[2]))
