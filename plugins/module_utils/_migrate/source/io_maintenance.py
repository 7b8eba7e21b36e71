# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A boot of the source into a target of ours with only the network and ssh; good for that one boot.

The way back is on disk before the machine goes down: the first thing that boot does is to make
the usual target the default again.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_services import list_units
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import (
    MAINTENANCE_TARGET,
    maintenance_service,
    maintenance_target,
    units_to_keep,
)

SYSTEM = pathlib.Path("/etc/systemd/system")


def unit(name: str) -> str:
    """The unit that watches over a source in its maintenance boot."""
    return f"reduced-footprint-maintenance-{name}.service"


def usual_target() -> str:
    """The target this machine boots into when nothing of ours is armed."""
    return run(["systemctl", "get-default"]).stdout.strip()


def arm(name: str, argv: t.Sequence[str]) -> None:
    """Let the next boot be one without services, and that one alone; armed once is armed.

    :arg argv: what watches over the source then.
    """
    link = SYSTEM / "default.target"
    if _is_ours(link):
        return
    usual_link = os.readlink(link) if link.is_symlink() else None
    write_atomic(SYSTEM / unit(name), maintenance_service(argv, usual_link, str(link)), mode=0o644)
    write_atomic(SYSTEM / MAINTENANCE_TARGET, maintenance_target(unit(name), units_to_keep(list_units())), mode=0o644)
    # the link is last: until it is there, nothing has changed
    _point(link, str(SYSTEM / MAINTENANCE_TARGET))
    run(["sync"])


def _is_ours(link: pathlib.Path) -> bool:
    return link.is_symlink() and os.path.basename(os.readlink(link)) == MAINTENANCE_TARGET


def disarm(name: str) -> None:
    """The usual target is the default again; what was made for the one boot is gone."""
    link = SYSTEM / "default.target"
    if _is_ours(link):
        before = _usual_link(name)
        if before:
            _point(link, before)
        else:
            link.unlink()
    for each in (SYSTEM / unit(name), SYSTEM / MAINTENANCE_TARGET):
        each.unlink(missing_ok=True)


def _usual_link(name: str) -> str | None:
    """Where the default pointed, as the unit's own first command says."""
    path = SYSTEM / unit(name)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    words = next((line.split() for line in text.splitlines() if line.startswith("ExecStartPre=/bin/ln")), [])
    return words[2] if len(words) == 4 else None


def _point(link: pathlib.Path, target: str) -> None:
    """Make or change a link in one step, safe against a power loss."""
    half_made = link.with_name(f".{link.name}.reduced-footprint")
    half_made.unlink(missing_ok=True)
    half_made.symlink_to(target)
    os.replace(half_made, link)
    directory = os.open(str(link.parent), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
