# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the changes of files and units that bring services to their wanted configuration. No I/O.

A restart or reload is due if a file is newer than the service; times are compared, not what this run has written. So a run that is
killed between writing and restarting is completed by the next one.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import (
    ConfigFile,
    Folder,
    PathFound,
    ServiceConfig,
    ServiceUnit,
    UnitFound,
)

_UNIT_FOLDER = "/etc/systemd/system/"


@dataclasses.dataclass(frozen=True)
class Plan:
    """The changes to make, in this order.

    :arg writes: files whose content differs.
    :arg settings: files of which only owner, group or mode differ.
    :arg unmask, enable, disable, start, stop, restart, reload: names of units.
    :arg needs: unit → ``restart`` or ``reload`` where that is due, including units that the caller restarts or reloads.
    """

    folders: tuple[Folder, ...]
    writes: tuple[ConfigFile, ...]
    settings: tuple[ConfigFile, ...]
    read_units: bool
    unmask: tuple[str, ...]
    enable: tuple[str, ...]
    disable: tuple[str, ...]
    start: tuple[str, ...]
    stop: tuple[str, ...]
    restart: tuple[str, ...]
    reload: tuple[str, ...]
    needs: t.Mapping[str, str]

    @property
    def actions(self) -> list[str]:
        """Return one line of text for each change."""
        lines = [f"create the directory {one.path}" for one in self.folders]
        lines += [f"write {one.path}" for one in self.writes] + [f"set owner and mode of {one.path}" for one in self.settings]
        for verb, names in (("unmask", self.unmask), ("enable", self.enable), ("disable", self.disable), ("stop", self.stop), ("start", self.start),
                            ("restart", self.restart), ("reload", self.reload)):  # fmt: skip
            lines += [f"{verb} {name}" for name in names]
        # left by a run that was interrupted after it had written the file of a unit
        return lines + (["read the files of the units"] if self.read_units and not _any_of_units(self.writes) else [])


def plan_files(config: ServiceConfig, found: t.Mapping[str, PathFound]) -> tuple[tuple[Folder, ...], tuple[ConfigFile, ...], tuple[ConfigFile, ...]]:
    """Return directories to create or change, files to write, and files whose owner, group or mode must be set.

    :arg found: the existing files and directories by path.
    """
    folders: dict[str, Folder] = {}
    for file in config.files:
        existing = found.get(file.folder)
        group, mode = file.folder_group or "root", file.folder_mode or 0o755
        specified = file.folder_group is not None or file.folder_mode is not None
        # of a new directory, files that do not specify it leave it as another one does
        differs = (existing.group, existing.mode) != (group, mode) if existing else True
        if differs and specified or existing is None and file.folder not in folders:
            folders[file.folder] = Folder(file.folder, group, mode)
    writes = [file for file in config.files if file.path not in found or found[file.path].text != file.content]
    settings = [
        file for file in config.files
        if file not in writes and (found[file.path].owner, found[file.path].group, found[file.path].mode) != (file.owner, file.group, file.mode)
    ]  # fmt: skip
    return tuple(folders.values()), tuple(writes), tuple(settings)


def plan(
    config: ServiceConfig,
    found: t.Mapping[str, PathFound],
    units: t.Mapping[str, UnitFound],
    times: t.Mapping[str, float],
    check_mode: bool = False,
) -> Plan:
    """Plan the changes of files and units.

    :arg units: state of the units in systemd after the files were written.
    :arg times: modification times of the files in ``restart_after`` and ``reload_after``, 0 for one that does not exist.
    :arg check_mode: files were not written; those that would be written count as newer than any service.
    """
    folders, writes, settings = plan_files(config, found)
    unwritten = {file.path for file in writes} if check_mode else set()
    needs, lists = {}, {verb: [] for verb in ("unmask", "enable", "disable", "start", "stop", "restart", "reload")}  # type: ignore[var-annotated]
    for unit in config.units:
        seen = units.get(unit.name) or UnitFound()
        if seen.masked and (unit.enabled or unit.started):
            lists["unmask"].append(unit.name)
        if unit.enabled is not None and unit.enabled != seen.enabled:
            lists["enable" if unit.enabled else "disable"].append(unit.name)
        if unit.started is not None and unit.started != seen.active:
            lists["start" if unit.started else "stop"].append(unit.name)
        need = _need(unit, seen, times, unwritten)
        if need:
            needs[unit.name] = need
            if unit.act and unit.started is not False:
                lists[need].append(unit.name)
    read = _any_of_units(writes) or any(seen.unread for seen in units.values())
    return Plan(folders, writes, settings, read, **{verb: tuple(names) for verb, names in lists.items()}, needs=needs)


def _any_of_units(files: t.Iterable[ConfigFile]) -> bool:
    return any(file.path.startswith(_UNIT_FOLDER) for file in files)


def _need(unit: ServiceUnit, seen: UnitFound, times: t.Mapping[str, float], unwritten: t.AbstractSet[str]) -> str:
    """Return what a running service is due for; a stopped one reads all files when it starts."""
    if not seen.active:
        return ""

    def due(paths: t.Sequence[str], since: float) -> bool:
        return any(path in unwritten or times.get(path, 0) > since for path in paths)

    if due(unit.restart_after, seen.started):
        return "restart"
    return "reload" if due(unit.reload_after, seen.settled) else ""
