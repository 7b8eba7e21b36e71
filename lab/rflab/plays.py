# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Run the collection's playbooks against the lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import typing as t

from .settings import REPO as REPOSITORY
from .settings import current

RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)")


@dataclasses.dataclass(frozen=True)
class PlayRun:
    """A finished ansible-playbook: exit code, seconds, output, the recap as host → counts, and the names of its plays with their seconds."""

    rc: int
    seconds: float
    output: str
    recap: dict[str, dict[str, int]]
    plays: tuple[tuple[str, float], ...] = ()

    @property
    def changed(self) -> int:
        """Number of changed tasks of all hosts."""
        return sum(counts["changed"] for counts in self.recap.values())

    def changed_tasks(self) -> list[str]:
        """Return the names of changed tasks, with the host."""
        names, task = [], ""
        for line in self.output.splitlines():
            if line.startswith(("TASK [", "RUNNING HANDLER [")):
                task = line.split("[", 1)[1].rsplit("]", 1)[0]
            elif line.startswith("changed:"):
                names.append(f"{task} ({line.split('[', 1)[1].split(']', 1)[0]})")
        return names


def environment() -> dict[str, str]:
    """Return the environment variables to use the collection of this checkout with the lab."""
    collections = REPOSITORY / ".cache" / "collections"
    link = collections / "ansible_collections" / "reduced" / "footprint"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(REPOSITORY)
    return dict(
        os.environ,
        ANSIBLE_CONFIG=str(REPOSITORY / "lab" / "ansible.cfg"),
        ANSIBLE_COLLECTIONS_PATH=str(collections),
        ANSIBLE_NOCOLOR="1",
        PYTHONUNBUFFERED="1",
    )


def play(
    playbook: str,
    *arguments: str,
    inventory: str | os.PathLike[str] | None = None,
    log: pathlib.Path | None = None,
    echo: bool = False,
    kill_at: str | None = None,
    kill_delay: float = 0.0,
    extra: t.Mapping[str, str] | None = None,
) -> PlayRun:
    """Run one playbook.

    :arg playbook: its fully qualified name, or a path.
    :arg log: file for the output.
    :arg echo: also show the output while the playbook is running.
    :arg kill_at: kill -9 the whole run ``kill_delay`` seconds after a line of its output contains this text.
    :arg extra: more environment variables.
    """
    if playbook == "reduced.footprint.status":
        # the processors of a lab are busy; a later argument takes precedence
        arguments = ("--extra-vars", "status_timeout=60", *arguments)
    command = [str(REPOSITORY / ".venv" / "bin" / "ansible-playbook"), "-i", str(inventory or current().state / "inventory"), playbook, *arguments]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**environment(), **(extra or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    lines: list[str] = []
    begun: list[tuple[str, float]] = []
    try:
        for line in process.stdout or ():
            lines.append(line)
            if line.startswith("PLAY "):
                begun.append((line.partition("[")[2].rpartition("]")[0], time.monotonic()))
            if echo:
                sys.stdout.write(line)
                sys.stdout.flush()
            if kill_at and kill_at in line:
                time.sleep(kill_delay)
                _kill(process.pid)
                kill_at = None
        rc = process.wait()
    except BaseException:
        _kill(process.pid)
        raise
    output = "".join(lines)
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(output, encoding="utf-8")
    # the last one is the recap
    plays = tuple((name, after - before) for (name, before), (unused, after) in zip(begun, begun[1:]))
    return PlayRun(rc, time.monotonic() - began, output, _recap(output), plays)


def _kill(pid: int) -> None:
    """Kill -9 a process and all its descendants; Ansible's workers are in separate sessions."""
    children: dict[int, list[int]] = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    doomed = [pid]
    for one in doomed:
        doomed.extend(children.get(one, []))
    for one in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _recap(output: str) -> dict[str, dict[str, int]]:
    counts = {}
    for line in output.split("PLAY RECAP", 1)[-1].splitlines():
        found = RECAP.match(line)
        if found:
            numbers = dict(zip(("ok", "changed", "unreachable", "failed"), (int(text) for text in found.groups()[1:])))
            counts[found.group(1)] = numbers
    return counts
