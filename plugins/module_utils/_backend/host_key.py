# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ssh host key in the root file system of a container: written before its first start, read from then on."""

from __future__ import annotations

import os

from ansible_collections.reduced.footprint.plugins.module_utils._backend import guest_tree
from ansible_collections.reduced.footprint.plugins.module_utils._model import errors
from ansible_collections.reduced.footprint.plugins.module_utils._model import host_key

_MOST = 64 * 1024


def write(root: str, key: host_key.HostKey) -> None:
    """Install a key.

    :raises BackendError: the file system refused, or a link takes the place of a folder.
    """
    try:
        with guest_tree.folder(root, host_key.FOLDER, make=0o755) as folder:
            guest_tree.replace(folder, host_key.PRIVATE_NAME, key.private.encode("ascii"))
            guest_tree.replace(folder, host_key.PUBLIC_NAME, f"{key.public}\n".encode("ascii"), 0o644)
            os.fsync(folder)
    except OSError as error:
        place = os.path.join(root, *host_key.FOLDER)
        raise errors.BackendError(
            f"cannot write the ssh host key into {place}: {error.strerror or error}.", mend="Check the base image: etc/ssh must be a folder."
        ) from error


def read_public(root: str) -> str | None:
    """The public key of a container, ``None`` where it has none of our type."""
    try:
        with guest_tree.folder(root, host_key.FOLDER) as folder:
            content = guest_tree.read(folder, host_key.PUBLIC_NAME, _MOST)
        return host_key.public_key(content.decode("ascii")) if content else None
    except (OSError, UnicodeDecodeError):
        return None
