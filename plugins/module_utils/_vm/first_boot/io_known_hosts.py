# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the public SSH host keys of VMs, in the format of OpenSSH's known_hosts.

Entries contain the names of the VMs instead of their addresses, which come from leases and neighbour tables that any host on
the network can forge.
"""

from __future__ import annotations

import pathlib
import shlex
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key

# Ansible parses every file below an inventory directory, except for some suffixes.
NAME = "known_hosts.txt"


def read(path: pathlib.Path) -> dict[str, str]:
    """Return VM name → public key; other lines are ignored."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise model_errors.BackendError(f"cannot be read: {why}.", str(path), "Make the user who runs Ansible its owner.") from error
    found = {}
    for line in text.splitlines():
        name, unused, rest = line.strip().partition(" ")
        key = model_host_key.public_key(rest.strip())
        if key and not name.startswith(("@", "|", "#")):
            found.update({alias: key for alias in name.split(",")})
    return found


def connection_variables(name: str, path: pathlib.Path) -> dict[str, t.Any]:
    """Return host variables that make Ansible's ssh accept only the recorded key of a VM.

    Uses ``GlobalKnownHostsFile``, because the first value of an option takes effect and ``UserKnownHostsFile`` may be set for all hosts.
    """
    options = {"HostKeyAlias": name, "GlobalKnownHostsFile": f'"{path}"', "StrictHostKeyChecking": "yes", "CheckHostIP": "no"}
    words = " ".join(f"-o {shlex.quote(f'{key}={value}')}" for key, value in options.items())
    return {f"ansible_{program}_extra_args": words for program in ("ssh", "sftp", "scp")}
