# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rsync from the source, with all file metadata."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_excludes import covers
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_login import hint

# hard links, ACLs, xattrs (including capabilities), sparse files, numeric ids; with --delete no extra files
# (a database may write its file twice within a second without changing its size: rsync's default comparison
# ignores fractions of a second and would miss the second write)
_EVERYTHING = ("-aHAXS", "--numeric-ids", "--modify-window=-1", "--no-human-readable")
FLAGS = (*_EVERYTHING, "--delete", "--one-file-system")
# the migration's own state on the source, in folders of other packages
HELD = "zz-reduced-footprint-held.conf"
# exit codes for vanished source files and for a partial transfer: not an error while the source serves, the latter only for files in use
VANISHED = 24
PARTIAL = 23
# a file was truncated while it was read, removed, or written to during both attempts
_IN_USE = re.compile(
    r"\A(?:rsync: (?:\[sender\] )?)?(?:read errors mapping .*\(61\)|file has vanished: .*|(?:WARNING|ERROR): .* failed verification -- update .*)\Z"
)
_SUMMARY = re.compile(r"\Arsync (?:error|warning): some files")
# exit codes of a broken stream; with an error message of ssh it was the connection, not a disk
_LINK = (12, 30, 35)
_SSH_MESSAGE = re.compile(r"(?m)^(ssh: |Timeout, server |Connection (to|closed|reset) |client_loop: |kex_exchange)")
_HINT_CONNECTION = "Check that the source runs and can be reached; then run again, the copied data is kept."
# never copied, regardless of what is mounted there
ALWAYS_OUT = (
    "/proc/*",
    "/sys/*",
    "/dev/*",
    "/run/*",
    "/var/lib/reduced.footprint/source",
    "/var/lib/reduced.footprint/lib",
)
_FULL = "No space left on device"
# errors of a file system in an image on a full pool
_IMAGE_FULL = ("Input/output error", "Read-only file system")
# less free space counts as full: a file system fails before the last byte is used
_LITTLE = 64 * MIB

_TOTAL = re.compile(r"^(Number of regular files transferred|Total transferred file size|Total bytes received|Total file size): ([0-9]+)", re.MULTILINE)
_PROGRESS = re.compile(r"^\s*([0-9]+)\s+([0-9]+)%\s+(\S+)\s+(\S+)")


class Copied(t.NamedTuple):
    """One finished run: seconds, files and bytes transferred, size of all files."""

    seconds: float
    files: int
    bytes: int
    total_bytes: int
    vanished: bool
    changes: tuple[str, ...]


def filters(mount: str, other_mounts: t.Sequence[str], excludes: t.Sequence[str]) -> list[str]:
    """Return the exclude options for one file system of the source, with patterns relative to its mount point.

    Files below other mount points are excluded on both sides: each file system has its own run.
    """
    prefix = mount.rstrip("/")
    patterns = ["/lost+found"]
    for pattern in [*ALWAYS_OUT, *excludes]:
        if pattern.startswith(prefix + "/"):
            patterns.append(pattern[len(prefix) :])
        elif covers(pattern, prefix):
            patterns.append("/*")
    patterns += [f"{_literal(each.rstrip('/')[len(prefix) :])}/*" for each in other_mounts if each != mount and each.startswith(prefix + "/")]
    patterns.append(HELD)
    return [f"--exclude={each}" for each in patterns]


def _literal(path: str) -> str:
    """Return a pattern that matches only this path."""
    return re.sub(r"([\\*?\[])", r"\\\1", path)


def pull(
    ssh: t.Sequence[str],
    address: str,
    mount: str,
    target: str,
    options: t.Sequence[str],
    *,
    tolerate_vanished: bool,
    checksum: bool = False,
    limit: int = 0,
    progress: t.Callable[[int, int, str], None] | None = None,
) -> Copied:
    """Copy one file system of the source to ``target``.

    :arg ssh: the ssh command without user and host.
    :arg limit: maximum KiB per second, 0 for unlimited.
    :arg progress: called with bytes, percent and rate while rsync runs.
    :raises CommandError: the exit code is not 0 (or 24 with ``tolerate_vanished``).
    """
    how = [*([f"--bwlimit={limit}"] if limit else []), *(["--checksum"] if checksum else [])]
    # -s: the path is not interpreted by a remote shell
    argv = ["rsync", *FLAGS, "-s", *how, "--info=progress2,stats2", "--stats", "--outbuf=L", *options, "-e", " ".join(ssh)]
    return transfer([*argv, f"{address}:{mount.rstrip('/')}/", f"{target.rstrip('/')}/"], tolerate_vanished=tolerate_vanished, progress=progress)


def pull_paths(ssh: t.Sequence[str], address: str, paths: t.Iterable[bytes], target: str, *, tolerate_vanished: bool) -> Copied:
    """Copy single files of the source again, regardless of their times and sizes.

    :arg paths: absolute paths; a folder is copied without its content. Those that no longer exist are left to the next comparison:
        rsync reports a missing file of a list with the exit code of a failed transfer, not with that of a vanished file.
    """
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(b"".join(path.lstrip(b"/") + b"\0" for path in paths))
        listed.flush()
        # with the folders above them: otherwise rsync follows a link in their place
        argv = ["rsync", *_EVERYTHING, "--ignore-times", "--ignore-missing-args", "--from0"]
        argv += [f"--files-from={listed.name}", "--stats", "--outbuf=L"]
        return transfer([*argv, "-e", " ".join(ssh), f"{address}:/", f"{target.rstrip('/')}/"], tolerate_vanished=tolerate_vanished)


def full_disk(error: CommandError, mount: str, target: str, image: str) -> BackendError | None:
    """Return an error with the sizes when a copy failed because of a full disk, ``None`` for other failures.

    :arg target: where the file system ``mount`` of the copy is mounted.
    """
    if _FULL in error.stderr:
        space = os.statvfs(target)
        if space.f_files and space.f_favail == 0:
            return BackendError(f"{mount} of the copy has no inodes left (total {space.f_files}).", "disk_schema", "Increase the size of its partition.")
        size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        return BackendError(
            f"{mount} of the copy is full: size {size_text(size)}, {size_text(free)} free.",
            "disk_schema",
            "Increase the size of its partition (and of the disk in vm.disks, if necessary), exclude files with excludes, or free space on the source.",
        )
    return full_pool(image) if any(each in error.stderr for each in _IMAGE_FULL) else None


def full_pool(image: str) -> BackendError | None:
    """Return an error when the file system of an image is full, else ``None``."""
    space = os.statvfs(os.path.dirname(image) or "/")
    free = space.f_bavail * space.f_frsize
    if free >= _LITTLE:
        return None
    return BackendError(
        f"The pool with the copy's disk is full: {size_text(free)} free at {image}.", "pool", "Free space there, or use another pool; then run again."
    )


def transfer(
    argv: t.Sequence[str], *, tolerate_vanished: bool = False, dry_run: bool = False, progress: t.Callable[[int, int, str], None] | None = None
) -> Copied:
    """Run rsync and report its progress.

    :arg tolerate_vanished: accept that files vanish or change while they are copied; the next pass copies them.
    """
    started = time.monotonic()
    # a file for stderr: a pipe that is not read meanwhile would block after 64 KiB
    with tempfile.TemporaryFile() as stderr:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=dict(os.environ, LC_ALL="C"), encoding="utf-8", errors="replace"
        ) as process:
            lines = _follow(process, progress)
            code = process.wait()
        stderr.seek(0)
        errors = stderr.read().decode(errors="replace")
    moving = code == VANISHED or (code == PARTIAL and in_use(errors))
    if code != 0 and not (moving and tolerate_vanished):
        lost = code == 255 or (code in _LINK and bool(_SSH_MESSAGE.search(errors)))
        fix = hint(errors, "the source") or (_HINT_CONNECTION if lost else _hint(code))
        raise CommandError(argv, code, errors, hint=fix, what="The connection to the source was lost" if lost else None)
    text = "\n".join(lines)
    totals = {name: int(number) for name, number in _TOTAL.findall(text)}
    return Copied(
        seconds=round(time.monotonic() - started, 3),
        files=totals.get("Number of regular files transferred", 0),
        bytes=totals.get("Total transferred file size", 0),
        total_bytes=totals.get("Total file size", 0),
        vanished=moving,
        changes=tuple(line for line in lines if re.match(r"\A([<>ch.*][fdLDS.]|\*deleting)", line)) if dry_run else (),
    )


def in_use(errors: str) -> bool:
    """Whether all errors of rsync are about files that another program wrote to or removed during the transfer."""
    lines = [line for line in errors.splitlines() if line.strip() and not _SUMMARY.match(line)]
    return bool(lines) and all(_IN_USE.match(line) for line in lines)


def _follow(process: subprocess.Popen[str], progress: t.Callable[[int, int, str], None] | None) -> list[str]:
    lines: list[str] = []
    # universal newlines turn rsync's carriage returns into lines
    for line in process.stdout or ():
        line = line.rstrip("\n")
        found = _PROGRESS.match(line)
        if found:
            if progress:
                progress(int(found.group(1)), int(found.group(2)), found.group(3))
        elif line:
            lines.append(line)
    return lines


def _hint(code: int) -> str | None:
    if code == 12:
        return "Check for a full disk on the destination and for a lost connection."
    if code in (23, 24):
        return "Add the service that changes files on the source to services, so that it is stopped before the last copy."
    if code == 11:
        return "Check that the disk of the copy is writable."
    return None
