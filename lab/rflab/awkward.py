# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are difficult to copy, on both file systems of the master."""

from __future__ import annotations

import os
import pathlib

from .say import run


def plant(top: pathlib.Path) -> None:
    """Create hard links, xattrs, ACLs, a capability, sparse files, unusual names and modes."""
    for home in (top / "opt/awkward", top / "srv/awkward"):
        home.mkdir(parents=True)
        (home / "one-of-two").write_text("two names, one file\n")
        os.link(home / "one-of-two", home / "two-of-two")
        (home / "with-xattr").write_text("see user.footprint\n")
        os.setxattr(home / "with-xattr", "user.footprint", b"kept \x00 whole")
        (home / "with-acl").write_text("see getfacl\n")
        run(["setfacl", "-m", "u:33:rw,g:12345:r", str(home / "with-acl")])
        (home / "directory-with-default-acl").mkdir()
        run(["setfacl", "-d", "-m", "u:33:rwx", str(home / "directory-with-default-acl")])
        run(["cp", str(top / "usr/bin/true"), str(home / "with-capability")])
        run(["setcap", "cap_net_raw,cap_net_bind_service=ep", str(home / "with-capability")])
        with open(home / "sparse", "wb") as stream:
            stream.write(b"head")
            stream.seek(256 << 20)
            stream.write(b"tail")
        (home / "smörgåsbord – 朝食 ☕").write_text("a name that is not ASCII\n")
        with open(os.fsencode(home) + b"/latin-1-\xe9", "w", encoding="ascii") as stream:
            stream.write("a name that is not UTF-8\n")
        (home / " two  spaces\tand a\nnewline").write_text("a name with white space\n")
        (home / "-rf").write_text("a name like an option\n")
        os.symlink("/nowhere/at all", home / "dangling")
        os.symlink("one-of-two", home / "symlink")
        os.mkfifo(home / "fifo")
        os.mknod(home / "device-null", 0o020666, os.makedev(1, 3))
        (home / "foreign-owner").write_text("uid 12345, gid 54321\n")
        os.chown(home / "foreign-owner", 12345, 54321)
        (home / "setuid").write_text("mode 4755\n")
        os.chmod(home / "setuid", 0o4755)
        (home / "unreadable").write_text("mode 0000\n")
        os.chmod(home / "unreadable", 0)
        (home / "old").write_text("from 1999, to the nanosecond\n")
        os.utime(home / "old", ns=(946_684_799_123_456_789, 946_684_799_123_456_789))
        os.chmod(home, 0o1751)
