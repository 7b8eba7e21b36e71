# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool without room: recognised in what commands and the kernel say, and reported with the sizes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_command, model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

_NUMBERS = (errno.ENOSPC, errno.EDQUOT)
# xorriso asks before it writes; tar tells of a short write only
_WORDS = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT), "exceeds free space on media", ": Wrote only ")


def no_room(error: BaseException) -> bool:
    """Whether something failed because a file system or a quota is full."""
    if isinstance(error, OSError):
        return error.errno in _NUMBERS
    return isinstance(error, model_errors.CommandError) and any(words in error.stderr for words in _WORDS)


@contextlib.contextmanager
def explained(pool: model_storage.Pool, what: str, need: t.Callable[[], str | None] = lambda: None) -> t.Iterator[None]:
    """Turn an error that comes from a full pool into one that says so; what was half made must be gone when it gets here.

    :arg what: the path that is to be created.
    :arg need: its size for a person, as far as it is known; asked only after a failure.
    :raises BackendError: the pool is full, with the sizes.
    """
    try:
        yield
    except model_errors.BackendError as error:
        if no_room(error) or error.__cause__ is not None and no_room(error.__cause__):
            raise _room_error(pool.name, pool.path, what, need()) from error
        raise


def _room_error(pool: str, folder: str, what: str, needed: str | None) -> model_errors.BackendError:
    space = os.statvfs(folder)
    free, total = model_size.size_text(space.f_bavail * space.f_frsize), model_size.size_text(space.f_blocks * space.f_frsize)
    wants = f"{what} needs {needed}, " if needed else f"{what} cannot be created, "
    if space.f_files and space.f_favail == 0:
        text = f"the pool {pool} has no inodes left ({space.f_files} in all): {wants}{free} of {total} are free in {folder}."
    else:
        text = f"the pool {pool} has no room left: {wants}{free} of {total} are free in {folder}."
    return model_errors.BackendError(text, hint="Free room there or use another pool, then run again. A quota may allow less than what is free.")


def need_of(plan: model_storage.VolumePlan) -> str | None:
    """What a volume needs at once, as far as it is known; a new disk grows to its size with what a guest writes."""
    if plan.image is None:
        return None
    if plan.how == model_storage.UNPACK:
        return f"at least {model_size.size_text(os.path.getsize(plan.image.path))} (the size of the base image {plan.image.name})"
    if plan.how != model_storage.COPY:
        return None
    try:
        argv = ["qemu-img", "measure", "--output=json", "-f", plan.image.format, "-O", "qcow2", plan.image.path]
        required = int(json.loads(io_command.run(argv, timeout=60).stdout)["required"])
    except (model_errors.CommandError, ValueError, KeyError, TypeError):
        return None
    return f"{model_size.size_text(required)} for the content of the base image {plan.image.name}"
