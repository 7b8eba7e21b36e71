# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Use case: read the SSH host key of a VM from a file of the operator, or generate it once."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import secret_name
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import Permit, kept
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key

_FOLDER = "ssh_host_keys"
_SUFFIX = ".key.txt"


def ssh_host_key(
    name: t.Any, directory: pathlib.Path, *, check_mode: bool, decrypt: t.Callable[[str], str], permit: Permit | None = None
) -> str:
    """Return the private key with a name; the first caller generates it.

    :arg check_mode: write nothing; a missing key is generated and discarded, so that check mode shows the change.
    :arg permit: whether it may be generated; ``None`` for always.
    """
    path = directory / f"{secret_name(f'{_FOLDER}/{name}')}{_SUFFIX}"
    text = kept(path, io_certificates.make_ssh_key, check_mode=check_mode, decrypt=decrypt, permit=permit)
    return model_host_key.parse(text or io_certificates.make_ssh_key(), str(path)).private
