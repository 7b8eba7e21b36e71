# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services and containers of a source: stopped, held, started again."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import ENGINES, Container
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_units

DROP_IN = "zz-reduced-footprint-held.conf"
_DROP_IN_TEXT = (
    "# reduced.footprint: held while the master moves; removed when this machine serves again\n"
    "[Unit]\nConditionPathExists=/run/reduced.footprint/released\n"
)
TRANSIENT = pathlib.Path("/run/systemd/system")
PERSISTENT = pathlib.Path("/etc/systemd/system")
LINGER = pathlib.Path("/var/lib/systemd/linger")
PROC = pathlib.Path("/proc")
_UP = ("active", "activating", "reloading")
_REST, _RETURN = "reduced-footprint-rest.target", "reduced-footprint-return.target"
# seconds to wait for the start of one service before the next one is started anyway; four times that for a common start
_START = 30.0
_CONTAINER_GRACE = 60

Check = t.Callable[[], None]


def _nothing() -> None:
    """Check nothing."""


def list_units() -> list[model_units.Unit]:
    """All loaded services, sockets, timers and paths."""
    kinds = "--type=service,socket,timer,path"
    return model_units.parse_units(run(["systemctl", "list-units", "--all", "--full", "--plain", "--no-legend", "--no-pager", kinds]).stdout)


def everything() -> list[str]:
    """The units that ``services: all`` stops."""
    units = list_units()
    return model_units.units_to_stop(units, _needed([unit.name for unit in units if unit.active in _UP and model_units.is_carrier(unit.name)]))


def user_services() -> dict[str, list[str]]:
    """Services and containers that run below the service managers of users with lingering: user → their units."""
    users = {}
    for name in os.listdir(LINGER) if LINGER.is_dir() else ():
        # one that was removed
        with contextlib.suppress(KeyError):
            users[pwd.getpwnam(name).pw_uid] = name
    found: dict[str, set[str]] = {}
    for path in PROC.glob("[0-9]*/cgroup") if users else ():
        # processes that end meanwhile
        with contextlib.suppress(OSError):
            unit = model_units.user_service(path.read_text("utf-8", "replace"))
            if unit and unit[0] in users:
                found.setdefault(users[unit[0]], set()).add(unit[1])
    return {name: sorted(units) for name, units in sorted(found.items())}


def _needed(units: t.Sequence[str]) -> set[str]:
    """Units whose stop would also stop one of ``units``."""
    found: set[str] = set()
    new = set(units)
    while new:
        wanted = ["Requires", "Requisite", "BindsTo", "PartOf"]
        output = run(["systemctl", "show", *(f"--property={each}" for each in wanted), "--", *sorted(new)], ok=range(256)).stdout
        found |= new
        new = {unit for line in output.splitlines() for unit in line.partition("=")[2].split()} - found
    return found


def states(units: t.Sequence[str]) -> dict[str, str]:
    """ActiveState of units, with a single command to keep the pause short.

    :raises BackendError: systemd did not answer for all of them: a unit without an answer must not count as stopped.
    """
    if not units:
        return {}
    done = run(["systemctl", "show", "--property=ActiveState", "--", *units], ok=range(256))
    lines = done.stdout.split()
    if len(lines) != len(units):
        message = f"systemd on the source reported the state of {len(lines)} of {len(units)} units: {done.stderr.strip() or 'no error message'}"
        raise BackendError(message, hint="Check systemctl status there, then run again.")
    return dict(zip(units, (each.partition("=")[2] for each in lines)))


def up(units: t.Sequence[str]) -> list[str]:
    """The units that are active or becoming active."""
    return [unit for unit, state in states(units).items() if state in _UP]


def _alive(units: t.Sequence[str]) -> list[str]:
    return [unit for unit, state in states(units).items() if state not in ("inactive", "failed")]


def stop(units: t.Sequence[str], *, together: bool, check: Check = _nothing) -> None:
    """Hold units and stop them, in the order given or, with ``together``, in systemd's own.

    :arg check: called before each stop; its exception ends the stops.
    """
    check()
    if together and units:
        write_atomic(TRANSIENT / _REST, model_units.rest_target(units), mode=0o644)
    hold(TRANSIENT, units)
    if together and units:
        run(["systemctl", "start", _REST], timeout=600, ok=range(256))
        units_left = _alive(units)
    else:
        units_left = list(units)
    for unit in units_left:
        check()
        run(["systemctl", "stop", "--", unit], timeout=600)
    alive = _alive(units)
    if alive:
        raise BackendError(f"{', '.join(alive)} did not stop on the source.", hint="List the units that start it (sockets, timers) in services, before it.")


def start(units: t.Sequence[str], *, together: bool) -> list[str]:
    """Start units: one after the other in the order given or, with ``together``, in systemd's own.

    A unit that is slow or fails is skipped, because the return to service must not wait for it.

    :returns: the units that are not running afterwards.
    """
    if together and units:
        write_atomic(TRANSIENT / _RETURN, model_units.return_target(units), mode=0o644)
        run(["systemctl", "daemon-reload"])
        _attempt(["systemctl", "start", _RETURN], 4 * _START)
        run(["systemctl", "stop", _RETURN], ok=range(256))
        (TRANSIENT / _RETURN).unlink(missing_ok=True)
    else:
        for unit in units:
            _attempt(["systemctl", "start", "--", unit], _START)
    try:
        running = up(units)
    except BackendError:
        # reported as failed: an unknown state must not keep the source from serving
        running = []
    return [unit for unit in units if unit not in running]


def _attempt(argv: t.Sequence[str], timeout: float) -> None:
    with contextlib.suppress(CommandError):
        run(argv, timeout=timeout, ok=range(256))


def hold(base: pathlib.Path, units: t.Sequence[str]) -> None:
    """Keep units from starting, whatever triggers them."""
    for unit in units:
        write_atomic(base / f"{unit}.d" / DROP_IN, _DROP_IN_TEXT, mode=0o644)
    run(["systemctl", "daemon-reload"])


def release(units: t.Sequence[str]) -> None:
    """Let units start again, also after a power loss: once the state says that the source serves, no boot releases them."""
    changed = set()
    for base in (TRANSIENT, PERSISTENT):
        for unit in units:
            folder = base / f"{unit}.d"
            if (folder / DROP_IN).exists():
                (folder / DROP_IN).unlink(missing_ok=True)
                changed |= {base, folder} if base == PERSISTENT else set()
            with contextlib.suppress(OSError):
                folder.rmdir()
    for each in changed:
        # some of them are removed by now
        with contextlib.suppress(OSError):
            sync_path(each)
    (TRANSIENT / _REST).unlink(missing_ok=True)
    run(["systemctl", "daemon-reload"])


def container_state(container: Container) -> str:
    """``running``, ``stopped``, ``missing`` or ``no engine``."""
    if shutil.which(container.engine) is None:
        return "no engine"
    argv = [container.engine, "container", "inspect", "--format", "{{.State.Running}}", container.name]
    done = run(argv, timeout=60, ok=range(256))
    if done.rc != 0:
        return "missing"
    return "running" if done.stdout.strip() == "true" else "stopped"


def running_containers() -> list[Container]:
    """All running containers of all installed engines."""
    found = []
    for engine in ENGINES:
        if shutil.which(engine) is None:
            continue
        # an engine whose daemon is not running has no running containers
        done = run([engine, "ps", "--format", "{{.Names}}"], timeout=60, ok=range(256))
        if done.rc == 0:
            found += [Container(engine, name.split(",")[0]) for name in done.stdout.split()]
    return found


def stop_containers(containers: t.Sequence[Container], check: Check = _nothing) -> None:
    """Stop containers in the order given.

    :arg check: called before each stop; its exception ends the stops.
    """
    for each in containers:
        check()
        run(
            [each.engine, "stop", "-t", str(_CONTAINER_GRACE), each.name],
            timeout=2 * _CONTAINER_GRACE,
            hint=f"Stop it manually: {each.engine} stop {each.name}.",
        )
        if container_state(each) == "running":
            raise BackendError(
                f"The container {each.name} did not stop on the source.", hint="Change its restart policy, or list the service that starts it in services."
            )


def start_containers(containers: t.Sequence[Container]) -> list[str]:
    """Start containers in the order given; returns the names of those that are not running afterwards."""
    for each in containers:
        _attempt([*model_units.IN_A_SCOPE, each.engine, "start", each.name], _START)
    return [each.name for each in containers if container_state(each) != "running"]
