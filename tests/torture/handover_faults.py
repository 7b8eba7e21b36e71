# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of a hand-over that a cut link or a killed host does not cover: lost answers, stopped workers, full state directories."""

from __future__ import annotations

import json
import pathlib
import subprocess
import time
import typing as t

from migration_kill import DESTINATION, LAB, UNIT, ssh

FILE_SYSTEMS = ("ext4", "xfs", "btrfs")
STATE = "/var/lib/reduced.footprint"
_IMAGE, _FILLER = "/var/tmp/state.img", f"{STATE}/filler"
# what the smallest xfs takes
_STATE_SIZE = 320 << 20
# read by every start of Debian's interpreter
_HOOK, _HELD = "/usr/lib/python3/dist-packages/hold.pth", "/var/tmp/answer-is-held"
_TABLE = "migration_fault"


def _ports(bridge: str) -> dict[str, str]:
    """Name of a machine → its port of the lab's bridge."""
    links = json.loads(subprocess.run(["ip", "-json", "link", "show", "master", bridge], check=True, capture_output=True).stdout)
    return {each["ifname"].rpartition("-")[2]: each["ifname"] for each in links}


def part(bridge: str) -> None:
    """From now on the source and the host hear nothing of each other, not even ARP; everybody else hears both."""
    ports = _ports(bridge)
    source, host = ports["laptop"], ports[DESTINATION]
    table = f"{_TABLE}_{bridge.replace('-', '_')}"
    rules = f"table bridge {table} {{\n chain forward {{\n  type filter hook forward priority -300;\n"
    rules += "".join(f'  iifname "{one}" oifname "{other}" drop\n' for one, other in ((source, host), (host, source)))
    subprocess.run(["nft", "-f", "-"], input=f"{rules} }}\n}}\n".encode(), check=True)


def join(bridge: str) -> None:
    """They hear each other again."""
    subprocess.run(["nft", "delete", "table", "bridge", f"{_TABLE}_{bridge.replace('-', '_')}"], check=False, capture_output=True)


def hold_the_answer() -> None:
    """The source does what the final word asks for, and keeps its answer to itself, once."""
    # before the interpreter ends, and what it printed leaves it
    hold = f"lambda: (open({_HELD!r}, 'w').close(), __import__('time').sleep(600))"
    # behind the forced command of the one-time key, or run by name
    asked = "sys.orig_argv + os.environ.get('SSH_ORIGINAL_COMMAND', '').split()"
    line = f"import atexit, os, sys; 'confirm' in {asked} and not os.path.exists({_HELD!r}) and atexit.register({hold})\n"
    ssh("laptop", "rm", "-f", _HELD)
    ssh("laptop", "mkdir", "-p", str(pathlib.Path(_HOOK).parent))
    ssh("laptop", "tee", _HOOK, given=line.encode())


def answer_is_held(temporary: str) -> bool:
    """Whether the source has heard the final word."""
    return bool(_at(temporary, "ls", _HELD, ok=False).strip())


def give_answers(machines: t.Iterable[str]) -> None:
    """Nothing is held any more, on the source nor in its copy."""
    for each in machines:
        _at(each, "rm", "-f", _HOOK, ok=False)


def _at(machine: str, *command: str, ok: bool = True) -> str:
    return ssh(machine, *command, ok=ok)


def main_pid() -> int:
    """The worker's process, 0 when there is none."""
    return int(ssh(DESTINATION, "systemctl", "show", "--value", "-p", "MainPID", UNIT, ok=False).strip() or 0)


def freeze(seconds: float) -> None:
    """Stop the worker, and let it go on if it is still there."""
    pid = main_pid()
    ssh(DESTINATION, "kill", "-STOP", str(pid))
    time.sleep(seconds)
    if main_pid() == pid:
        ssh(DESTINATION, "kill", "-CONT", str(pid), ok=False)


def kill_again_and_again(times: int) -> int:
    """Kill the worker each time it was started again; returns how often that was."""
    done, last = 0, 0
    until = time.monotonic() + 120
    while done < times and time.monotonic() < until:
        pid = main_pid()
        if pid and pid != last:
            last = pid
            ssh(DESTINATION, "kill", "-KILL", str(pid), ok=False)
            done += 1
        time.sleep(0.3)
    return done


def state_on(fs: str | None) -> None:
    """Give the state directory a small file system of its own, or take it away again."""
    ssh(DESTINATION, "umount", STATE, ok=False)
    if fs is None:
        return
    image = pathlib.Path(LAB / DESTINATION / "root" / _IMAGE.lstrip("/"))
    image.unlink(missing_ok=True)
    with open(image, "wb") as file:
        file.truncate(_STATE_SIZE)
    subprocess.run([f"mkfs.{fs}", *{"ext4": ["-q"], "xfs": ["-q", "-f"], "btrfs": ["-q", "-f"]}[fs], str(image)], check=True, capture_output=True)
    ssh(DESTINATION, "mkdir", "-p", STATE)
    ssh(DESTINATION, "mount", "-o", "loop", _IMAGE, STATE)


def fill_state() -> None:
    """Not a byte is left in the state directory."""
    for size in ("1M", "4k", "512"):
        ssh(DESTINATION, "dd", "if=/dev/urandom", f"of={_FILLER}.{size}", f"bs={size}", ok=False)
        ssh(DESTINATION, "sync", ok=False)


def empty_state() -> None:
    """There is room again."""
    ssh(DESTINATION, "rm", "-f", *(f"{_FILLER}.{size}" for size in ("1M", "4k", "512")), ok=False)
