# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and change configuration files and systemd units of this host."""

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
        """Return the existing paths; symbolic links are followed."""
        found = {}
        for name in paths:
            path = pathlib.Path(name)
            try:
                info = path.stat()
                text = path.read_text(encoding="utf-8", errors="surrogateescape") if stat.S_ISREG(info.st_mode) else None
            except (FileNotFoundError, NotADirectoryError):
                continue
            found[name] = PathFound(_user(info.st_uid), _group(info.st_gid), stat.S_IMODE(info.st_mode), info.st_mtime, text)
        return found

    @staticmethod
    def times(paths: t.Iterable[str]) -> dict[str, float]:
        """Return the modification time of each path in seconds since the epoch, 0 for one that does not exist."""
        found = {}
        for name in paths:
            try:
                found[name] = os.stat(name).st_mtime
            except (FileNotFoundError, NotADirectoryError):
                found[name] = 0.0
        return found

    @staticmethod
    def units(names: t.Sequence[str]) -> dict[str, UnitFound]:
        """Return the state of each unit in systemd."""
        if not names:
            return {}
        output = run(["systemctl", "show", "--timestamp=us+utc", f"--property={_PROPERTIES}", "--", *names], timeout=60).stdout
        blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in output.split("\n\n") if block.strip()]
        # an alias is shown with the name of its unit, so the results are matched by order
        return {name: _unit(block) for name, block in zip(names, blocks)}

    @staticmethod
    def make_folder(folder: Folder) -> None:
        """Create a directory with its parents, and set its group and mode."""
        path = pathlib.Path(folder.path)
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, _group_number(folder.group, folder.path))
        os.chmod(path, folder.mode)

    @staticmethod
    def check(file: ConfigFile) -> None:
        """Validate the content of a file with its command before it is written.

        :raises BackendError: the content is not valid; the existing file is not changed.
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
                f"validation of the new content failed: {error.message}.", file.path, "Correct its settings; the existing file was not changed."
            ) from error
        finally:
            os.unlink(name)

    @staticmethod
    def write(file: ConfigFile) -> None:
        """Write a file atomically; a symbolic link is followed and stays a link."""
        write_atomic(os.path.realpath(file.path), file.content, file.mode, (_user_number(file.owner, file.path), _group_number(file.group, file.path)))

    @staticmethod
    def settle(file: ConfigFile) -> None:
        """Set the owner, group and mode of a file."""
        os.chown(file.path, _user_number(file.owner, file.path), _group_number(file.group, file.path))
        os.chmod(file.path, file.mode)

    @staticmethod
    def names(folder: str, ending: str) -> list[str]:
        """Return the names of the files in a directory with this suffix, without the suffix."""
        return sorted(path.name[: -len(ending)] for path in pathlib.Path(folder).glob(f"*{ending}"))

    @staticmethod
    def remove(path: str) -> None:
        """Remove a file if it exists."""
        pathlib.Path(path).unlink(missing_ok=True)

    @staticmethod
    def remove_folder(path: str) -> None:
        """Remove a directory if it exists and is empty."""
        with contextlib.suppress(OSError):
            pathlib.Path(path).rmdir()

    @staticmethod
    def read_units() -> None:
        """Run ``systemctl daemon-reload``."""
        run(["systemctl", "daemon-reload"], timeout=120)

    @staticmethod
    def order(verb: str, names: t.Sequence[str]) -> None:
        """Run ``systemctl VERB`` for each unit.

        :raises BackendError: the command failed.
        """
        for name in names:
            run(["systemctl", verb, "--", name], timeout=_PATIENCE, hint=f"Check `journalctl --unit {name}`.")


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
    """Parse ``Sun 2026-11-22 08:14:31.123456 UTC`` to seconds since the epoch; 0 for an empty timestamp."""
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
        raise BackendError(f"the user {name} does not exist on this host.", path, "Install the package that creates it first.") from error


def _group_number(name: str, path: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise BackendError(f"the group {name} does not exist on this host.", path, "Install the package that creates it first.") from error
