# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hook of libvirt that refuses the start of a VM which may not run on this host, also of one that a person starts."""

from __future__ import annotations

import inspect
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner, plan_owner

#: For virtual machines, and for containers.
PATHS = tuple(pathlib.Path(f"/etc/libvirt/hooks/{driver}.d/reduced-footprint-owner") for driver in ("qemu", "lxc"))
#: The daemons that call the hook.
DAEMONS = ("virtqemud.service", "virtlxcd.service", "libvirtd.service")

# the standard library, and nothing outside the root file system and /run
_SCRIPT = '''#!/usr/bin/python3 -IS
"""Refuses the start of a VM that may not run on this host, or of which that is not known (reduced.footprint)."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET

HOME, PRESENT, PERMITS = {home!r}, {present!r}, {permits!r}


{refusal}

def problem(document):
    """Return why the VM is not started."""
    uuid = document.findtext("uuid")
    managed = any(each.tag.startswith("{{https://reduced.footprint/") for each in document.findall("metadata/*"))
    try:
        with open(os.path.join(HOME, uuid + ".json"), encoding="utf-8") as stream:
            record = json.load(stream)
        permitted = record["start"] != "free" and os.path.exists(os.path.join(PERMITS, uuid))
        return refusal(record, permitted)
    except FileNotFoundError:
        if not managed:
            return None
        try:
            os.stat(os.path.join(HOME, PRESENT))
            return None
        except OSError as error:
            return f"its record cannot be read: {{error}}"
    except OSError as error:
        return f"its record cannot be read: {{error}}" if managed else None
    except (ValueError, KeyError, TypeError) as error:
        return f"its record is damaged: {{error!r}}"


def main():
    """Exit code 1 refuses the start."""
    if sys.argv[2:3] != ["prepare"]:
        return 0
    why = problem(ET.fromstring(sys.stdin.buffer.read()))
    if why is not None:
        sys.stderr.write(f"{{sys.argv[1]}} must not run here: {{why}}. See {{HOME}}\\n")
    return 1 if why is not None else 0


if __name__ == "__main__":
    raise SystemExit(main())
'''


def files() -> dict[str, tuple[str, int]]:
    """Return text and mode of each file by its path; the mark comes first, since the hook refuses all managed VMs without it."""
    return {str(io_owner.HOME / io_owner.PRESENT): ("", 0o644), **{str(path): (text(), 0o755) for path in PATHS}}


def text() -> str:
    """Return the hook."""
    return _SCRIPT.format(home=str(io_owner.HOME), present=io_owner.PRESENT, permits=str(io_owner.PERMITS), refusal=inspect.getsource(plan_owner.refusal))
