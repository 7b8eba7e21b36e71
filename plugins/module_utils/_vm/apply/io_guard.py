# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of VMs with a standby: libvirt starts one only after the standby, or a witness, confirmed that it was not started there.

A hook of libvirt refuses every start (autostart, virsh, a play) until a permit exists. Permits are below ``/run``, so none survives a
restart of the server: whatever fails afterwards, the VM stays off.
"""

from __future__ import annotations

import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import RUN, private_folder, read_text, sync_path, write_atomic

GUARDED = pathlib.Path("/var/lib/reduced.footprint/standby-guarded")
PERMITS = RUN / "standby"
HOOKS = pathlib.Path("/etc/libvirt/hooks/qemu.d")
HOOK = "reduced-footprint-standby"
# content of a permit
_DUE = "start\n"
#: The daemons that call the hook.
DAEMONS = ("virtqemud.service", "libvirtd.service")

SCRIPT = f"""#!/bin/sh
# Refuses the start of a VM with a standby until it is known that it was not started there (reduced.footprint).
[ "$2" = prepare ] || exit 0
[ -e "{GUARDED}/$1" ] || exit 0
[ -e "{PERMITS}/$1" ] && exit 0
echo "$1 has a standby that has not confirmed yet that the VM does not run there; see systemctl status reduced-footprint-standby-guard" >&2
exit 1
"""


def guard(domain: str, *, permitted: bool) -> None:
    """Guard a VM from now on."""
    if permitted:
        permit(domain)
    GUARDED.mkdir(parents=True, exist_ok=True, mode=0o711)
    write_atomic(GUARDED / domain, "", mode=0o644)
    sync_path(GUARDED)


def permit(domain: str, *, due: bool = False) -> None:
    """Allow starts of a VM until the next restart of this server.

    :arg due: its start was refused after a boot, and is made up for next; see :func:`is_start_due`.
    """
    private_folder(RUN)
    PERMITS.mkdir(exist_ok=True, mode=0o700)
    write_atomic(PERMITS / domain, _DUE if due else "")


def revoke(domain: str) -> None:
    """Refuse starts of a VM."""
    (PERMITS / domain).unlink(missing_ok=True)


def is_guarded(domain: str) -> bool:
    """Whether a VM is guarded."""
    return (GUARDED / domain).exists()


def is_permitted(domain: str) -> bool:
    """Whether a VM may start."""
    return (PERMITS / domain).exists()


def is_start_due(domain: str) -> bool:
    """Whether a VM may start, but was not started since: that failed, or the guard was killed."""
    return read_text(PERMITS / domain) == _DUE


def release(domain: str) -> bool:
    """End the guard of a VM; returns whether there was one."""
    there = is_guarded(domain)
    (GUARDED / domain).unlink(missing_ok=True)
    revoke(domain)
    return there
