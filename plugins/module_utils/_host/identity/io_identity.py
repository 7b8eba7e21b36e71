# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of this machine, and the folder of a host's records about servers."""

from __future__ import annotations

import os
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import Machine

HOME = pathlib.Path("/var/lib/reduced.footprint/servers")


def here(root: str = "/") -> Machine:
    """Return the identity of this machine; values that it does not have are empty."""
    found = []
    for path in ("etc/machine-id", "sys/class/dmi/id/product_uuid"):
        try:
            found.append((read_text(os.path.join(root, path)) or "").strip().lower())
        except OSError:
            # not every firmware has one, and not every user may read it
            found.append("")
    return Machine(*found)
