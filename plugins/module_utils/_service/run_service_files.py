# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: write the configuration files of services and restart or reload the services; in check mode only report the changes."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import MASK
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text, redact
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import ConfigFile, Folder, PathFound, parse_service_files
from ansible_collections.reduced.footprint.plugins.module_utils._service.plan_service_files import Plan, plan, plan_files


def configure(params: t.Mapping[str, t.Any], *, check_mode: bool, host: ServiceHost | None = None) -> dict[str, t.Any]:
    """Bring files and units to the wanted state; returns the result of the module.

    Files are written in the given order, each after its validation; then systemd reloads its unit files, and units are started
    and restarted last. Files written by an interrupted run are applied by the next one.

    :raises InputError: a parameter is invalid.
    :raises BackendError: the validation of a file or a systemd job failed.
    """
    config = parse_service_files(params["files"], params["units"])
    host = host or ServiceHost()
    found = host.paths([*(file.path for file in config.files), *(file.folder for file in config.files)])
    folders, writes, settings = plan_files(config, found)
    known = secrets_of(params)
    if not check_mode:
        try:
            _write(host, folders, writes, settings)
        except FootprintError as error:
            # the program that validates a file may quote it
            error.message = redact(error.message, known)
            raise
    names = [unit.name for unit in config.units]
    waited_for = {path for unit in config.units for path in (*unit.restart_after, *unit.reload_after)}
    seen, times = host.units(names), host.times(sorted(waited_for))
    planned = plan(config, found, seen, times, check_mode)
    if not check_mode:
        _order(host, planned)
    return {
        "changed": bool(planned.actions),
        "actions": planned.actions,
        "needs": {name: planned.needs.get(name, "") for name in names},
        "diff": [_difference(file, found, known) for file in writes] + [{"prepared": "".join(f"{line}\n" for line in _rest(planned))}],
    }


def _write(host: ServiceHost, folders: t.Iterable[Folder], writes: t.Iterable[ConfigFile], settings: t.Iterable[ConfigFile]) -> None:
    for folder in folders:
        host.make_folder(folder)
    for file in writes:
        host.check(file)
        host.write(file)
    for file in settings:
        host.settle(file)


def _order(host: ServiceHost, planned: Plan) -> None:
    if planned.read_units:
        host.read_units()
    for verb in ("unmask", "enable", "disable", "stop", "start", "restart", "reload"):
        host.order(verb, getattr(planned, verb))


def _difference(file: ConfigFile, found: t.Mapping[str, PathFound], known: set[str]) -> dict[str, str]:
    old = (found[file.path].text if file.path in found else "") or ""
    known = known | _values(old, file.path)
    before, after = ("", "") if file.secret else (redact(text, known, file.path) for text in (old, file.content))
    if before == after:
        before, after = before + "(secret)\n", after + "(another secret)\n"
    return {"before_header": file.path, "after_header": file.path, "before": before, "after": after}


def _rest(planned: Plan) -> list[str]:
    return [line for line in planned.actions if not line.startswith("write ")]


def secrets_of(params: t.Mapping[str, t.Any]) -> set[str]:
    """Return the secrets in the contents, by the names of their settings; they are masked wherever they appear in output."""
    found = set().union(*(_values(file["content"], file["path"]) for file in params["files"]))
    return found | {file["content"].strip() for file in params["files"] if file.get("secret")}


def shown_params(params: t.Mapping[str, t.Any], known: t.Iterable[str]) -> dict[str, t.Any]:
    """Return the parameters for the result, without secrets."""
    files = [{**file, "content": MASK if file.get("secret") else redact(file["content"], known, file["path"])} for file in params["files"]]
    return {**params, "files": files}


def _values(text: str, path: str) -> set[str]:
    found: set[str] = set()
    # in a program, what follows such a name is an expression
    if not path.endswith(".py"):
        mask_text(text, path, found)
    return found
