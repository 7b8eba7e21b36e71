# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The SSH host key in the root file system of a container: written before its first start, later read."""

from __future__ import annotations

import os

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_tree
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key

_MOST = 64 * 1024
_FOLDER = os.path.join(*model_host_key.FOLDER)


def write(root: str, key: model_host_key.HostKey) -> None:
    """Install a host key."""
    with io_tree.writing("the ssh host key", os.path.join(root, _FOLDER), "Check the base image: etc/ssh must be a folder."):
        tree = io_tree.Tree(root)
        tree.write(f"{_FOLDER}/{model_host_key.PRIVATE_NAME}", key.private, mode=0o600)
        tree.write(f"{_FOLDER}/{model_host_key.PUBLIC_NAME}", f"{key.public}\n", mode=0o644)


def read_public(root: str) -> str | None:
    """Return the ed25519 public key of a container, ``None`` if it has none."""
    try:
        content = io_tree.Tree(root).read(f"{_FOLDER}/{model_host_key.PUBLIC_NAME}", most=_MOST)
        return model_host_key.public_key(content.decode("ascii")) if content else None
    except (OSError, UnicodeDecodeError):
        return None
