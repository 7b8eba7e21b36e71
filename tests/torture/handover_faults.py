# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of a hand-over other than a cut link or a killed host: lost answers, stopped workers, full state directories."""

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
# the minimum size of an xfs file system
_STATE_SIZE = 320 << 20
# read at every start of Debian's Python interpreter
_HOOK, _HELD = "/usr/lib/python3/dist-packages/hold.pth", "/var/tmp/answer-is-held"
_TABLE = "migration_fault"


def _ports(bridge: str) -> dict[str, str]:
    """Map the names of the machines to their ports of the lab's bridge."""
    links = json.loads(subprocess.run(["ip", "-json", "link", "show", "master", bridge], check=True, capture_output=True).stdout)
    return {each["ifname"].rpartition("-")[2]: each["ifname"] for each in links}


def part(bridge: str) -> None:
    """Drop all frames between source and host, including ARP; other hosts reach both."""
    ports = _ports(bridge)
    source, host = ports["laptop"], ports[DESTINATION]
    table = f"{_TABLE}_{bridge.replace('-', '_')}"
    rules = f"table bridge {table} {{\n chain forward {{\n  type filter hook forward priority -300;\n"
    rules += "".join(f'  iifname "{one}" oifname "{other}" drop\n' for one, other in ((source, host), (host, source)))
    subprocess.run(["nft", "-f", "-"], input=f"{rules} }}\n}}\n".encode(), check=True)


def join(bridge: str) -> None:
    """Reconnect source and host."""
    subprocess.run(["nft", "delete", "table", "bridge", f"{_TABLE}_{bridge.replace('-', '_')}"], check=False, capture_output=True)


def hold_answer() -> None:
    """Make the source act on the final hand-over message but hold its answer, once."""
    # runs at exit, before the interpreter flushes its output
    hold = f"lambda: (open({_HELD!r}, 'w').close(), __import__('time').sleep(600))"
    # invoked through the forced command of the one-time key, or by name
    arguments = "sys.orig_argv + os.environ.get('SSH_ORIGINAL_COMMAND', '').split()"
    line = f"import atexit, os, sys; 'confirm' in {arguments} and not os.path.exists({_HELD!r}) and atexit.register({hold})\n"
    ssh("laptop", "rm", "-f", _HELD)
    ssh("laptop", "mkdir", "-p", str(pathlib.Path(_HOOK).parent))
    ssh("laptop", "tee", _HOOK, given=line.encode())


def answer_is_held(temporary: str) -> bool:
    """Whether the source has received the final hand-over message."""
    return bool(_at(temporary, "ls", _HELD, ok=False).strip())


def release_answers(machines: t.Iterable[str]) -> None:
    """Remove the hook that holds answers, from the source and from its copy."""
    for each in machines:
        _at(each, "rm", "-f", _HOOK, ok=False)


def _at(machine: str, *command: str, ok: bool = True) -> str:
    return ssh(machine, *command, ok=ok)


def main_pid() -> int:
    """Return the process id of the worker, 0 if it is not running."""
    return int(ssh(DESTINATION, "systemctl", "show", "--value", "-p", "MainPID", UNIT, ok=False).strip() or 0)


def freeze(seconds: float) -> None:
    """Stop the worker, and continue it after this time if it still exists."""
    pid = main_pid()
    ssh(DESTINATION, "kill", "-STOP", str(pid))
    time.sleep(seconds)
    if main_pid() == pid:
        ssh(DESTINATION, "kill", "-CONT", str(pid), ok=False)


# runs on the destination, because each question from here takes half a second
_KILLS = """
last=0; until=$(($(date +%s) + $2))
while [ "$(date +%s)" -lt "$until" ]; do
    pid=$(systemctl show --value -p MainPID "$1")
    if [ "$pid" != 0 ] && [ "$pid" != "$last" ]; then
        kill -KILL "$pid"; last=$pid
    fi
    sleep 0.2
done
"""


def kill_repeatedly(seconds: float) -> None:
    """Kill the worker each time it is started again, for this time; systemd starts it without limit."""
    ssh(DESTINATION, "sh", "-s", UNIT, str(int(seconds)), given=_KILLS.encode())


def mount_state(fs: str | None) -> None:
    """Mount a small file system over the state directory, or unmount it."""
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
    """Fill the state directory completely."""
    for size in ("1M", "4k", "512"):
        ssh(DESTINATION, "dd", "if=/dev/urandom", f"of={_FILLER}.{size}", f"bs={size}", ok=False)
        ssh(DESTINATION, "sync", ok=False)


def empty_state() -> None:
    """Remove the files that fill the state directory."""
    ssh(DESTINATION, "rm", "-f", *(f"{_FILLER}.{size}" for size in ("1M", "4k", "512")), ok=False)
