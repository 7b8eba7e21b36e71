# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-lived processes of the lab, identified by pid and start time."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import typing as t

from .say import LabError, run
from .settings import LAB_DIR, Lab


def systemd() -> bool:
    return os.path.isdir("/run/systemd/system")


def started(pid: int) -> int | None:
    """Return the start time in ticks since boot, which with the pid identifies a process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def note(lab: Lab, name: str, **facts: t.Any) -> None:
    """Record a process of this lab; ``pid`` is this process unless given."""
    pid = facts.setdefault("pid", os.getpid())
    facts["started"] = started(pid)
    path = lab.state / "run" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(facts))
    part.rename(path)


def known(lab: Lab, name: str) -> dict[str, t.Any]:
    try:
        return json.loads((lab.state / "run" / f"{name}.json").read_text())
    except (OSError, ValueError):
        return {}


def forget(lab: Lab, name: str) -> None:
    (lab.state / "run" / f"{name}.json").unlink(missing_ok=True)


def alive(lab: Lab, name: str) -> int | None:
    """Return the pid of the recorded process if it is still running."""
    facts = known(lab, name)
    pid = facts.get("pid")
    if pid and facts.get("started") is not None and started(pid) == facts["started"]:
        return pid
    return None


def launch(lab: Lab, part: str, argv: list[str], delegate: bool = False) -> None:
    """Start ``python3 -m rflab.<...>`` in the background.

    With systemd it is a transient unit, because the end of a session would kill it otherwise; without, a separate session.
    """
    log = lab.state / "log" / f"{part}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    env = {"PYTHONPATH": str(LAB_DIR), "PYTHONDONTWRITEBYTECODE": "1",
           "LAB_NAME": lab.name, "LAB_NETWORK": lab.cidr, "LAB_CACHE": os.environ.get("LAB_CACHE", ""),
           "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-m", *argv]
    if systemd():
        unit = lab.unit(part)
        run(["systemctl", "reset-failed", f"{unit}.service"], check=False)
        options = [f"--setenv={k}={v}" for k, v in env.items()]
        options += [f"--property=StandardOutput=append:{log}", f"--property=StandardError=append:{log}",
                    "--property=KillMode=mixed", "--property=TimeoutStopSec=120"]
        if delegate:
            options += ["--property=Delegate=yes", "--property=TasksMax=infinity"]
        run(["systemd-run", f"--unit={unit}", "--collect", "--quiet", *options, *command])
        return
    with open(log, "ab") as stream:
        subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
                         start_new_session=True, cwd="/")


def wait_alive(lab: Lab, name: str, seconds: float = 10.0) -> int:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid = alive(lab, name)
        if pid:
            return pid
        time.sleep(0.05)
    raise LabError(f"{name} did not start; see {lab.state}/log")


def stop(lab: Lab, name: str, first: int = signal.SIGTERM, patience: float = 90.0) -> bool:
    """Signal a recorded process and wait, with SIGKILL after ``patience`` seconds; return whether it was running."""
    pid = alive(lab, name)
    if pid is None:
        return False
    os.kill(pid, first)
    deadline = time.monotonic() + patience
    while alive(lab, name):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            patience, deadline = 10, time.monotonic() + 10
        time.sleep(0.05)
    return True
