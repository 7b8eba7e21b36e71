# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Registry of the labs of all checkouts on this machine, and of networks reserved for future labs.

``NAME.json`` is the entry of a lab. ``NAME.promise`` reserves a network for a lab that is removed and started again, as long as
the process that reserved it is running.
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
    """Lock the registry while a free name or network is searched and reserved."""
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
                continue  # the last lab removed it in the meantime
            try:
                yield
            finally:
                if REGISTRY.exists() and not any(REGISTRY.iterdir()):
                    REGISTRY.rmdir()
            return
        finally:
            os.close(handle)


def entries() -> dict[str, dict[str, t.Any]]:
    """Return the entries of all labs on this machine, by title."""
    found = {path.stem: _read(path) for path in sorted(REGISTRY.glob("*.json"))}
    return {title: facts for title, facts in found.items() if {"state", "cidr"} <= facts.keys()}


def registered(lab: Lab) -> dict[str, t.Any]:
    """Return the entry of the running or broken lab of this name."""
    return entries().get(lab.title, {})


def register(lab: Lab, **facts: object) -> None:
    REGISTRY.mkdir(exist_ok=True)
    write(lab.title, {"state": str(lab.state), "bridge": lab.bridge, "cidr": lab.cidr, **facts})


def write(title: str, facts: t.Mapping[str, t.Any]) -> None:
    _write(_entry(title), facts)


def forget(title: str) -> None:
    _entry(title).unlink(missing_ok=True)


def lab_of(title: str, facts: t.Mapping[str, t.Any]) -> Lab:
    """Return the lab of an entry, with the state directory in its checkout."""
    return Lab("" if title == "default" else title, facts["cidr"].rpartition(".")[0], pathlib.Path(facts["state"]))


def promise(title: str, cidr: str = "") -> None:
    """Reserve a name, and a network, for the lab ``title`` while this process is running. Requires the lock."""
    _write(REGISTRY / f"{title}.promise", {"cidr": cidr, "pid": os.getpid(), "started": procs.started(os.getpid())})


def withdraw(title: str) -> None:
    """Release a reserved network."""
    (REGISTRY / f"{title}.promise").unlink(missing_ok=True)


def promises() -> dict[str, dict[str, t.Any]]:
    """Return reservations whose process is running, by the title of their lab; remove the others."""
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
    """Return networks that labs use or have reserved, with a description; ``but`` is the title of a lab to leave out."""
    found = []
    for words, labs in (("it is used by the lab {}", entries()), ("it is reserved for the lab {}", promises())):
        for title, facts in labs.items():
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
