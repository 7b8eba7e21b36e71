# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of benchmarks/migrate.py on the destination: the steps of the worker, or one plain rsync. One JSON document in, one out.

``ours`` and ``offline`` fill an image; ``many`` is ``ours`` without a boot loader, for its memory.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import run_copy, run_verify
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import predict
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, remote, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_units
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

WRITER = "footprint-bench-writer.service"
HOME = pathlib.Path("/var/lib/reduced.footprint/bench")


class Memory(threading.Thread):
    """Peak of the private memory of this process and all its descendants, in bytes, without cached files."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = self.alone = 0

    def run(self) -> None:
        """Measure ten times a second."""
        while True:
            own = _private(os.getpid())
            self.alone = max(self.alone, own)
            self.peak = max(self.peak, own + sum(_private(each) for each in _below(os.getpid())))
            time.sleep(0.1)


def _below(parent: int) -> t.Iterator[int]:
    try:
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii").split()
        # children of other threads are listed separately
        for task in pathlib.Path(f"/proc/{parent}/task").iterdir():
            if task.name != str(parent):
                children += (task / "children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from _below(int(child))


def _private(process: int) -> int:
    try:
        lines = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_", "Swap:"))) * 1024


def context_of(params: t.Mapping[str, t.Any]) -> Context:
    """Return the context of the worker after its preflight, with a new disk."""
    spec = parse_spec(params)
    store = JournalStore(spec.name, HOME)
    code = io_units.keep_code()
    context = Context(spec=spec, vm=vm_details(spec), store=store, journal=Journal(name=spec.name), code=code, source=remote(spec, store, code))
    facts = context.source.ask("facts", {"services": [], "containers": [], "address": spec.admin.address})["facts"]
    facts.pop("tree", None)
    context.journal.facts["source_facts"] = facts
    image = HOME.parent.parent / "libvirt/images/bench.img"
    image.unlink(missing_ok=True)
    image.parent.mkdir(parents=True, exist_ok=True)
    with open(image, "wb") as stream:
        stream.truncate(context.layout().size)
    context.journal.facts["vm"] = {"disk": str(image), "disks": [str(image)]}
    for left in store.directory.glob("*.manifest"):
        left.unlink()
    context.disk().write_table()
    context.disk().make_filesystems()
    return context


def stop_writer(context: Context) -> None:
    """Stop the service that writes, as the services of a master are stopped."""
    subprocess.run([*context.source.ssh_argv(), context.source.address, f"systemctl stop {WRITER} && sync"], check=True)


def ours(context: Context, bootable: bool = True) -> dict[str, t.Any]:
    """Measure the steps of a migration up to the verification."""
    if bootable:
        run_copy.precopy(context)
    else:
        run_copy.copy_pass(context, "live", tolerate_vanished=True)
    run_verify.live(context)
    run_verify.catch_up(context)
    predicted = predict(context.journal.passes, context.journal.facts, 0)
    stop_writer(context)
    began = time.monotonic()
    parts = {}
    for name, step in (("final", run_copy.final), ("fixup", run_copy.fixup if bootable else lambda context: None), ("verify", run_verify.verify)):
        at = time.monotonic()
        step(context)
        parts[name] = round(time.monotonic() - at, 3)
    passes = context.journal.passes
    return {
        "data": round(time.monotonic() - began, 3),
        "parts": parts,
        "predicted": predicted["data"],
        "verified": context.journal.verified,
        "cold": passes[0]["seconds"],
        "final_bytes": passes[-1]["bytes"],
        "passes": passes,
        "manifest": context.journal.facts["manifest"],
    }


def offline(context: Context) -> dict[str, t.Any]:
    """Measure a manual migration: services stopped, one rsync of everything."""
    stop_writer(context)
    root = context.disk().mount()
    mounts = [each["mount"] for each in context.source_facts["filesystems"]]
    began = time.monotonic()
    for mount in mounts:
        out = [f"--exclude={each}" for each in ("/proc/*", "/sys/*", "/dev/*", "/run/*", "/lost+found")]
        out += [f"--exclude={each}/*" for each in mounts if mount == "/" and each != "/"]
        argv = ["rsync", "-aHAXS", "--numeric-ids", *out, "-e", " ".join(context.source.ssh_argv())]
        subprocess.run([*argv, f"{context.source.address}:{mount.rstrip('/')}/", f"{root}{mount.rstrip('/')}/"], check=True)
    # as in the migration, data must be on the disk
    context.disk().settle()
    return {"data": round(time.monotonic() - began, 3)}


def main() -> None:
    """Read the request, run it and print the result."""
    asked = json.load(sys.stdin)
    if asked["what"] == "key":
        print(json.dumps({"key": io_remote_source.ensure_key(HOME / asked["params"]["name"], asked["params"]["name"])}))
        return
    context = context_of(asked["params"])
    memory = Memory()
    memory.start()
    try:
        done = offline(context) if asked["what"] == "offline" else ours(context, bootable=asked["what"] == "ours")
    finally:
        context.disk().release()
    print(json.dumps({**done, "unit_bytes": memory.peak, "worker_bytes": memory.alone}))


if __name__ == "__main__":
    main()
