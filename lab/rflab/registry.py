# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which labs run on this machine, whichever checkout they belong to, and which networks are promised to labs to come.

``NAME.json`` is a lab's entry. ``NAME.promise`` keeps a network for a lab that goes down and up again, for as long as
the process that asked for it lives.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import pathlib
import typing as t
from contextlib import contextmanager

from . import procs
from .settings import REGISTRY, Lab


@contextmanager
def locked() -> t.Iterator[None]:
    """Who looks for what is free and takes it does so alone on this machine."""
    while True:
        REGISTRY.mkdir(exist_ok=True)
        handle = os.open(REGISTRY, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            try:
                current = os.path.samestat(os.fstat(handle), os.stat(REGISTRY))
            except FileNotFoundError:
                current = False
            if not current:
                continue  # the last lab removed it while we waited
            try:
                yield
            finally:
                if REGISTRY.exists() and not any(REGISTRY.iterdir()):
                    REGISTRY.rmdir()
            return
        finally:
            os.close(handle)


def entries() -> dict[str, dict[str, t.Any]]:
    """What every lab on this machine told, by its title."""
    found = {path.stem: _read(path) for path in sorted(REGISTRY.glob("*.json"))}
    return {title: facts for title, facts in found.items() if {"state", "cidr"} <= facts.keys()}


def registered(lab: Lab) -> dict[str, t.Any]:
    """What the running (or half-dead) lab of this name told the machine."""
    return entries().get(lab.title, {})


def register(lab: Lab, **facts: object) -> None:
    REGISTRY.mkdir(exist_ok=True)
    write(lab.title, {"state": str(lab.state), "bridge": lab.bridge, "cidr": lab.cidr, **facts})


def write(title: str, facts: t.Mapping[str, t.Any]) -> None:
    _write(_entry(title), facts)


def forget(title: str) -> None:
    _entry(title).unlink(missing_ok=True)


def lab_of(title: str, facts: t.Mapping[str, t.Any]) -> Lab:
    """The lab of an entry, with the state directory it has in its own checkout."""
    return Lab("" if title == "default" else title, facts["cidr"].rpartition(".")[0], pathlib.Path(facts["state"]))


def promise(title: str, cidr: str = "") -> None:
    """Keep a name, and a network, for the lab ``title`` while this process lives. Only under the lock."""
    _write(REGISTRY / f"{title}.promise", {"cidr": cidr, "pid": os.getpid(), "started": procs.started(os.getpid())})


def withdraw(title: str) -> None:
    """Give a promised network back."""
    (REGISTRY / f"{title}.promise").unlink(missing_ok=True)


def promises() -> dict[str, dict[str, t.Any]]:
    """Promises whose process lives, by the title of their lab; the others are dropped."""
    found = {}
    for path in sorted(REGISTRY.glob("*.promise")):
        facts = _read(path)
        began = procs.started(facts["pid"]) if facts.get("pid") else None
        if began is not None and began == facts.get("started"):
            found[path.stem] = facts
        else:
            path.unlink(missing_ok=True)
    return found


def networks(but: str | None = None) -> list[tuple[ipaddress.IPv4Network, str]]:
    """Networks that labs have or were promised, in words too; ``but`` is the title of one to leave out."""
    found = []
    for words, told in (("the lab {} has it", entries()), ("it is kept for the lab {}", promises())):
        for title, facts in told.items():
            if title != but and facts["cidr"]:
                found.append((ipaddress.IPv4Network(facts["cidr"]), words.format(title)))
    return found


def _entry(title: str) -> pathlib.Path:
    return REGISTRY / f"{title}.json"


def _read(path: pathlib.Path) -> dict[str, t.Any]:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def _write(path: pathlib.Path, facts: t.Mapping[str, t.Any]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(facts))
    part.rename(path)
