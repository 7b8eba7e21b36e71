# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Detects full pools from the errors of commands and the kernel, and reports them with sizes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
# xorriso checks before it writes; tar reports only a short write
_MESSAGES = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "exceeds free space on media", ": Wrote only ")


def no_room(error: BaseException) -> bool:
    """Whether an error was caused by a full file system or quota."""
    if isinstance(error, OSError):
        return error.errno in _NUMBERS
    return isinstance(error, model_errors.CommandError) and any(message in error.stderr for message in _MESSAGES)


@contextlib.contextmanager
def explained(pool: model_storage.Pool, what: str, need: t.Callable[[], str | None] = lambda: None) -> t.Iterator[None]:
    """Turn an error caused by a full pool into one with the sizes; partial files must be removed before.

    :arg need: returns its size as text, as far as known; called only after a failure.
    :raises BackendError: the pool is full, with the sizes.
    """
    try:
        yield
    except model_errors.BackendError as error:
        # the folder of a pool of another host is not here
        if pool.remote:
            raise
        if no_room(error) or error.__cause__ is not None and no_room(error.__cause__):
            raise _room_error(pool.name, pool.path, what, need()) from error
        raise


def _room_error(pool: str, folder: str, what: str, needed: str | None) -> model_errors.BackendError:
    space = os.statvfs(folder)
    free, total = model_size.size_text(space.f_bavail * space.f_frsize), model_size.size_text(space.f_blocks * space.f_frsize)
    required = f"{what} needs {needed}, " if needed else f"{what} cannot be created, "
    if space.f_files and space.f_favail == 0:
        text = f"the pool {pool} has no inodes left ({space.f_files} in all): {required}{free} of {total} are free in {folder}."
    else:
        text = f"the pool {pool} has no room left: {required}{free} of {total} are free in {folder}."
    return model_errors.BackendError(text, hint="Free space there or use another pool, then run again. A quota can allow less than the free space.")


def need_of(plan: model_storage.VolumePlan) -> str | None:
    """The size a volume needs immediately, as far as known; a new disk grows later as the guest writes."""
    if plan.image is None:
        return None
    if plan.how == model_storage.UNPACK:
        return f"at least {model_size.size_text(os.path.getsize(plan.image.path))} (the size of the base image {plan.image.name})"
    if plan.how != model_storage.COPY:
        return None
    try:
        argv = ["qemu-img", "measure", "--output=json", "-f", plan.image.format, "-O", "qcow2", plan.image.path]
        size = int(json.loads(io_command.run(argv, timeout=60).stdout)["required"])
    except (model_errors.CommandError, ValueError, KeyError, TypeError):
        return None
    return f"{model_size.size_text(size)} for the content of the base image {plan.image.name}"
