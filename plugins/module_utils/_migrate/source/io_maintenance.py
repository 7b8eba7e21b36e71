# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The maintenance boot of the source: a single boot into a target with only the network and ssh.

The return is prepared on disk before the machine goes down: the first command of that boot makes
the usual target the default again.
"""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_services import list_units
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_units

SYSTEM = pathlib.Path("/etc/systemd/system")


def unit(name: str) -> str:
    """Name of the unit that runs the watch of a source in its maintenance boot."""
    return f"reduced-footprint-maintenance-{name}.service"


def usual_target() -> str:
    """The default target of this machine, while no maintenance boot is armed."""
    return run(["systemctl", "get-default"]).stdout.strip()


def arm(name: str, argv: t.Sequence[str]) -> None:
    """Make only the next boot a maintenance boot; does nothing if it is already armed.

    :arg argv: the command of the watch in that boot.
    """
    link = SYSTEM / "default.target"
    if _is_armed(link):
        return
    usual_link = os.readlink(link) if link.is_symlink() else None
    write_atomic(SYSTEM / unit(name), model_units.maintenance_service(argv, usual_link, str(link)), mode=0o644)
    write_atomic(SYSTEM / model_units.MAINTENANCE_TARGET, model_units.maintenance_target(unit(name), model_units.units_to_keep(list_units())), mode=0o644)
    # the link is changed last: it puts the rest into effect
    _point(link, str(SYSTEM / model_units.MAINTENANCE_TARGET))
    run(["sync"])


def _is_armed(link: pathlib.Path) -> bool:
    return link.is_symlink() and os.path.basename(os.readlink(link)) == model_units.MAINTENANCE_TARGET


def disarm(name: str) -> None:
    """Make the usual target the default again, and remove the files of the maintenance boot."""
    link = SYSTEM / "default.target"
    if _is_armed(link):
        before = _usual_link(name)
        if before:
            _point(link, before)
        else:
            link.unlink()
    for each in (SYSTEM / unit(name), SYSTEM / model_units.MAINTENANCE_TARGET):
        each.unlink(missing_ok=True)


def _usual_link(name: str) -> str | None:
    """The previous link of the default target, from the unit's first command; ``None`` if there was none."""
    path = SYSTEM / unit(name)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    words = next((line.split() for line in text.splitlines() if line.startswith("ExecStartPre=/bin/ln")), [])
    return words[2] if len(words) == 4 else None


def _point(link: pathlib.Path, target: str) -> None:
    """Create or change a link atomically, safe against a power loss."""
    temporary = link.with_name(f".{link.name}.reduced-footprint")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    rename(temporary, link, new=False)
