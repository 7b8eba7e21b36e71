# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files and units of this host, as services have them."""

from __future__ import annotations

import contextlib
import datetime
import grp
import os
import pathlib
import pwd
import stat
import tempfile
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import ConfigFile, Folder, PathFound, UnitFound

_PROPERTIES = "LoadState,ActiveState,UnitFileState,ExecMainStartTimestamp,ActiveEnterTimestamp,StateChangeTimestamp,NeedDaemonReload"
_PATIENCE = 600


class ServiceHost:
    """This host."""

    @staticmethod
    def paths(paths: t.Iterable[str]) -> dict[str, PathFound]:
        """Those that exist; a link is what it leads to."""
        found = {}
        for name in paths:
            path = pathlib.Path(name)
            try:
                there = path.stat()
                text = path.read_text(encoding="utf-8", errors="surrogateescape") if stat.S_ISREG(there.st_mode) else None
            except (FileNotFoundError, NotADirectoryError):
                continue
            found[name] = PathFound(_user(there.st_uid), _group(there.st_gid), stat.S_IMODE(there.st_mode), there.st_mtime, text)
        return found

    @staticmethod
    def times(paths: t.Iterable[str]) -> dict[str, float]:
        """When each of them was written, seconds since the epoch; 0 for one that is not there."""
        found = {}
        for name in paths:
            try:
                found[name] = os.stat(name).st_mtime
            except (FileNotFoundError, NotADirectoryError):
                found[name] = 0.0
        return found

    @staticmethod
    def units(names: t.Sequence[str]) -> dict[str, UnitFound]:
        """What systemd knows of each unit."""
        if not names:
            return {}
        said = run(["systemctl", "show", "--timestamp=us+utc", f"--property={_PROPERTIES}", "--", *names], timeout=60).stdout
        blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in said.split("\n\n") if block.strip()]
        # an alias answers by its own name, so they are told apart by their order
        return {name: _unit(block) for name, block in zip(names, blocks)}

    @staticmethod
    def make_folder(folder: Folder) -> None:
        """Make it with those above it, or set its group and mode."""
        path = pathlib.Path(folder.path)
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, _group_number(folder.group, folder.path))
        os.chmod(path, folder.mode)

    @staticmethod
    def check(file: ConfigFile) -> None:
        """Have the program look at a file before it is used.

        :raises BackendError: it does not like it; what is there is not touched.
        """
        if not file.validate:
            return
        handle, name = tempfile.mkstemp(prefix="footprint-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(file.content)
            run([name if word == "%s" else word for word in file.validate], timeout=60)
        except CommandError as error:
            raise BackendError(
                f"the new text is refused: {error.message}.", file.path, "Correct the settings it is made of; what was there before is in place."
            ) from error
        finally:
            os.unlink(name)

    @staticmethod
    def write(file: ConfigFile) -> None:
        """Write it whole; one that is a link stays a link."""
        write_atomic(os.path.realpath(file.path), file.content, file.mode, (_user_number(file.owner, file.path), _group_number(file.group, file.path)))

    @staticmethod
    def settle(file: ConfigFile) -> None:
        """Set its owner and mode."""
        os.chown(file.path, _user_number(file.owner, file.path), _group_number(file.group, file.path))
        os.chmod(file.path, file.mode)

    @staticmethod
    def names(folder: str, ending: str) -> list[str]:
        """The files of a folder with such an ending, without it."""
        return sorted(path.name[: -len(ending)] for path in pathlib.Path(folder).glob(f"*{ending}"))

    @staticmethod
    def remove(path: str) -> None:
        """Remove a file; one that is gone is no error."""
        pathlib.Path(path).unlink(missing_ok=True)

    @staticmethod
    def remove_folder(path: str) -> None:
        """Remove an empty folder; one that is gone, or has something in it, is left as it is."""
        with contextlib.suppress(OSError):
            pathlib.Path(path).rmdir()

    @staticmethod
    def read_units() -> None:
        """Let systemd read its units anew."""
        run(["systemctl", "daemon-reload"], timeout=120)

    @staticmethod
    def order(verb: str, names: t.Sequence[str]) -> None:
        """``systemctl VERB`` for one after the other.

        :raises BackendError: one of them did not do it.
        """
        for name in names:
            run(["systemctl", verb, "--", name], timeout=_PATIENCE, hint=f"Look at journalctl --unit {name}.")


def _unit(block: t.Mapping[str, str]) -> UnitFound:
    started = _seconds(block.get("ExecMainStartTimestamp")) or _seconds(block.get("ActiveEnterTimestamp"))
    return UnitFound(
        known=block.get("LoadState") not in (None, "not-found"),
        active=block.get("ActiveState") in ("active", "reloading", "activating"),
        enabled=block.get("UnitFileState") in ("enabled", "static", "indirect", "alias", "generated"),
        started=started,
        settled=max(started, _seconds(block.get("StateChangeTimestamp"))),
        unread=block.get("NeedDaemonReload") == "yes",
        masked=block.get("LoadState") == "masked",
    )


def _seconds(text: str | None) -> float:
    """From ``Sun 2026-11-22 08:14:31.123456 UTC``; 0 for what never was."""
    try:
        found = datetime.datetime.strptime((text or "").partition(" ")[2], "%Y-%m-%d %H:%M:%S.%f UTC")
    except ValueError:
        return 0.0
    return found.replace(tzinfo=datetime.timezone.utc).timestamp()


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


def _user_number(name: str, path: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError as error:
        raise BackendError(f"there is no user {name} on this host.", path, "Install what brings it first.") from error


def _group_number(name: str, path: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise BackendError(f"there is no group {name} on this host.", path, "Install what brings it first.") from error
