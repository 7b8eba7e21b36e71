#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Corpus of files that are difficult to copy. Runs on the machine itself, uses the standard library only.

``corpus.py plant DIR`` creates them, ``corpus.py describe DIR`` prints a manifest as JSON: content hash, type, owner,
mode, times, extended attributes (ACLs and capabilities among them), hard links, sparseness, flags. ``corpus.py flag DIR``
makes some of them immutable or append-only; they can be removed only after ``corpus.py unflag DIR``; ``corpus.py change DIR``
rewrites one of them for ten seconds.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import socket
import stat
import struct
import sys
import time

ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, permission, identity)
    for tag, permission, identity in ((1, 6, 0xFFFFFFFF), (2, 7, 1234), (4, 4, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF))
)
# cap_net_raw+ep, revision 2
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)

# FS_IMMUTABLE_FL, FS_APPEND_FL
FLAGGED = {"flagged/immutable": 0x10, "flagged/append-only": 0x20, "flagged": 0x10}


def flags_of(path: str, give: int | None = None) -> int:
    """Return the flags of a file or folder; set the flags ``give``, if given."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        buffer = bytearray(8)
        fcntl.ioctl(handle, 0x80086601, buffer)
        before = int.from_bytes(buffer[:4], sys.byteorder)
        if give is not None:
            fcntl.ioctl(handle, 0x40086602, (before & ~0x30 | give).to_bytes(8, sys.byteorder))
        return before & 0x30
    except OSError:
        # some file systems have none
        return 0
    finally:
        os.close(handle)


def flag(base: str, on: bool) -> None:
    """Set or clear the flags of immutable and append-only files in a folder that is immutable itself."""
    inner = os.path.join(base, "flagged")
    if on and not os.path.isdir(inner):
        os.mkdir(inner)
        for name in list(FLAGGED)[:2]:
            with open(os.path.join(base, name), "wb") as stream:
                stream.write(name.encode())
    for name, value in FLAGGED.items() if on else reversed(FLAGGED.items()):
        if os.path.exists(os.path.join(base, name)):
            flags_of(os.path.join(base, name), value if on else 0)


def change(base: str) -> None:
    """Rewrite a file in place again and again, its size and its time kept as they are."""
    path = os.path.join(base, "changes")
    until = time.monotonic() + 10
    with open(path, "wb") as stream:
        stream.write(bytes(4 << 20))
    while time.monotonic() < until:
        with open(path, "r+b") as stream:
            stream.seek(int.from_bytes(os.urandom(2), "big") * 64)
            stream.write(os.urandom(64))
        os.utime(path, ns=(1, 1_000_000_001))
        time.sleep(0.01)


def plant(base: str) -> None:
    """Make every kind of file once."""
    os.makedirs(base, exist_ok=True)

    def write(name: str, content: bytes) -> str:
        path = os.path.join(base, name)
        with open(path, "wb") as stream:
            stream.write(content)
        return path

    first = write("hard-link-1", b"one inode, three names")
    for name in ("hard-link-2", "hard-link-3"):
        if not os.path.exists(os.path.join(base, name)):
            os.link(first, os.path.join(base, name))
    os.setxattr(write("xattr", b"x"), "user.footprint", b"\x00\x01binary\xff")
    os.setxattr(write("acl", b"a"), "system.posix_acl_access", ACL)
    path = write("capability", b"#!/bin/true\n")
    os.chmod(path, 0o755)
    os.setxattr(path, "security.capability", CAPABILITY)
    with open(os.path.join(base, "sparse"), "wb") as stream:
        stream.seek(512 * 1024 * 1024)
        stream.write(b"end")
    os.chown(write("owner", b"o"), 12345, 54321)
    os.chmod(write("setuid", b"s"), 0o6711)
    write("newline\nin name", b"n")
    write("non-utf8-\udcff\udcfe".encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape"), b"b")
    write(" leading and trailing ", b"b")
    write("*?[glob]", b"g")
    write("empty", b"")
    os.utime(write("old", b"o"), ns=(1, 1_000_000_001))
    if not os.path.lexists(os.path.join(base, "dangling")):
        os.symlink("/nowhere/at/all", os.path.join(base, "dangling"))
    for name, mode, device in (
        ("fifo", stat.S_IFIFO | 0o600, 0),
        ("character", stat.S_IFCHR | 0o600, os.makedev(1, 3)),
        ("block", stat.S_IFBLK | 0o600, os.makedev(7, 0)),
    ):
        if not os.path.lexists(os.path.join(base, name)):
            os.mknod(os.path.join(base, name), mode, device)
    if not os.path.lexists(os.path.join(base, "socket")):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(base, "socket"))
    deep = base
    for number in range(40):
        deep = os.path.join(deep, f"deep-{number:02d}")
    os.makedirs(deep, exist_ok=True)
    write(os.path.relpath(os.path.join(deep, "bottom"), base), b"b")


def describe(base: str) -> dict:
    """The manifest: path → everything that belongs to the file."""
    manifest = {}
    links: dict = {}
    for folder, folders, files in os.walk(base):
        for name in folders + files:
            path = os.path.join(folder, name)
            found = os.lstat(path)
            entry = {
                "mode": oct(found.st_mode),
                "owner": [found.st_uid, found.st_gid],
                "links": found.st_nlink if not stat.S_ISDIR(found.st_mode) else None,
                "xattrs": {each: os.getxattr(path, each, follow_symlinks=False).hex() for each in sorted(os.listxattr(path, follow_symlinks=False))},
                "device": found.st_rdev if stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode) else None,
            }
            inner = os.path.relpath(path, base).encode("utf-8", "surrogateescape").hex()
            if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
                entry["flags"] = flags_of(path)
            if stat.S_ISREG(found.st_mode):
                entry["size"], entry["modified"] = found.st_size, found.st_mtime_ns
                entry["sparse"] = found.st_blocks * 512 < found.st_size // 2
                entry["same_inode_as"] = links.setdefault(found.st_ino, inner)
                digest = hashlib.sha256()
                with open(path, "rb") as stream:
                    for block in iter(lambda: stream.read(1 << 20), b""):
                        digest.update(block)
                entry["sha256"] = digest.hexdigest()
            elif stat.S_ISLNK(found.st_mode):
                entry["target"] = os.readlink(path)
            manifest[inner] = entry
    # whichever name of an inode was met first, the group is the same
    groups: dict = {}
    for inner, entry in manifest.items():
        if "same_inode_as" in entry:
            groups.setdefault(entry["same_inode_as"], []).append(inner)
    for members in groups.values():
        for inner in members:
            manifest[inner]["same_inode_as"] = min(members)
    return manifest


ACTIONS = {
    "plant": plant,
    "flag": lambda base: flag(base, True),
    "unflag": lambda base: flag(base, False),
    "change": change,
    "describe": lambda base: json.dump(describe(base), sys.stdout, sort_keys=True),
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ACTIONS:
        sys.exit(f"usage: corpus.py {'|'.join(ACTIONS)} DIR")
    ACTIONS[sys.argv[1]](sys.argv[2])
