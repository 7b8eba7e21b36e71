#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inject faults into every phase of a migration, in a running lab whose writer continuously writes rows.

A hook of the migration suspends it in the phase of the fault. Then the migration runs without intervention until it ends; the fault is
removed, and the playbook is run until the master serves from the VM or, for a fault before the pause, until the copy is complete.
Meanwhile the network is probed for the holder of the admin address.

``--only FAULT[:PHASE]`` selects cells; without ``--whole`` a slice is run; ``--resume`` skips cells that passed with the same code.
``LAB_NAME`` and ``LAB_NETWORK`` select the lab, as for ``lab/lab``; ``FAULT_LEASE`` is the lease in seconds, for a busy machine.
Writes a table to tests/output; exit code 0 if every cell passed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import typing as t

import migration_code
from migration_kill import DESTINATION, LAB, ROOT, UNIT, journal, key_left, last_acknowledged, playbook, ssh, discard_migration

sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "lab")]

import handover_faults as handover  # noqa: E402
from address_watch import AddressWatch  # noqa: E402
from cells import Cells  # noqa: E402
from rflab import settings  # noqa: E402

# a short lease, and the time for which a phase is suspended: longer than the lease
LEASE = int(os.environ.get("FAULT_LEASE", "40"))
HELD = LEASE + 35
MARK = "/var/tmp/fault-strikes"
# a separate file system for the pool, which can be filled, and the file that fills it
POOL, POOL_SIZE = "/var/lib/libvirt/images", "7g"
FILLER = f"{POOL}/filler"
SERVICE_TIMEOUT = 400
VMS = ("qemu", "kvm")


class Cell(t.NamedTuple):
    """One fault in one phase; ``ends`` are the permitted final states without intervention."""

    fault: str
    phase: str
    when: str
    ends: tuple[str, ...]


BEFORE = ("preflight", "define", "prepare", "partition", "precopy", "rehearse")
#: Phases that are already complete in a migration that continues with the copy of an earlier one.
ONCE = ("define", "prepare", "partition")
PAUSED = ("quiesce", "final", "fixup", "verify")
CELLS = (
    *(Cell("host", phase, "before", ("stopped",)) for phase in BEFORE),
    *(Cell("host", phase, "before", ("done", "rolled_back")) for phase in PAUSED),
    Cell("host", "cutover", "before", ("done", "rolled_back")),
    Cell("host", "cutover", "after", ("done", "rolled_back")),
    Cell("host", "commit", "after", ("done",)),
    *(Cell("link", phase, "before", ("failed",)) for phase in BEFORE[:-1]),
    # the rehearsal boots the copy without the source
    Cell("link", "rehearse", "before", ("stopped",)),
    *(Cell("link", phase, "before", ("failed", "rolled_back")) for phase in PAUSED),
    Cell("link", "cutover", "before", ("failed", "rolled_back")),
    Cell("link", "cutover", "after", ("failed", "rolled_back")),
    Cell("link", "commit", "after", ("done",)),
    *(Cell("controller", phase, "before", ("stopped",)) for phase in BEFORE),
    *(Cell("controller", phase, "before", ("done",)) for phase in (*PAUSED, "cutover", "commit")),
    Cell("two", "precopy", "before", ("stopped",)),
    *(Cell("two", phase, "before", ("done",)) for phase in ("quiesce", "cutover")),
    *(Cell("full", phase, "before", ("failed",)) for phase in ("precopy", "rehearse")),
    Cell("full", "final", "before", ("rolled_back",)),
    *(Cell("full", phase, "before", ("done", "rolled_back")) for phase in ("verify", "cutover")),
    # the state directory is full, on a separate file system
    *(Cell(f"state-{fs}", phase, "before", ("done", "rolled_back")) for fs in handover.FILE_SYSTEMS for phase in (*PAUSED, "cutover", "commit")),
    # the worker is stopped for longer than the lease, then continued
    Cell("frozen", "verify", "before", ("failed", "rolled_back")),
    Cell("frozen", "cutover", "after", ("done", "failed", "rolled_back")),
    # source and host are separated, while other hosts reach both
    Cell("parted", "verify", "before", ("failed", "rolled_back")),
    Cell("parted", "cutover", "after", ("failed", "rolled_back")),
    # the worker is killed as soon as it is started again, for longer than the lease; the source returns meanwhile, and the run then continues
    Cell("kills", "verify", "before", ("done", "rolled_back")),
    Cell("kills", "cutover", "after", ("done", "rolled_back")),
    # the answer to the final hand-over message is lost with the link, for less and for more than the lease
    Cell("answer", "commit", "before", ("done",)),
    Cell("answer-late", "commit", "before", ("done",)),
    # the host loses power after the source has released the address and before the host received the answer
    Cell("answer-host", "commit", "before", ("done",)),
    Cell("unbootable", "fixup", "after", ("rolled_back",)),
    Cell("unhealthy", "rehearse", "before", ("failed",)),
    Cell("unhealthy", "cutover", "before", ("rolled_back",)),
)
SLICE = {
    ("answer", "commit", "before"),
    ("kills", "cutover", "after"),
    ("host", "precopy", "before"),
    ("host", "verify", "before"),
    ("link", "cutover", "after"),
    ("controller", "precopy", "before"),
    ("two", "precopy", "before"),
}


def lab(*command: str) -> None:
    """Run a command of the lab."""
    subprocess.run([str(ROOT / "lab/lab"), *command], check=True, capture_output=True)


def options(cell: Cell) -> list[str]:
    """Return the extra variables that suspend the migration once, in the phase of the cell."""
    hold = f"test -e {MARK} || {{ touch {MARK}; sync; sleep {HELD}; }}"
    hooks = [{"phase": cell.phase, "when": cell.when, "command": ["sh", "-c", hold], "command_timeout": HELD + 30}]
    given: dict[str, t.Any] = {"master_migrate_hooks": hooks, "master_migrate_lease_timeout": LEASE}
    given["master_migrate_rehearse"] = "rehearse" == cell.phase
    if cell.phase in BEFORE:
        # the rest is the same as without the fault
        given["master_migrate_stop_after"] = "rehearse"
    else:
        # the fault comes after the copy, and more passes would only shorten the pause
        given["master_migrate_max_passes"] = 1
    if cell.fault in ("unbootable", "unhealthy", "full"):
        given["master_migrate_boot_timeout"] = 90 if cell.fault != "full" else 240
    if cell.fault in ("unbootable", "unhealthy") or cell.fault.startswith("answer"):
        given["master_migrate_hooks"] = []
    if cell.fault == "unbootable":
        break_it = "rm -r /run/reduced.footprint/migrate-master/root/boot/grub"
        given["master_migrate_hooks"] = [{"phase": "fixup", "when": "after", "command": ["sh", "-c", break_it]}]
    if cell.fault == "unhealthy":
        given["master_migrate_health_checks"] = [{"type": "tcp", "port": 3306}, {"type": "tcp", "port": 9}]
    return ["-e", json.dumps(given)]


def inject(cell: Cell, here: settings.Lab, run: subprocess.Popen[bytes], more: t.Sequence[str]) -> subprocess.Popen[bytes] | None:
    """Inject the fault; return the second run of the playbook, if the fault consists of one."""
    network = here.net
    if cell.fault == "host":
        lab("kill", DESTINATION)
        time.sleep(2)
        lab("start", DESTINATION)
    elif cell.fault == "link":
        rules = "add table inet fault\nadd chain inet fault out { type filter hook output priority 0; }\n"
        rules += f"add rule inet fault out ip daddr {{ {network}.2, {network}.3 }} drop\n"
        ssh(DESTINATION, "nft", "-f", "-", given=rules.encode())
    elif cell.fault == "controller":
        run.kill()
    elif cell.fault == "full":
        left = int(ssh(DESTINATION, "stat", "-f", "-c", "%a", POOL)) * 4096
        ssh(DESTINATION, "fallocate", "-l", str(left), FILLER)
    elif cell.fault == "two":
        return playbook("migrate_master", *more)
    elif cell.fault.startswith("state-"):
        handover.fill_state()
    elif cell.fault == "frozen":
        handover.freeze(LEASE + 20)
    elif cell.fault == "kills":
        handover.kill_repeatedly(LEASE + 20)
        await_true("the source that returned when its lease expired", lambda: writing() and machine() not in VMS, 10)
    elif cell.fault == "parted":
        handover.part(here.bridge)
    elif cell.fault.startswith("answer"):
        # the source has released the address; its answer is held until the link is cut
        handover.part(here.bridge)
        if cell.fault == "answer-host":
            lab("kill", DESTINATION)
            handover.join(here.bridge)
            lab("start", DESTINATION)
        else:
            time.sleep(12 if cell.fault == "answer" else LEASE + 20)
            handover.join(here.bridge)
    return None


def remove_fault(cell: Cell, here: settings.Lab) -> None:
    """Remove the fault."""
    handover.join(here.bridge)
    if cell.fault.startswith("state-"):
        handover.empty_state()
    if cell.fault.startswith("answer"):
        handover.release_answers((f"{here.net}.2", f"{here.net}.3"))
    if cell.fault == "link":
        ssh(DESTINATION, "nft", "delete", "table", "inet", "fault", ok=False)
    elif cell.fault == "full":
        ssh(DESTINATION, "rm", FILLER)


def small_pool(wanted: bool) -> None:
    """Mount a pool with just enough space for this migration, or restore the usual pool."""
    discard_migration()
    if wanted:
        ssh(DESTINATION, "mount", "-t", "tmpfs", "-o", f"size={POOL_SIZE}", "pool", POOL)
    else:
        ssh(DESTINATION, "umount", POOL)
        # the collection refuses a pool whose file system it knows and does not find
        ssh(DESTINATION, "rm", "-f", "/var/lib/reduced.footprint/pool-mounts.json")
    ssh(DESTINATION, "virsh", "pool-refresh", "default")


def await_true(what: str, condition: t.Callable[[], bool], seconds: float) -> float:
    """Wait until the condition is met; return the seconds that took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise RuntimeError(f"{what}: not within {seconds:.0f} s")
        # each question is a process here and a login there, which takes time from the migration
        time.sleep(3)
    return time.monotonic() - began


def at_rest() -> bool:
    """Whether the migration has ended."""
    active = ssh(DESTINATION, "systemctl", "is-active", UNIT, ok=False).strip()
    return active in ("inactive", "failed", "unknown") and journal().get("state") in ("done", "failed", "rolled_back", "stopped")


def longest_pause(since: float) -> float:
    """Return the longest time in seconds without an acknowledged row."""
    times = [float(each["t"]) for each in map(json.loads, (LAB / "writer.jsonl").read_text(encoding="utf-8").splitlines()) if float(each["t"]) >= since]
    return round(max((after - before for before, after in zip(times, times[1:])), default=0.0), 1)


def lost(first_row: int) -> int:
    """Return the number of acknowledged rows that are missing on the master."""
    rows = {int(each["n"]) for each in map(json.loads, (LAB / "writer.jsonl").read_text(encoding="utf-8").splitlines()) if int(each["n"]) > first_row}
    return len(rows - {int(each) for each in ssh("laptop", "mariadb", "-N", "-e", "'SELECT n FROM footprint.events'").split()})


def run_cell(cell: Cell, here: settings.Lab) -> dict[str, t.Any]:
    """Run one cell; return its row of the table."""
    if journal().get("state") == "done" and playbook("rollback_master").wait() != 0:
        raise RuntimeError("the migration of the previous cell could not be rolled back")
    if cell.fault == "full":
        small_pool(True)
    elif cell.fault.startswith("state-"):
        discard_migration()
        handover.mount_state(cell.fault.partition("-")[2])
    elif cell.phase in ONCE:
        discard_migration()
    if cell.fault.startswith("answer"):
        handover.hold_answer()
    ssh(DESTINATION, "rm", "-f", MARK)
    more = options(cell)
    first_row, since = last_acknowledged(), time.time()
    with AddressWatch(here.bridge, f"{here.net}.2") as watch:
        run = playbook("migrate_master", *more)
        if cell.fault.startswith("answer"):
            await_true("the final hand-over message", lambda: handover.answer_is_held(f"{here.net}.3"), 900)
        elif cell.fault not in ("unbootable", "unhealthy"):
            await_true("the phase", lambda: bool(ssh(DESTINATION, "ls", MARK, ok=False).strip()), 900)
        second = inject(cell, here, run, more)
        began = time.monotonic()
        if cell.fault in ("unbootable", "unhealthy"):
            # the migration is not suspended, and the previous migration has ended as well: wait for the playbook
            run.wait()
        # a host that was powered off is queried again after its boot
        await_true("the end of the migration", at_rest, 900)
        took = time.monotonic() - began
        run.wait()
        ended, serves = journal(), ""
        await_true("a master that serves", writing, SERVICE_TIMEOUT)
        serves = machine()
        remove_fault(cell, here)
        if second is not None and second.wait() != 0:
            raise RuntimeError("the second run of the playbook failed")
        rest = {"master_migrate_rehearse": False, "master_migrate_stop_after": "rehearse" if cell.phase in BEFORE else ""}
        for runs in range(1, 5):
            if playbook("migrate_master", "-e", json.dumps(rest)).wait() == 0:
                break
    expected = "stopped" if cell.phase in BEFORE else "done"
    seen, keys = watch.report(), key_left()
    row: dict[str, t.Any] = {
        "fault": cell.fault,
        "phase": f"{cell.when} {cell.phase}",
        "by itself": ended["state"],
        "served then": "VM" if serves in VMS else "source",
        "after (s)": round(took, 1),
        "longest pause (s)": longest_pause(since),
        "two on the address (s)": seen["seconds_two"],
        "runs until done": runs,
        "rows lost": lost(first_row),
        "key left": ", ".join(keys),
        "reason": ended.get("reason"),
        "held": ended["state"] in cell.ends and journal().get("state") == expected and seen["seconds_two"] == 0 and not keys,
    }
    if cell.fault == "full":
        small_pool(False)
    if cell.fault.startswith("state-"):
        discard_migration()
        handover.mount_state(None)
    return row


def writing() -> bool:
    """Whether rows are being acknowledged."""
    before = last_acknowledged()
    time.sleep(2)
    return last_acknowledged() > before


def machine() -> str:
    """Return what the master is, by itself: ``lxc`` for the source, one of :data:`VMS` for the VM."""
    return ssh("laptop", "systemd-detect-virt", ok=False).strip()


def main() -> int:
    """Run the whole matrix, a slice of it, or the selected cells."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="FAULT[:PHASE]", help="only these faults")
    parser.add_argument("--keep", action="store_true", help="continue with the copy of an earlier migration")
    parser.add_argument("--whole", action="store_true", help="all cells, for hours")
    parser.add_argument("--resume", action="store_true", help="skip the cells that passed with the same code")
    arguments = parser.parse_args()
    only = [each.partition(":") for each in arguments.only]
    cells = [each for each in CELLS if (arguments.whole or only or (each.fault, each.phase, each.when) in SLICE)]
    cells = [each for each in cells if not only or any(fault == each.fault and phase in ("", each.phase) for fault, _colon, phase in only)]
    if not arguments.keep:
        discard_migration()
    results, good = Cells("migration-faults", ("held", "reason"), migration_code.state()), True
    for cell in cells:
        key = (cell.fault, cell.when, cell.phase)
        if arguments.resume and results.held(key):
            continue
        row = run_cell(cell, settings.current())
        row["held"] = row["held"] and row["rows lost"] == 0
        results.add(key, row)
        good = good and row["held"]
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
