# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verification of the copy: compare the manifests of source and copy, transfer what differs again, compare again.

Nearly all files are read while the source serves; in the pause only those that changed since then.
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
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import FIELDS, parse_own, printable
from ansible_collections.reduced.footprint.plugins.module_utils._remote.plan_manifest import Difference, compare, excluded, matters

# how often differing files are transferred again before they count as an error
_ATTEMPTS = 2
# more differences than this mean a failed copy
_MOST = 20_000
_HOLES = ("sparse",)
_FLAGS = FIELDS.index("flags")


@dataclasses.dataclass
class Comparison:
    """One comparison: relevant differences, flags the copy lacks, and the effort."""

    differing: dict[bytes, Difference]
    flags: dict[bytes, bytes]
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0


def live(context: Context) -> None:
    """Read both sides completely while the source serves; the copy must match where the source does not change meanwhile."""
    first = _compare(context, settle=True)
    if first.differing:
        _transfer_again(context, first.differing, tolerate_vanished=True)
    # files that the source did not change between the two comparisons must match now; the second one also predicts the effort in the pause
    second = _compare(context)
    bad = {
        path: each for path, each in second.differing.items() if path in first.differing and each.source == first.differing[path].source and each.what != _HOLES
    }
    _record(context, second, whole=first)
    if bad:
        raise BackendError(_describe(bad, "of the copy differ from the source, although the source did not change them"), hint=_HINT_COPY)


def catch_up(context: Context) -> None:
    """Bring copy and manifests up to date immediately before the pause, to shorten it."""
    run_copy.copy_pass(context, "live", tolerate_vanished=True, excludes=io_boot.MADE_HERE)
    live(context)
    run_copy.copy_pass(context, "live", tolerate_vanished=True, excludes=io_boot.MADE_HERE)


def verify(context: Context) -> None:
    """Compare the quiesced source with the copy; the copy equals the source afterwards."""
    context.journal.verified = False
    fixed = [os.fsencode(each) for each in context.journal.facts.get("fixups", ())]
    for attempt in range(_ATTEMPTS + 1):
        found = _compare(context, fixed=fixed)
        if not found.differing or (attempt and _only_holes(context, found)):
            break
        if attempt == _ATTEMPTS:
            raise BackendError(_describe(found.differing, "differ between source and copy after the services were stopped"), hint=_HINT_SOURCE)
        context.log(f"transferred again: {_describe(found.differing, 'differ')}")
        _transfer_again(context, found.differing, tolerate_vanished=False)
    run_blocks.verify(context)
    _set_flags(context, found.flags)
    _record(context, found)
    # after a kill the next worker starts the VM from the content of the disks
    context.settle()
    context.journal.verified = True


_HINT_COPY = "Check the log, and the copy's file system and disk for errors."
_HINT_SOURCE = "Add the service that writes them to services, so that it is stopped for the last copy, or exclude them with excludes."


def _only_holes(context: Context, found: Comparison) -> bool:
    """Whether the files differ in sparseness only, which depends on the file system."""
    if any(each.what != _HOLES for each in found.differing.values()):
        return False
    context.journal.warnings.append(_describe(found.differing, "use more space on the copy than on the source; their content is the same"))
    return True


def _record(context: Context, found: Comparison, whole: Comparison | None = None) -> None:
    recorded = {"files": found.files, "bytes": (whole or found).bytes, "seconds": found.seconds, "differing": len(found.differing)}
    context.journal.facts["manifest"] = recorded
    context.log(f"compared {found.files} files: {recorded['bytes']} bytes read in {(whole or found).seconds} s, {recorded['differing']} differ")
    context.save()


def _compare(context: Context, *, settle: bool = False, fixed: t.Sequence[bytes] = ()) -> Comparison:
    """Take both manifests and compare them."""
    began = time.monotonic()
    source_manifest, copy_manifest = context.manifests()
    tree = context.disk().mount()
    # the comparison is valid only for content that is on the disk
    context.settle()
    systems = context.source_facts["filesystems"]
    mounts = [each["mount"] for each in systems]
    # the copy may have more partitions than the source
    lost = sorted({f"{each.rstrip('/')}/lost+found" for each in [*mounts, *(each.mount for each in context.layout().mounts)]})
    patterns = [*io_rsync.ALWAYS_OUT, *SOURCE_OWN, *lost, *context.spec.excludes, *io_boot.MADE_HERE]
    given = {"patterns": patterns, "names": [io_rsync.HELD], "mounts": mounts, "settle": settle, "nice": settle}
    source = _Fetch(context.source.program(run_manifest_agent.MODULE), given, source_manifest)
    source.start()
    progress = _progress(context)
    header = io_manifest.new_header(copy_manifest, (lambda: None) if settle else None)
    copy = io_manifest.take(os.fsencode(tree.place("/")), copy_manifest, excluded(patterns, [io_rsync.HELD]), header, progress=progress)
    while source.is_alive():
        source.join(1.0)
        progress(copy.files, copy.bytes)
    taken = source.result()
    found = Comparison({}, {}, taken.files, max(taken.bytes, copy.bytes))
    plain = [each["mount"] for each in systems if each["fstype"] == "vfat"] + [each.mount for each in context.layout().mounts if each.partition.fs == "vfat"]
    for each in compare(io_manifest.read(source_manifest), io_manifest.read(copy_manifest)):
        if "flags" in each.what and each.source is not None:
            found.flags[each.path] = each.source.same.split(b" ")[_FLAGS]
        what = tuple(name for name in matters(each, fixed, plain) if name != "flags")
        if what:
            found.differing[each.path] = each._replace(what=what)
            if len(found.differing) > _MOST:
                raise BackendError(_describe(found.differing, "or more differ between source and copy"), hint=_HINT_COPY)
    found.seconds = round(time.monotonic() - began, 3)
    return found


class _Fetch(threading.Thread):
    """Thread that fetches the source's manifest while the copy's is taken."""

    def __init__(self, argv: t.Sequence[str], given: t.Mapping[str, t.Any], stored: pathlib.Path) -> None:
        super().__init__(daemon=True)
        self.request = (argv, given, stored)
        self.taken: io_manifest.Taken | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Fetch the manifest."""
        try:
            self.taken = io_manifest_wire.fetch(*self.request)
        except Exception as error:  # raised by result()
            self.error = error

    def result(self) -> io_manifest.Taken:
        """Return the result."""
        if self.error is not None:
            raise self.error
        if self.taken is None:
            raise BackendError("The source's list of files was not received.")
        return self.taken


def _progress(context: Context) -> t.Callable[[int, int], None]:
    used = max(1, sum(int(each["used"]) for each in context.source_facts["filesystems"]))

    def report(files: int, size: int) -> None:
        context.progress(phase=context.journal.phase, step="compare", files=files, bytes=size, percent=min(100, 100 * size // used))

    return report


def _transfer_again(context: Context, differing: t.Mapping[bytes, Difference], *, tolerate_vanished: bool) -> None:
    """Transfer differing files again, and remove those that exist on the copy only."""
    tree = context.disk().mount()
    for path, each in differing.items():
        if "extra" in each.what and tree.status(path, follow=False):
            _remove(tree.place(path, follow=False))
    paths = {path for path, each in differing.items() if "extra" not in each.what}
    inodes = {
        parse_own(each.source.own)[1:3]
        for path, each in differing.items()
        if path in paths and each.source is not None and not each.source.own.startswith(b"1 ")
    }
    if inodes:
        # rsync links the names of a file only when all of them are listed
        linked = (line for line in io_manifest.read(context.manifests()[0]) if not line.own.startswith(b"1 "))
        paths |= {line.path for line in linked if parse_own(line.own)[1:3] in inodes}
    if paths:
        io_rsync.pull_paths(context.source.ssh_argv(), context.source.address, sorted(paths), tree.place("/"), tolerate_vanished=tolerate_vanished)


def _remove(extra: str) -> None:
    """Remove what exists on the copy only; the time of its folder is kept, because nothing would transfer that again."""
    folder = os.path.dirname(extra)
    before = os.stat(folder)
    io_manifest.remove(os.fsencode(extra))
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def _describe(found: t.Mapping[bytes, Difference], how: str) -> str:
    """The differences as text, with the first five paths."""
    some = [f"{printable(path)} ({', '.join(each.what)})" for path, each in list(found.items())[:5]]
    return f"{len(found)} file(s) {how}: {', '.join(some)}{' and more' if len(found) > 5 else ''}."


def _set_flags(context: Context, flags: t.Mapping[bytes, bytes]) -> None:
    """Set the source's immutable and append-only flags on the copy, after the last write to it."""
    tree = context.disk().mount()
    if not flags:
        return
    # recorded first: the next copy pass must remove them, even if this run fails
    context.journal.facts["flags"] = sorted(os.fsdecode(path) for path in flags)
    context.save()
    for path, text in flags.items():
        try:
            io_manifest.set_flags(os.fsencode(tree.place(path, follow=False)), text)
        except OSError as error:
            raise BackendError(f"{printable(path)} cannot be made immutable or append-only on the copy: {error.strerror}.", hint=_HINT_COPY) from error
