# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detached workers: a copy of this collection's code on the host, and a systemd unit that runs it.

A module's code is removed when the module ends, so its zip is copied to a permanent file
named by its content.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import sys
import typing as t
import zipfile

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_folder, make_link, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError

LIBRARY = pathlib.Path("/var/lib/reduced.footprint/lib")
UNITS = pathlib.Path("/etc/systemd/system")
_PACKAGE = "ansible_collections/reduced/footprint/plugins/module_utils"


def keep_code(library: pathlib.Path = LIBRARY) -> pathlib.Path:
    """Store a zip with the running code at a permanent path, and return the path.

    :raises BackendError: the code cannot be found.
    """
    content = _own_code()
    target = _code_path(content, library)
    if not target.exists():
        make_folder(library, 0o700)
        write_atomic(target, content)
    return target


def code_path(library: pathlib.Path = LIBRARY) -> pathlib.Path:
    """Return the path that :func:`keep_code` would return, without storing anything."""
    return _code_path(_own_code(), library)


def _code_path(content: bytes, library: pathlib.Path) -> pathlib.Path:
    return library / f"{hashlib.sha256(content).hexdigest()[:32]}.zip"


def _own_code() -> bytes:
    # from the zip a module runs from (or one stored here earlier), or from a plain folder
    archive, found, _inside = __file__.partition(".zip" + os.sep)
    files: dict[str, bytes] = {}
    if found:
        with zipfile.ZipFile(f"{archive}.zip") as source:
            for name in source.namelist():
                if name.startswith(f"{_PACKAGE}/") and name.endswith(".py"):
                    files[name] = source.read(name)
    else:
        base = pathlib.Path(__file__).resolve().parents[1]
        for path in base.glob("_*/**/*.py"):
            files[f"{_PACKAGE}/{path.relative_to(base)}"] = path.read_bytes()
    if not files:
        raise BackendError(f"The module's code was not found at {__file__}.")
    parts = _PACKAGE.split("/")
    for depth in range(1, len(parts) + 1):
        files.setdefault("/".join(parts[:depth]) + "/__init__.py", b"")
    for name in list(files):
        files.setdefault(name.rsplit("/", 1)[0] + "/__init__.py", b"")
    return _pack(files)


def _pack(files: t.Mapping[str, bytes]) -> bytes:
    """Pack files reproducibly: the same files give the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), files[name], zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def unit_name(name: str) -> str:
    """The unit of a migration's worker."""
    return f"reduced-footprint-migrate-{name}.service"


def unit_active(unit: str) -> bool:
    """Whether a unit runs, starts or stops."""
    done = run(["systemctl", "show", "--property=ActiveState", "--", unit], ok=range(256))
    return done.stdout.strip() in ("ActiveState=active", "ActiveState=activating", "ActiveState=deactivating", "ActiveState=reloading")


def start_unit(
    name: str,
    code: pathlib.Path,
    module: str,
    arguments: t.Sequence[str],
    log: pathlib.Path,
    *,
    unit: str | None = None,
    description: str = "Migration of the master",
    at_boot: bool = False,
    restarts: int | None = 5,
    more: t.Sequence[str] = (),
) -> None:
    """Start the worker detached; systemd restarts a killed worker.

    :arg unit: name of the unit; the default is that of a master's migration.
    :arg restarts: limit of restarts in ten minutes, ``None`` for unlimited.
    :arg at_boot: also start it after a reboot of this host, until :func:`forget_at_boot`.
    :raises CommandError: systemd does not start it, for example because the unit already runs.
    """
    unit = unit or unit_name(name)
    run(["systemctl", "reset-failed", unit], ok=range(256))
    argv = [
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        f"--description={description} {name} (reduced.footprint)",
        # private mounts, removed with the unit
        "--property=PrivateMounts=yes",
        # a container of the worker has control groups below those of the unit
        "--property=Delegate=yes",
        "--property=Restart=on-abnormal",
        "--property=RestartSec=1",
        *(["--property=StartLimitIntervalSec=0"] if restarts is None else ["--property=StartLimitIntervalSec=600", f"--property=StartLimitBurst={restarts}"]),
        "--property=UMask=0077",
        "--property=WorkingDirectory=/",
        f"--property=StandardError=append:{log}",
        f"--property=StandardOutput=append:{log}",
        *(f"--property={each}" for each in more),
        f"--setenv=PYTHONPATH={code}",
        "--setenv=PYTHONDONTWRITEBYTECODE=1",
        sys.executable,
        "-m",
        module,
        *arguments,
    ]
    if at_boot:
        # before the worker, which removes it at its end
        _start_at_boot(unit, argv)
    try:
        run(argv)
    except CommandError:
        if at_boot and not unit_active(unit):
            forget_at_boot(unit)
        raise


def boot_unit(unit: str) -> str:
    """The unit that starts another unit at boot."""
    return f"{unit.rpartition('.')[0]}-at-boot.service"


def _start_at_boot(unit: str, argv: t.Sequence[str], units: pathlib.Path | None = None) -> None:
    units = units or UNITS
    text = (
        f"[Unit]\nDescription=Continue {unit} after a restart of this host\n"
        "Wants=network-online.target\n"
        "After=network-online.target ssh.service sshd.service libvirtd.service virtqemud.service virtlxcd.service\n\n"
        f"[Service]\nType=oneshot\nExecStart=/usr/bin/env {' '.join(_quoted(word) for word in argv)}\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    write_atomic(units / boot_unit(unit), text, mode=0o644)
    make_link(units / "multi-user.target.wants" / boot_unit(unit), units / boot_unit(unit))


def _quoted(word: str) -> str:
    """Quote an argument for a unit's command line, where systemd expands specifiers and variables."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$") + '"'


def forget_at_boot(unit: str, units: pathlib.Path | None = None) -> None:
    """Remove the unit that starts the worker at boot."""
    units = units or UNITS
    # the link first: a link without its file is broken, a file without a link is disabled
    wants = units / "multi-user.target.wants"
    if (wants / boot_unit(unit)).is_symlink():
        (wants / boot_unit(unit)).unlink(missing_ok=True)
        # after a power loss a worker whose work is done must not start again
        sync_path(wants)
    (units / boot_unit(unit)).unlink(missing_ok=True)
