# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's public SSH keys in the root file system of a new container."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_tree
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_authorized_keys

_MOST = 1024 * 1024


def add(root: str, keys: t.Sequence[str]) -> None:
    """Add keys to those that root accepts already."""
    folder = os.path.join(*model_authorized_keys.FOLDER)
    with io_tree.writing("authorized_keys", os.path.join(root, folder), "Check the base image: root/.ssh must be a folder."):
        tree, path = io_tree.Tree(root), f"{folder}/{model_authorized_keys.NAME}"
        text = (tree.read(path, most=_MOST) or b"").decode("utf-8", "surrogateescape")
        tree.write(path, model_authorized_keys.added(text, keys), mode=0o600, folder_mode=0o700)
