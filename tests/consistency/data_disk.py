# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file system for the data of a simulated server, which a power loss interrupts like that of a real one: what was not synchronised is gone.

Killing all processes of a machine keeps what they have written, because its file systems belong to the kernel of the machine of the lab.
"""

from __future__ import annotations

import fcntl
import os
import struct

from rflab import machines
from rflab.say import run
from rflab.settings import Lab, Machine

SIZE = "3G"
#: The databases, what the guard of a member has recorded, and the messages, below /var/lib.
FOLDERS = ("mysql", "footprint-galera", "rabbitmq")
#: EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: the file system stops without writing its journal or its pages.
SHUTDOWN, WITHOUT_FLUSH = 0x8004587D, 2


class DataDisk:
    """The file system of one server; it is mounted and unmounted while the server is off."""

    def __init__(self, lab: Lab, machine: Machine) -> None:
        home = machines.home(lab, machine)
        self._image, self._point = home / "data.img", home / "data"
        self._folders = [(self._point / name, machines.root(lab, machine) / "var" / "lib" / name) for name in FOLDERS]

    def create(self) -> None:
        """Create an empty one."""
        run(["truncate", f"--size={SIZE}", str(self._image)])
        run(["mkfs.ext4", "-q", "-F", "-m", "0", str(self._image)])
        self._point.mkdir(exist_ok=True)
        self.mount()

    def mount(self) -> None:
        """Mount it, with the repair that follows a power loss."""
        run(["mount", "-t", "ext4", "-o", "loop", str(self._image), str(self._point)])
        for folder, target in self._folders:
            folder.mkdir(exist_ok=True)
            target.mkdir(exist_ok=True)
            run(["mount", "--bind", str(folder), str(target)])

    def stop(self) -> None:
        """Stop it under its users, without what was not synchronised."""
        descriptor = os.open(self._point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Unmount it, and continue with a copy of what is on the disk: another mount namespace of this machine may keep the stopped file system."""
        for target in (*(target for _folder, target in self._folders), self._point):
            run(["umount", str(target)])
        copy = self._image.with_suffix(".copy")
        run(["cp", "--sparse=always", "--reflink=auto", str(self._image), str(copy)])
        copy.replace(self._image)
