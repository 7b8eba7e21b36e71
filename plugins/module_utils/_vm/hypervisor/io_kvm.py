# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What KVM needs on this host: QEMU and the device."""

from __future__ import annotations

import os
import platform
import shutil

KVM_DEVICE = "/dev/kvm"

# on RHEL QEMU is not in the search path
_QEMU = ("qemu-system-{arch}", "/usr/libexec/qemu-kvm")


def qemu_binary() -> str | None:
    """Return the path of QEMU for guests of this architecture, ``None`` if it is not installed."""
    for name in _QEMU:
        path = shutil.which(name.format(arch=platform.machine()))
        if path:
            return path
    return None


def has_kvm_device() -> bool:
    """Whether the KVM device exists, usable or not."""
    return os.path.exists(KVM_DEVICE)
