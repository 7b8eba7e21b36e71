# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's public SSH keys in the root file system of a new container."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_guest_tree, model_authorized_keys

_MOST = 1024 * 1024


def add(root: str, keys: t.Sequence[str]) -> None:
    """Add keys to those that root accepts already.

    :raises BackendError: they cannot be written, or a folder is a link.
    """
    try:
        with io_guest_tree.folder(root, model_authorized_keys.FOLDER, make=0o700) as folder:
            text = (io_guest_tree.read(folder, model_authorized_keys.NAME, _MOST) or b"").decode("utf-8", "surrogateescape")
            io_guest_tree.replace(folder, model_authorized_keys.NAME, model_authorized_keys.added(text, keys).encode("utf-8", "surrogateescape"))
            os.fsync(folder)
    except OSError as error:
        place = os.path.join(root, *model_authorized_keys.FOLDER)
        raise model_errors.BackendError(
            f"cannot write authorized_keys into {place}: {error.strerror or error}.", hint="Check the base image: root/.ssh must be a folder."
        ) from error
