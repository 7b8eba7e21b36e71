# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SSH host key in the root file system of a container: written before its first start, later read."""

from __future__ import annotations

import os

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_guest_tree, model_host_key

_MOST = 64 * 1024


def write(root: str, key: model_host_key.HostKey) -> None:
    """Install a host key.

    :raises BackendError: it cannot be written, or a folder is a link.
    """
    try:
        with io_guest_tree.folder(root, model_host_key.FOLDER, make=0o755) as folder:
            io_guest_tree.replace(folder, model_host_key.PRIVATE_NAME, key.private.encode("ascii"))
            io_guest_tree.replace(folder, model_host_key.PUBLIC_NAME, f"{key.public}\n".encode("ascii"), 0o644)
            os.fsync(folder)
    except OSError as error:
        place = os.path.join(root, *model_host_key.FOLDER)
        raise model_errors.BackendError(
            f"cannot write the ssh host key into {place}: {error.strerror or error}.", hint="Check the base image: etc/ssh must be a folder."
        ) from error


def read_public(root: str) -> str | None:
    """Return the ed25519 public key of a container, ``None`` if it has none."""
    try:
        with io_guest_tree.folder(root, model_host_key.FOLDER) as folder:
            content = io_guest_tree.read(folder, model_host_key.PUBLIC_NAME, _MOST)
        return model_host_key.public_key(content.decode("ascii")) if content else None
    except (OSError, UnicodeDecodeError):
        return None
