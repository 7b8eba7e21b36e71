# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Everything below a directory that a faithful copy keeps, as JSON: path → facts. Runs on the machine itself.

What lives (databases, logs, state of running services) and what a move has to change (boot, fstab, NIC pinning)
is left out; see LIVING, CHANGED and BEHIND.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys

LIVING = ("proc", "sys", "dev", "run", "tmp", "var/tmp", "var/log", "var/lib/mysql", "srv/mysql", "var/lib/systemd", "var/lib/misc",
          "var/cache", "lost+found", "srv/lost+found", "root")
# What parks the source, and the tools of the move, stay behind.
BEHIND = ("var/lib/reduced.footprint", "etc/systemd/system/footprint-api.service.d")
PARKED = ("zz-reduced-footprint-held.conf", "reduced-footprint-")
CHANGED = (*BEHIND, "boot", "etc/fstab", "etc/systemd/network", "etc/udev", "etc/initramfs-tools", "etc/default/grub.d", "etc/cloud", "etc/mtab",
           "etc/machine-info", "etc/modules-load.d", "etc/systemd/system.conf.d", "etc/resolv.conf", "usr/lib/modules", "etc/ld.so.cache", "etc/.pwd.lock",
           "var/lib/initramfs-tools", "var/lib/dbus", "usr/share/mime")


def facts_of(path: str, first_of_inode: dict[tuple[int, int], str], relative: str) -> dict[str, object]:
    status = os.lstat(path)
    kinds = []
    facts: dict[str, object] = {"mode": status.st_mode, "owner": [status.st_uid, status.st_gid]}
    attributes = {}
    for name in sorted(os.listxattr(path, follow_symlinks=False)):
        if name.startswith(("user.", "system.posix_acl", "security.capability")):
            attributes[name] = os.getxattr(path, name, follow_symlinks=False).hex()
            kinds.append({"use": "xattr", "sys": "acl", "sec": "capability"}[name[:3]])
    facts["xattrs"] = attributes
    if stat.S_ISLNK(status.st_mode):
        facts["target"] = os.readlink(path)
    if stat.S_ISREG(status.st_mode):
        facts["time"] = int(status.st_mtime)
        facts["size"] = status.st_size
        with open(path, "rb") as stream:
            facts["content"] = hashlib.file_digest(stream, "sha256").hexdigest()
        if status.st_nlink > 1:
            facts["same as"] = first_of_inode.setdefault((status.st_dev, status.st_ino), relative)
            kinds.append("hard link")
        if status.st_size > 1 << 20 and status.st_blocks * 512 < status.st_size // 2:
            kinds.append("sparse")
    facts["kinds"] = kinds
    return facts


def main() -> None:
    root = sys.argv[1]
    manifest, inodes = {}, {}
    for directory, names, files in os.walk(root):
        here = os.path.relpath(directory, root)
        here = "" if here == "." else here + "/"
        names[:] = sorted(name for name in names if here + name not in LIVING + CHANGED)
        for name in sorted(names + files):
            if here + name not in LIVING + CHANGED and not (here.startswith("etc/systemd/system/") and name.startswith(PARKED)):
                manifest[here + name] = facts_of(os.path.join(directory, name), inodes, here + name)
    json.dump(manifest, sys.stdout)


if __name__ == "__main__":
    main()
