# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof that the copy is what the source is: two manifests compared, what differs fetched anew, compared again.

Nearly all is read while the source serves; in the pause only what changed since then is.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import io_boot, run_copy
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import run_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.plan_source import SOURCE_OWN
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest, io_manifest_wire, io_rsync, run_manifest_agent
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import FIELDS, Line, parse_own, printable
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import Difference, compare, excluded, matters

# how often what differs is fetched anew before it counts as an error
_ATTEMPTS = 2
# more than so many differences are no files that changed, but a copy that went wrong
_MOST = 20_000
_HOLES = ("sparse",)
_FLAGS = FIELDS.index("flags")


@dataclasses.dataclass
class Look:
    """One comparison: what differs and should not, flags the copy lacks, what it cost."""

    wrong: dict[bytes, Difference]
    flags: dict[bytes, bytes]
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0


def live(context: Context) -> None:
    """Read both sides whole while the source serves; the copy is to hold all that the source does not change meanwhile.

    :raises BackendError: the copy cannot hold something, or it was spoilt.
    """
    first = _look(context, settle=True)
    if first.wrong:
        _hint(context, first.wrong, tolerate_vanished=True)
    # what was not written to between the two looks must be the same now; and this is what a look costs in the pause
    again = _look(context)
    bad = {path: each for path, each in again.wrong.items() if path in first.wrong and each.source == first.wrong[path].source and each.what != _HOLES}
    _note(context, again, whole=first)
    if bad:
        raise BackendError(_told(bad, "of the copy are not as on the source, though nothing changed them there"), hint=_HINT_COPY)


def catch_up(context: Context) -> None:
    """Bring copy and manifests up to date right before the pause, which then has little left to do."""
    run_copy.copy_pass(context, "live", tolerate_vanished=True, excludes=io_boot.MADE_HERE)
    live(context)
    run_copy.copy_pass(context, "live", tolerate_vanished=True, excludes=io_boot.MADE_HERE)


def verify(context: Context) -> None:
    """Compare the source, which keeps still, with the copy; the copy is the source's equal afterwards.

    :raises BackendError: something goes on changing on the source, or the copy does not take it.
    """
    context.journal.verified = False
    fixed = [os.fsencode(each) for each in context.journal.facts.get("fixups", ())]
    for attempt in range(_ATTEMPTS + 1):
        look = _look(context, fixed=fixed)
        if not look.wrong or (attempt and _only_holes(context, look)):
            break
        if attempt == _ATTEMPTS:
            raise BackendError(_told(look.wrong, "differ between source and copy after the services were stopped"), hint=_HINT_SOURCE)
        context.log(f"fetched anew: {_told(look.wrong, 'differ')}")
        _hint(context, look.wrong, tolerate_vanished=False)
    run_blocks.verify(context)
    _set_flags(context, look.flags)
    _note(context, look)
    # whoever goes on after a kill starts the VM from what is on its disks
    context.settle()
    context.journal.verified = True


_HINT_COPY = "Look at the log, and whether the copy's file system and its disk are sound."
_HINT_SOURCE = "List what writes them in services, so that it is stopped for the last copy, or leave them out with excludes."


def _only_holes(context: Context, look: Look) -> bool:
    """Whether all that is wrong is room: file systems have views of their own on what a hole is."""
    if any(each.what != _HOLES for each in look.wrong.values()):
        return False
    context.journal.warnings.append(_told(look.wrong, "need more room on the copy than on the source; their content is the same"))
    return True


def _note(context: Context, look: Look, whole: Look | None = None) -> None:
    noted = {"files": look.files, "bytes": (whole or look).bytes, "seconds": look.seconds, "differing": len(look.wrong)}
    context.journal.facts["manifest"] = noted
    context.log(f"compared {look.files} files, {noted['bytes']} bytes read anew in {(whole or look).seconds} s, {noted['differing']} differ")
    context.save()


def _look(context: Context, *, settle: bool = False, fixed: t.Sequence[bytes] = ()) -> Look:
    """Both manifests as things are now, and what they say."""
    began = time.monotonic()
    theirs, ours = context.manifests()
    root = context.disk().mount()
    # what is read is worth something only where it would be read after a power loss, too
    context.settle()
    systems = context.source_facts["filesystems"]
    mounts = [each["mount"] for each in systems]
    # the copy may lie on more partitions than the source
    lost = sorted({f"{each.rstrip('/')}/lost+found" for each in [*mounts, *(each.mount for each in context.layout().mounts)]})
    patterns = [*io_rsync.ALWAYS_OUT, *SOURCE_OWN, *lost, *context.spec.excludes, *io_boot.MADE_HERE]
    given = {"patterns": patterns, "names": [io_rsync.HELD], "mounts": mounts, "settle": settle, "nice": settle}
    source = _Fetch(context.source.program(run_manifest_agent.MODULE), given, theirs)
    source.start()
    told = _teller(context)
    copy = io_manifest.take(
        os.fsencode(root), ours, excluded(patterns, [io_rsync.HELD]), io_manifest.new_header(ours, (lambda: None) if settle else None), told=told
    )
    while source.is_alive():
        source.join(1.0)
        told(copy.files, copy.bytes)
    taken = source.result()
    look = Look({}, {}, taken.files, max(taken.bytes, copy.bytes))
    plain = [each["mount"] for each in systems if each["fstype"] == "vfat"] + [each.mount for each in context.layout().mounts if each.partition.fs == "vfat"]
    for each in compare(io_manifest.read(theirs), io_manifest.read(ours)):
        if "flags" in each.what and each.source is not None:
            look.flags[each.path] = each.source.same.split(b" ")[_FLAGS]
        what = tuple(name for name in matters(each, fixed, plain) if name != "flags")
        if what:
            look.wrong[each.path] = each._replace(what=what)
            if len(look.wrong) > _MOST:
                raise BackendError(_told(look.wrong, "or more differ between source and copy"), hint=_HINT_COPY)
    look.seconds = round(time.monotonic() - began, 3)
    return look


class _Fetch(threading.Thread):
    """The source's manifest, on its way while the copy's is taken."""

    def __init__(self, argv: t.Sequence[str], given: t.Mapping[str, t.Any], stored: pathlib.Path) -> None:
        super().__init__(daemon=True)
        self.asked = (argv, given, stored)
        self.taken: io_manifest.Taken | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Fetch it."""
        try:
            self.taken = io_manifest_wire.fetch(*self.asked)
        except Exception as error:  # raised where it is waited for
            self.error = error

    def result(self) -> io_manifest.Taken:
        """What came.

        :raises BackendError: nothing did.
        """
        if self.error is not None:
            raise self.error
        if self.taken is None:
            raise BackendError("The source's list of files did not come.")
        return self.taken


def _teller(context: Context) -> t.Callable[[int, int], None]:
    used = max(1, sum(int(each["used"]) for each in context.source_facts["filesystems"]))

    def told(files: int, size: int) -> None:
        context.progress(phase=context.journal.phase, step="compare", files=files, bytes=size, percent=min(100, 100 * size // used))

    return told


def _hint(context: Context, wrong: t.Mapping[bytes, Difference], *, tolerate_vanished: bool) -> None:
    """Fetch anew what differs, take away what is too much."""
    root = context.disk().mount()
    for path, each in wrong.items():
        if "too much" in each.what:
            io_manifest.remove(os.fsencode(io_boot.inside(root, os.fsdecode(path))))
    paths = {path for path, each in wrong.items() if "too much" not in each.what}
    inodes = {
        parse_own(each.source.own)[1:3] for path, each in wrong.items() if path in paths and each.source is not None and not each.source.own.startswith(b"1 ")
    }
    if inodes:
        # one name of a file is linked to the others only when all are told of
        paths |= {line.path for line in _linked(context.manifests()[0]) if parse_own(line.own)[1:3] in inodes}
    if paths:
        io_rsync.pull_paths(context.source.ssh_argv(), context.source.address, sorted(paths), str(root), tolerate_vanished=tolerate_vanished)


def _linked(path: pathlib.Path) -> t.Iterator[Line]:
    return (line for line in io_manifest.read(path) if not line.own.startswith(b"1 "))


def _told(found: t.Mapping[bytes, Difference], how: str) -> str:
    """What differs, for a person."""
    some = [f"{printable(path)} ({', '.join(each.what)})" for path, each in list(found.items())[:5]]
    return f"{len(found)} file(s) {how}: {', '.join(some)}{' and more' if len(found) > 5 else ''}."


def _set_flags(context: Context, flags: t.Mapping[bytes, bytes]) -> None:
    """Make immutable and append-only on the copy what is so on the source; nothing is written to it afterwards.

    :raises BackendError: the copy's file system does not take that.
    """
    root = os.fsencode(context.disk().mount())
    if not flags:
        return
    # written down first: the next copy has to take them off again, whatever happens to this one
    context.journal.facts["flags"] = sorted(os.fsdecode(path) for path in flags)
    context.save()
    for path, text in flags.items():
        try:
            io_manifest.set_flags(root + path, text)
        except OSError as error:
            raise BackendError(f"{printable(path)} cannot be made immutable or append-only on the copy: {error.strerror}.", hint=_HINT_COPY) from error
