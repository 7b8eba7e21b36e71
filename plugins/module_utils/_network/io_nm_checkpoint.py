# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checkpoint of NetworkManager around one change: ``nm_checkpoint.py create|hold|commit|rollback FOLDER [SECONDS]``.

This file is copied to the host, so it only imports the standard library. ``checkpoint`` in the folder
contains the path of the checkpoint, ``nm.json`` what to undo if NetworkManager has lost the checkpoint:
``profiles`` and ``devices`` that were created, ``autoconnect`` the profiles that had autoconnect enabled, ``up`` those that were active.

- ``create`` creates a checkpoint of all devices; NetworkManager rolls back by itself some time after the given seconds;
- ``hold`` extends the rollback timeout for a confirmation; it fails if NetworkManager has already rolled back;
- ``commit`` destroys the checkpoint: the changes are kept;
- ``rollback`` rolls back to the checkpoint.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

SERVICE = "org.freedesktop.NetworkManager"
OBJECT = "/org/freedesktop/NetworkManager"
DELETE_NEW_CONNECTIONS = 0x02
DISCONNECT_NEW_DEVICES = 0x04
#: Seconds that NetworkManager waits longer than the dead-man switch, and those for a confirmation.
MARGIN = 30
HOLD = 120


class Failed(Exception):
    """A command failed."""


def call(*argv: str) -> str:
    """Run a command and return its output."""
    environment = dict(os.environ, LC_ALL="C")
    try:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=45, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from error
    output = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise Failed(f"{argv[0]}: {output.splitlines()[-1] if output else done.returncode}")
    return output


def ask(method: str, signature: str, *words: str) -> list[str]:
    """Call a D-Bus method of NetworkManager; returns the answer split into words, the signature first."""
    return shlex.split(call("busctl", "--system", "call", SERVICE, OBJECT, SERVICE, method, signature, *words))


def create(folder: str, seconds: int) -> None:
    """Create a checkpoint of all devices."""
    flags = DELETE_NEW_CONNECTIONS | DISCONNECT_NEW_DEVICES
    path = ask("CheckpointCreate", "aouu", "0", str(seconds + MARGIN), str(flags))[1]
    with open(os.path.join(folder, "checkpoint"), "w", encoding="ascii") as stream:
        stream.write(path)


def checkpoint(folder: str) -> str | None:
    """Return the path of the checkpoint, ``None`` if NetworkManager no longer has it."""
    try:
        with open(os.path.join(folder, "checkpoint"), encoding="ascii") as stream:
            path = stream.read().strip()
    except FileNotFoundError:
        return None
    known = shlex.split(call("busctl", "--system", "get-property", SERVICE, OBJECT, SERVICE, "Checkpoints"))[2:]
    return path if path in known else None


def hold(folder: str) -> None:
    """Extend the rollback timeout while the change is made permanent."""
    path = checkpoint(folder)
    if path is None:
        raise Failed("NetworkManager has already rolled back to its checkpoint")
    ask("CheckpointAdjustRollbackTimeout", "ou", path, str(HOLD))


def commit(folder: str) -> None:
    """Destroy the checkpoint, so that the changes are kept."""
    path = checkpoint(folder)
    if path is None:
        raise Failed("NetworkManager has already rolled back to its checkpoint")
    ask("CheckpointDestroy", "o", path)


def rollback(folder: str) -> None:
    """Roll back to the checkpoint, and undo everything that NetworkManager did not."""
    errors = []
    try:
        path = checkpoint(folder)
        if path is not None:
            results = ask("CheckpointRollback", "o", path)[2:]
            errors += [f"device {device}: result {result}" for device, result in zip(results[::2], results[1::2]) if result != "0"]
    except Failed as error:
        path = None
        errors.append(str(error))
    with open(os.path.join(folder, "nm.json"), encoding="utf-8") as stream:
        notes = json.load(stream)
    names = set(call("nmcli", "--terse", "--escape", "no", "--fields", "NAME", "connection", "show").splitlines())
    left = [name for name in notes["profiles"] if name in names]
    for name in left:
        call("nmcli", "connection", "delete", "id", name)
    for name in notes["devices"]:
        if os.path.exists(f"/sys/class/net/{name}"):
            call("ip", "link", "delete", "dev", name)
    if path is None or errors or left:
        for uuid in notes["autoconnect"]:
            call("nmcli", "connection", "modify", "uuid", uuid, "connection.autoconnect", "yes")
        for uuid in notes["up"]:
            call("nmcli", "--wait", "20", "connection", "up", "uuid", uuid)


def main(verb: str, folder: str, *words: str) -> int:
    """Entry point; errors are printed."""
    try:
        if verb == "create":
            create(folder, int(words[0]))
        else:
            {"hold": hold, "commit": commit, "rollback": rollback}[verb](folder)
    except Failed as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
