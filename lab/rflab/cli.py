# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line: ``lab/lab up|down|status|ssh|start|stop|kill|reboot|writer|prepare``."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import sys
import typing as t
from contextlib import contextmanager

from . import lifecycle, machines, prepare, procs, teardown, writer
from .say import LabError, complain, say, step
from .settings import CACHE, MAX_SERVERS, Lab, current


@contextmanager
def _lock(lab: Lab) -> t.Iterator[None]:
    """Allow only one ``up`` or ``down`` of a lab at a time."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"lock-{lab.title}", "w", encoding="ascii") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise LabError(f"another command is changing the lab {lab.title!r}", "wait until it ends, then try again") from exc
        yield


def _up(lab: Lab, args: argparse.Namespace) -> None:
    prepare.prepare()
    with _lock(lab):
        lifecycle.up(lab, args.servers, args.fresh, args.laptops)


def _down(lab: Lab, args: argparse.Namespace) -> None:
    for one in teardown.here() if args.all else [lab]:
        with _lock(one), step(f"lab down{f' ({one.title})' if args.all else ''}"):
            lifecycle.down(one, args.force)


def _status(lab: Lab, args: argparse.Namespace) -> int:
    facts = lifecycle.status(lab)
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        lifecycle.show(lab, facts)
    return 0 if facts["up"] else 3


def _ssh(lab: Lab, args: argparse.Namespace) -> None:
    argv = lifecycle.ssh_argv(lab, args.machine) + args.command
    os.execvp(argv[0], argv)


def _check_made(lab: Lab, name: str) -> None:
    """Refuse what needs a machine that this lab does not have.

    :raises LabError: it was not started with this machine.
    """
    if not (lab.state / name).is_dir():
        option = {"laptop": "", "laptop2": " --laptops 2"}.get(name, f" --servers {name[-1]}")
        raise LabError(f"this lab has no {name}", f"run: lab/lab up{option}")


def _power(lab: Lab, args: argparse.Namespace) -> None:
    machine = lab.machine(args.machine)
    _check_made(lab, machine.name)
    action = {"start": machines.start, "stop": machines.stop, "kill": machines.cut, "reboot": machines.reboot}[args.action]
    with step(f"{args.action} {machine.name}"):
        action(lab, machine)
        if args.action in ("start", "reboot") and args.wait:
            machines.wait_ready(lab, machine)


def _writer(lab: Lab, args: argparse.Namespace) -> None:
    if args.what == "report":
        print(json.dumps(writer.report(lab, args.address), indent=2))
    elif args.what == "start":
        _check_made(lab, "laptop")
        if procs.alive(lab, "writer"):
            raise LabError("the writer is already running")
        procs.launch(lab, "writer", ["rflab.writer", args.address or f"{lab.net}.2"])
        procs.wait_alive(lab, "writer")
        say(f"the writer writes to {args.address or lab.net + '.2'}; acknowledged rows: {lab.state / 'writer.jsonl'}")
    elif not procs.stop(lab, "writer", patience=5):
        say("the writer is not running")


def _image(lab: Lab, args: argparse.Namespace) -> None:
    prepare.prepare(prepare.IMAGE_NEEDS)
    with _lock(lab):
        url = lifecycle.image(lab)
    say(f"the cloud image is at {url}")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="lab/lab", description="A complete footprint on one machine.",
                                  epilog="LAB_NAME and LAB_NETWORK (a /24) select another lab, LAB_RELEASE (bookworm, trixie) what its machines run.")
    commands = top.add_subparsers(dest="action", required=True, metavar="COMMAND")

    def add(name: str, action: t.Callable[[Lab, argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=action)
        return command

    up = add("up", _up, "start the lab, or add what is missing")
    up.add_argument("--servers", type=int, default=2, choices=range(1, MAX_SERVERS + 1), help="number of simulated servers (2)")
    up.add_argument("--laptops", type=int, default=1, choices=(0, 1, 2), help="number of old machines: the master, and laptop2 (1)")
    up.add_argument("--no-laptop", dest="laptops", action="store_const", const=0, help="only servers, no master")
    up.add_argument("--fresh", action="store_true", help="remove a running lab first")
    down = add("down", _down, "remove the lab, except for its cache")
    down.add_argument("--all", action="store_true", help="remove every lab of this checkout")
    down.add_argument("--force", action="store_true", help="also remove a running lab whose checkout no longer exists")
    add("status", _status, "show the state; exit code 3 if the lab is not up").add_argument("--json", action="store_true")
    ssh = add("ssh", _ssh, "run a shell, or one command, on a machine")
    ssh.add_argument("machine", help="metal1, metal2, metal3, laptop, laptop2, or an address")
    ssh.add_argument("command", nargs=argparse.REMAINDER)
    for name, text in (("start", "power on a machine"), ("stop", "shut down a machine and wait"),
                       ("kill", "cut the power of a machine"), ("reboot", "restart a machine by its own init")):
        power = add(name, _power, text)
        power.add_argument("machine")
        power.add_argument("--no-wait", dest="wait", action="store_false", help="do not wait until it answers")
    write = add("writer", _writer, "write rows through the master's address")
    write.add_argument("what", choices=("start", "stop", "report"))
    write.add_argument("address", nargs="?", help="database address (start: 10.213.0.2; report: none, no check of losses)")
    add("image", _image, "build the cloud image and offer it on the mirror of the running lab")
    add("prepare", lambda lab, args: prepare.prepare(), "install the packages that the lab requires (apt)")
    return top


def main() -> int:
    args = parser().parse_args()
    try:
        return args.run(current(), args) or 0
    except LabError as error:
        complain(error)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted; run lab/lab up or down to continue", file=sys.stderr)
        return 130
