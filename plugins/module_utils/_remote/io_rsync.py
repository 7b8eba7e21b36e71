# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rsync from the source, with everything that belongs to a file."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_pool_space import full_pool

# hard links, ACLs, xattrs (capabilities among them), sparse files, ids as numbers, nothing that is too much
# (a database writes its file twice within a second and keeps its size: without the fractions of the
# time, which rsync leaves out by default, the second write would not be seen)
_EVERYTHING = ("-aHAXS", "--numeric-ids", "--modify-window=-1", "--no-human-readable")
FLAGS = (*_EVERYTHING, "--delete", "--one-file-system")
# our own state on the source, which lies in others' folders
HELD = "zz-reduced-footprint-held.conf"
# files of the source that were gone before they could be read: harmless while it is alive
VANISHED = 24
# exit codes of a stream that broke; with words of ssh's it was the link, and not the disk of either side
_LINK = (12, 30, 35)
_SSH_SAID = re.compile(r"(?m)^(ssh: |Timeout, server |Connection (to|closed|reset) |client_loop: |kex_exchange)")
_LOOK = "Look whether the source runs and can be reached; then run again, what was copied stays."
# never part of a machine's disk, wherever they are mounted
ALWAYS_OUT = (
    "/proc/*",
    "/sys/*",
    "/dev/*",
    "/run/*",
    "/var/lib/reduced.footprint/source",
    "/var/lib/reduced.footprint/lib",
)
_FULL = "No space left on device"
# what a file system on an image says when there is no room for the image itself
_IMAGE_FULL = ("Input/output error", "Read-only file system")

_TOTAL = re.compile(r"^(Number of regular files transferred|Total transferred file size|Total bytes received|Total file size): ([0-9]+)", re.MULTILINE)
_PROGRESS = re.compile(r"^\s*([0-9]+)\s+([0-9]+)%\s+(\S+)\s+(\S+)")


@dataclasses.dataclass(frozen=True)
class Copied:
    """One finished run: seconds, files and bytes of content brought over, size of all files."""

    seconds: float
    files: int
    bytes: int
    total_bytes: int
    vanished: bool
    changes: tuple[str, ...]


def filters(mount: str, other_mounts: t.Sequence[str], excludes: t.Sequence[str]) -> list[str]:
    """Exclude options for one file system of the source, patterns made relative to its mount point.

    What lies below another mount point is left alone on both sides: it has a run of its own.
    """
    prefix = mount.rstrip("/")
    patterns = ["/lost+found"]
    for pattern in [*ALWAYS_OUT, *excludes, *(f"{each.rstrip('/')}/*" for each in other_mounts if each != mount)]:
        if pattern.startswith(prefix + "/"):
            patterns.append(pattern[len(prefix) :])
    patterns.append(HELD)
    return [f"--exclude={each}" for each in patterns]


def pull(
    ssh: t.Sequence[str],
    address: str,
    mount: str,
    target: str,
    options: t.Sequence[str],
    *,
    tolerate_vanished: bool,
    limit: int = 0,
    progress: t.Callable[[int, int, str], None] | None = None,
) -> Copied:
    """Bring one file system of the source to ``target``.

    :arg ssh: the ssh command without user and host.
    :arg limit: KiB per second at most, 0 for none.
    :arg progress: called with bytes, percent and rate while it runs.
    :raises CommandError: on any exit code but 0 (and 24 where that is tolerated).
    """
    how = [f"--bwlimit={limit}"] if limit else []
    # -s: no shell of the source sees the path
    argv = ["rsync", *FLAGS, "-s", *how, "--info=progress2,stats2", "--stats", "--outbuf=L", *options, "-e", " ".join(ssh)]
    return transfer([*argv, f"{address}:{mount.rstrip('/')}/", f"{target.rstrip('/')}/"], tolerate_vanished=tolerate_vanished, progress=progress)


def pull_paths(ssh: t.Sequence[str], address: str, paths: t.Iterable[bytes], target: str, *, tolerate_vanished: bool) -> Copied:
    """Bring single files of the source anew, whatever their times and sizes say.

    :arg paths: absolute; a folder stands for itself and not for what is in it.
    :raises CommandError: on any exit code but 0 (and 24 where that is tolerated).
    """
    with tempfile.NamedTemporaryFile() as listed:
        listed.write(b"".join(path.lstrip(b"/") + b"\0" for path in paths))
        listed.flush()
        argv = ["rsync", *_EVERYTHING, "--ignore-times", "--no-implied-dirs", "--from0", f"--files-from={listed.name}", "--stats", "--outbuf=L"]
        return transfer([*argv, "-e", " ".join(ssh), f"{address}:/", f"{target.rstrip('/')}/"], tolerate_vanished=tolerate_vanished)


def full_disk(error: CommandError, mount: str, target: str, image: str) -> BackendError | None:
    """What a failed copy says about room, in words that name the numbers; ``None`` when it was something else.

    :arg target: where the file system ``mount`` of the copy is mounted.
    :arg image: the file that the copy's disk lies in.
    """
    if _FULL in error.stderr:
        space = os.statvfs(target)
        if space.f_files and space.f_favail == 0:
            return BackendError(f"{mount} of the copy has no inodes left ({space.f_files} in all).", "disk_schema", "Make its partition larger.")
        size, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
        return BackendError(
            f"{mount} of the copy is full: {size_text(size)} in all, {size_text(free)} free.",
            "disk_schema",
            "Make its partition larger (and the disk in vm.disks, if need be), leave something out with excludes, or free room on the source.",
        )
    return full_pool(image) if any(each in error.stderr for each in _IMAGE_FULL) else None


def transfer(
    argv: t.Sequence[str], *, tolerate_vanished: bool = False, dry_run: bool = False, progress: t.Callable[[int, int, str], None] | None = None
) -> Copied:
    """One run of rsync, followed while it runs.

    :raises CommandError: on any exit code but 0 (and 24 where that is tolerated).
    """
    started = time.monotonic()
    # a file for the complaints: a pipe nobody reads meanwhile would block after 64 KiB of them
    with tempfile.TemporaryFile() as complaints:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, env=dict(os.environ, LC_ALL="C"), encoding="utf-8", errors="replace"
        ) as process:
            lines = _follow(process, progress)
            code = process.wait()
        complaints.seek(0)
        errors = complaints.read().decode(errors="replace")
    if code != 0 and not (code == VANISHED and tolerate_vanished):
        lost = code == 255 or (code in _LINK and bool(_SSH_SAID.search(errors)))
        raise CommandError(argv, code, errors, hint=_LOOK if lost else _hint(code), what="The connection to the source was lost" if lost else None)
    text = "\n".join(lines)
    totals = {name: int(number) for name, number in _TOTAL.findall(text)}
    return Copied(
        seconds=round(time.monotonic() - started, 3),
        files=totals.get("Number of regular files transferred", 0),
        bytes=totals.get("Total transferred file size", 0),
        total_bytes=totals.get("Total file size", 0),
        vanished=code == VANISHED,
        changes=tuple(line for line in lines if re.match(r"\A([<>ch.*][fdLDS.]|\*deleting)", line)) if dry_run else (),
    )


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
        return "Look for a full disk on the destination and for a lost connection."
    if code in (23, 24):
        return "Something wrote or vanished on the source; list what does in services, so that it is stopped before the last copy."
    if code == 11:
        return "Look whether the disk of the copy can be written to."
    return None
