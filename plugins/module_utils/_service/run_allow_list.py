# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: apply the allow-lists of services on a host, persistently, or remove them."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_nftables import NFT, PacketFilter
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import ALLOW_LIST
from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list, plan_service_files
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import AllowList, parse_allow_lists
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import ConfigFile, PathFound, ServiceConfig, ServiceUnit

FOLDER = "/etc/reduced.footprint/allow-lists"
ALL = "/etc/reduced.footprint/allow-lists.nft"
LOADER, TIMER = "footprint-allow-lists.service", "footprint-allow-lists.timer"
_UNITS = "/etc/systemd/system"
_HEAD = "# Managed by Ansible: reduced.footprint, allow-lists of the control plane's services\n"
_SCHEMA = "# schema "

_LOADER = f"""{_HEAD}[Unit]
Description=Load the allow-lists of the control plane's services
DefaultDependencies=no
# nftables.service flushes the ruleset when it starts
After=local-fs.target systemd-modules-load.service nftables.service
Before=network-pre.target shutdown.target
Wants=network-pre.target
Conflicts=shutdown.target
# an operator may restart it as often as necessary
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart={NFT} -f {ALL}
# it runs twice a minute: do not log each run, only what nft complains about
LogLevelMax=warning
SyslogLevel=warning

[Install]
WantedBy=sysinit.target
"""
_TIMER = f"""{_HEAD}[Unit]
Description=Reload the allow-lists in case the packet filter was flushed

[Timer]
OnBootSec=30s
OnUnitInactiveSec=30s
AccuracySec=1s

[Install]
WantedBy=timers.target
"""


def path_of(name: str) -> str:
    """Return the path of the file of a list."""
    return f"{FOLDER}/{name}.nft"


def _drop_in(unit: str) -> str:
    return f"{_UNITS}/{unit}.d/footprint-allow-list.conf"


def _drop_in_content(unit: str) -> str:
    """Return the settings with which a unit loads the lists before each start, and does not start if they can not be loaded.

    It does not require the loader's unit: a restart of that would restart each service, and with it the database of all members.
    """
    if unit.endswith(".socket"):
        # systemd restarts a failed service, but never a failed socket: it gets a second attempt
        before, section = f"ExecStartPre=+-{NFT} -f {ALL}\n", "Socket"
    else:
        before, section = "", "Service"
    return f"{_HEAD}[Unit]\nAfter={LOADER}\n\n[{section}]\n# as root, whatever the unit runs as\n{before}ExecStartPre=+{NFT} -f {ALL}\n"


def enforce(
    params: t.Mapping[str, t.Any], *, check_mode: bool, host: ServiceHost | None = None, kernel: PacketFilter | None = None
) -> dict[str, t.Any]:
    """Bring the allow-lists of a host to the wanted state; returns the result of the module.

    The kernel validates each list before it is written, and all lists are loaded before units are changed. A run that
    was killed in between is completed by the next one, because each loaded table contains a digest of its rules.

    :raises InputError: a list is invalid.
    :raises BackendError: the kernel rejects a list.
    """
    lists = parse_allow_lists(params["lists"])
    host, kernel = host or ServiceHost(), kernel or PacketFilter()
    if params.get("state") == "absent":
        return _remove(lists, check_mode, host, kernel)
    if params.get("only_known"):
        existing = host.paths(path_of(one.name) for one in lists)
        lists = tuple(one for one in lists if path_of(one.name) in existing)
    return _apply(lists, check_mode, host, kernel)


def _files(lists: t.Sequence[AllowList]) -> list[ConfigFile]:
    found = [ConfigFile(path_of(one.name), f"{_HEAD}{_SCHEMA}{ALLOW_LIST.number}\n{plan_allow_list.ruleset(one)}", mode=0o600) for one in lists]
    found += [
        ConfigFile(ALL, f'{_HEAD}include "{FOLDER}/*.nft"\n', mode=0o600),
        ConfigFile(f"{_UNITS}/{LOADER}", _LOADER),
        ConfigFile(f"{_UNITS}/{TIMER}", _TIMER),
    ]
    return found + [ConfigFile(_drop_in(unit), _drop_in_content(unit)) for one in lists for unit in one.units]


def _refuse_newer(path: str, found: t.Mapping[str, PathFound]) -> None:
    number = re.search(f"(?m)^{_SCHEMA}(.*)$", found[path].text or "") if path in found else None
    if number:
        ALLOW_LIST.check(int(number[1]) if number[1].isdecimal() else number[1], path)


def _apply(lists: t.Sequence[AllowList], check_mode: bool, host: ServiceHost, kernel: PacketFilter) -> dict[str, t.Any]:
    if not lists:
        return _result([], [], {})
    files = _files(lists)
    units = (ServiceUnit(LOADER, enabled=True, started=None), ServiceUnit(TIMER, enabled=True, started=True))
    config = ServiceConfig(tuple(files), units)
    found = host.paths([*(file.path for file in files), *(file.folder for file in files)])
    for one in lists:
        _refuse_newer(path_of(one.name), found)
    folders, writes, settings = plan_service_files.plan_files(config, found)
    chains = kernel.chains()
    stale = [one.name for one in lists if plan_allow_list.revision(plan_allow_list.ruleset(one)) not in chains.get(plan_allow_list.table_of(one.name), set())]
    actions = [f"load the allow-list of {name}" for name in stale]
    if not check_mode:
        for folder in folders:
            host.make_folder(folder)
        for file in writes:
            if file.path.startswith(FOLDER):
                kernel.check(file.content, file.path)
            host.write(file)
        for file in settings:
            host.settle(file)
        for name in stale:
            kernel.load(path_of(name))
    plan = plan_service_files.plan(config, found, host.units([unit.name for unit in units]), {}, check_mode)
    if not check_mode:
        if plan.read_units:
            host.read_units()
        for verb in ("enable", "start"):
            host.order(verb, getattr(plan, verb))
    return _result(plan.actions + actions, writes, found)


def _remove(lists: t.Sequence[AllowList], check_mode: bool, host: ServiceHost, kernel: PacketFilter) -> dict[str, t.Any]:
    chains = kernel.chains()
    paths = [path_of(one.name) for one in lists] + [_drop_in(unit) for one in lists for unit in one.units]
    kept = {name for name in host.names(FOLDER, ".nft") if name not in {one.name for one in lists}}
    units: list[str] = []
    if not kept:
        units = [name for name in (TIMER, LOADER) if host.units([name])[name].enabled]
        paths += [f"{_UNITS}/{TIMER}", f"{_UNITS}/{LOADER}", ALL]
    found = {path: file for path, file in host.paths(paths).items() if file.text is not None}
    for one in lists:
        _refuse_newer(path_of(one.name), found)
    tables = [plan_allow_list.table_of(one.name) for one in lists if plan_allow_list.table_of(one.name) in chains]
    actions = [f"disable {name}" for name in units] + [f"remove {path}" for path in found] + [f"remove the table {name}" for name in tables]
    if not check_mode:
        host.order("disable", units)
        if TIMER in units:
            host.order("stop", [TIMER])
        # the files first, so that nothing loads the lists again
        for path in found:
            host.remove(path)
        host.remove_folder(FOLDER)
        for name in tables:
            kernel.delete(name)
        if found:
            host.read_units()
    removed = [{"before_header": path, "after_header": path, "before": file.text or "", "after": ""} for path, file in found.items()]
    return {"changed": bool(actions), "actions": actions, "diff": removed}


def _result(actions: list[str], writes: t.Sequence[ConfigFile], found: t.Mapping[str, PathFound]) -> dict[str, t.Any]:
    diff = [
        {
            "before_header": file.path,
            "after_header": file.path,
            "before": (found[file.path].text or "") if file.path in found else "",
            "after": file.content,
        }
        for file in writes
    ]
    rest = [action for action in actions if not action.startswith("write ")]
    return {"changed": bool(actions), "actions": actions, "diff": [*diff, {"prepared": "".join(f"{line}\n" for line in rest)}]}
