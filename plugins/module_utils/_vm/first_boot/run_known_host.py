# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: record the public host key of a server or VM in a known_hosts file."""

from __future__ import annotations

import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, io_lock, model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import plan_known_hosts


class KnownHostResult(t.NamedTuple):
    """The text of the file before and afterwards (in check mode after a real run)."""

    before: str
    after: str

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the module."""
        return {"changed": self.before != self.after, "diff": {"before": self.before, "after": self.after}}


def record(params: t.Mapping[str, t.Any], check_mode: bool) -> KnownHostResult:
    """Record the key of a host; concurrent runs wait for each other, also those in containers that share the folder."""
    name, key = plan_known_hosts.check_name(params["name"]), plan_known_hosts.parse_key(params["key"])
    # a link remains
    path = pathlib.Path(os.path.realpath(params["path"]))
    try:
        if check_mode:
            return _planned(path, name, key, params["exclusive"])
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with io_lock.file_lock(path.with_name(f".{path.name}.lock"), params["lock_timeout"]):
            result = _planned(path, name, key, params["exclusive"])
            if result.before != result.after:
                kept = path.stat() if path.exists() else None
                owner = (kept.st_uid, kept.st_gid) if kept and os.geteuid() == 0 else None
                io_files.write_atomic(path, result.after, kept.st_mode & 0o777 if kept else 0o600, owner)
            return result
    except OSError as error:
        raise model_errors.BackendError(
            f"cannot be read or written: {error.strerror}.", str(path), "Make the user who runs Ansible the owner of it and its directory."
        ) from error


def _planned(path: pathlib.Path, name: str, key: str, exclusive: bool) -> KnownHostResult:
    before = io_files.read_text(path) or ""
    return KnownHostResult(before, plan_known_hosts.recorded(before, name, key, exclusive))
