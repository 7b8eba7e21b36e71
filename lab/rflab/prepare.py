# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution packages that the lab requires."""

from __future__ import annotations

import os
import shutil
import types
import typing as t

from .say import LabError, run, say, step

# Command of a package -> package.
NEEDS = {
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "apt-ftparchive": "apt-utils",
    "ip": "iproute2",
    "ssh-keygen": "openssh-client",
    "losetup": "mount",
    "mke2fs": "e2fsprogs",
    "setfacl": "acl",
    "setfattr": "attr",
    "setcap": "libcap2-bin",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "tar": "tar",
}
# Only for the cloud image.
IMAGE_NEEDS = {"sfdisk": "fdisk", "mformat": "mtools", "qemu-img": "qemu-utils"}
OTHER = {
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/usr/lib/python3/dist-packages/pymysql": "python3-pymysql",
}


def missing(also: t.Mapping[str, str]) -> list[str]:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    names = [p for c, p in {**NEEDS, **also}.items() if not shutil.which(c, path=path)]
    names += [p for f, p in OTHER.items() if not os.path.exists(f)]
    return sorted(set(names))


def prepare(also: t.Mapping[str, str] = types.MappingProxyType({})) -> None:
    """Install missing packages.

    :arg also: more commands that are needed, with their packages.
    :raises LabError: not root, or a machine without apt.
    """
    if os.geteuid() != 0:
        raise LabError("the lab must run as root to create bridges and mounts", "run it with sudo")
    names = missing(also)
    if not names:
        say("all required packages are installed")
        return
    if not shutil.which("apt-get"):
        raise LabError(f"missing packages: {', '.join(names)}; apt-get is not available", "use Debian or Ubuntu as lab host")
    env = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    with step(f"installing {' '.join(names)}"):
        run(["apt-get", "-q", "update"], env=env)
        run(["apt-get", "-q", "-y", "install", "--no-install-recommends", *names], env=env)
