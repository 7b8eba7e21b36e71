# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checkpoint of NetworkManager around one change: ``nm_checkpoint.py create|hold|commit|rollback FOLDER [SECONDS]``.

This file is copied to the host as it is, so it imports nothing but the standard library. ``checkpoint`` in the folder
holds the checkpoint's path, ``nm.json`` what is to be cleared away by hand should NetworkManager have lost it:
``profiles`` and ``devices`` that were made, ``autoconnect`` the profiles that came up by themselves, ``up`` those that were in use.

- ``create`` makes a checkpoint of all devices; NetworkManager goes back to it by itself somewhat after the seconds given;
- ``hold`` fails where NetworkManager went back already, otherwise it gives a confirmation the time it needs;
- ``commit`` ends the checkpoint: what is there stays;
- ``rollback`` goes back to it.
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
#: Seconds NetworkManager waits beyond the dead-man's own, and those a confirmation gets.
MARGIN = 30
HOLD = 120


class Failed(Exception):
    """What could not be done."""


def call(*argv: str) -> str:
    """What a command prints.

    :raises Failed: with its own words.
    """
    environment = dict(os.environ, LC_ALL="C")
    try:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=45, check=False, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{argv[0]}: {error}") from error
    said = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode:
        raise Failed(f"{argv[0]}: {said.splitlines()[-1] if said else done.returncode}")
    return said


def ask(method: str, signature: str, *words: str) -> list[str]:
    """Call a method of NetworkManager; the words of its answer, the signature first."""
    return shlex.split(call("busctl", "--system", "call", SERVICE, OBJECT, SERVICE, method, signature, *words))


def create(folder: str, seconds: int) -> None:
    """Make the checkpoint, of all devices there are."""
    flags = DELETE_NEW_CONNECTIONS | DISCONNECT_NEW_DEVICES
    path = ask("CheckpointCreate", "aouu", "0", str(seconds + MARGIN), str(flags))[1]
    with open(os.path.join(folder, "checkpoint"), "w", encoding="ascii") as stream:
        stream.write(path)


def checkpoint(folder: str) -> str | None:
    """The path of the checkpoint as long as NetworkManager knows it."""
    try:
        with open(os.path.join(folder, "checkpoint"), encoding="ascii") as stream:
            path = stream.read().strip()
    except FileNotFoundError:
        return None
    known = shlex.split(call("busctl", "--system", "get-property", SERVICE, OBJECT, SERVICE, "Checkpoints"))[2:]
    return path if path in known else None


def hold(folder: str) -> None:
    """Keep NetworkManager from going back while the change is made to last."""
    path = checkpoint(folder)
    if path is None:
        raise Failed("NetworkManager has gone back to its checkpoint already")
    ask("CheckpointAdjustRollbackTimeout", "ou", path, str(HOLD))


def commit(folder: str) -> None:
    """Let go of the checkpoint."""
    path = checkpoint(folder)
    if path is None:
        raise Failed("NetworkManager has gone back to its checkpoint already")
    ask("CheckpointDestroy", "o", path)


def rollback(folder: str) -> None:
    """Go back to the checkpoint, and do by hand what NetworkManager did not."""
    wrong = []
    try:
        path = checkpoint(folder)
        if path is not None:
            results = ask("CheckpointRollback", "o", path)[2:]
            wrong += [f"device {device}: result {result}" for device, result in zip(results[::2], results[1::2]) if result != "0"]
    except Failed as error:
        path = None
        wrong.append(str(error))
    with open(os.path.join(folder, "nm.json"), encoding="utf-8") as stream:
        notes = json.load(stream)
    names = set(call("nmcli", "--terse", "--escape", "no", "--fields", "NAME", "connection", "show").splitlines())
    left = [name for name in notes["profiles"] if name in names]
    for name in left:
        call("nmcli", "connection", "delete", "id", name)
    for name in notes["devices"]:
        if os.path.exists(f"/sys/class/net/{name}"):
            call("ip", "link", "delete", "dev", name)
    if path is None or wrong or left:
        for uuid in notes["autoconnect"]:
            call("nmcli", "connection", "modify", "uuid", uuid, "connection.autoconnect", "yes")
        for uuid in notes["up"]:
            call("nmcli", "--wait", "20", "connection", "up", "uuid", uuid)


def main(verb: str, folder: str, *words: str) -> int:
    """Do it and tell what was wrong."""
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
