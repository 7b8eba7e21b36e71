# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The libvirt_lxc process of a container on this host, for what libvirt does not report."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import typing as t


def controller(domain: t.Any) -> int | None:
    """The PID of the libvirt_lxc process of a container; ``None`` for a machine, or where libvirt is on another host."""
    if domain.OSType() != "exe":
        return None
    number = domain.ID()
    with contextlib.suppress(OSError):
        if pathlib.Path(f"/proc/{number}/comm").read_text(encoding="utf-8").strip() == "libvirt_lxc":
            return int(number)
    return None


def ended(process: int | None) -> bool:
    """Whether a container's process has ended; false where the process is unknown."""
    return process is not None and not os.path.exists(f"/proc/{process}")


def forgotten(domain: t.Any) -> bool:
    """Whether libvirt on this host reports a container as running whose process has ended: a libvirtd that no longer tracks it does so for ever."""
    return domain.OSType() == "exe" and bool(domain.isActive()) and not os.path.exists(f"/proc/{domain.ID()}")


def ask_systemd(process: int) -> bool:
    """Ask the systemd of a container to power off; false when its init is not systemd.

    libvirt itself supports only the init control pipe, which newer systemd no longer has, and a signal that
    systemd interprets differently.
    """
    try:
        for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split():
            if pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() == "systemd":
                os.kill(int(child), signal.SIGRTMIN + 4)
                return True
    except OSError:
        # it has ended already, or runs on another host
        pass
    return False
