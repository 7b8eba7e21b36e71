#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run migrations with combined options: boot × quiesce × sync × source_after, in a running lab whose writer continuously writes rows.

Each combination is rehearsed, run, run again without a change, and rolled back; a source that was shut down is powered on before
the rollback. Without ``--whole`` the combinations cover every pair of values. ``--only VALUE`` selects the combinations with this value.
``LAB_NAME`` and ``LAB_NETWORK`` select the lab, as for ``lab/lab``. Writes a table to tests/output; exit code 0 if all passed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
import typing as t

import migration_code
from migration_faults import SERVICE_TIMEOUT, AddressWatch, await_true, lab, longest_pause, lost, settings, writing
from migration_kill import ROOT, journal, last_acknowledged, playbook, ssh, discard_migration

sys.path.insert(0, str(ROOT / "lab"))

from rflab.plays import play  # noqa: E402

from cells import Cells  # noqa: E402

OPTIONS = {
    "boot": ("image", "pxe"),
    "quiesce": ("stop_services", "maintenance_boot"),
    "sync": ("rsync", "rsync_dd"),
    "source_after": ("temp_address", "shutdown"),
}
ALL = tuple(itertools.product(*OPTIONS.values()))
#: Contains every pair of values of two options.
PAIRS = (
    ("image", "stop_services", "rsync", "temp_address"),
    ("image", "maintenance_boot", "rsync_dd", "shutdown"),
    ("pxe", "stop_services", "rsync_dd", "shutdown"),
    ("pxe", "maintenance_boot", "rsync", "shutdown"),
    ("pxe", "maintenance_boot", "rsync_dd", "temp_address"),
)


def unreachable(address: str) -> bool:
    """Whether no machine answers at the address."""
    return not ssh(address, "true; echo reached", ok=False).strip()


def roll_back() -> None:
    """Roll back the previous migration, if it is done, and wait until the source serves."""
    if journal().get("state") != "done":
        return
    here = settings.current()
    if unreachable(f"{here.net}.3"):
        lab("start", "laptop")
        await_true("the source at its temporary address", lambda: not unreachable(f"{here.net}.3"), 180)
    if playbook("rollback_master").wait() != 0:
        raise RuntimeError("the previous migration could not be rolled back")
    await_true("the source that serves", writing, SERVICE_TIMEOUT)


def migrate(combination: t.Sequence[str], here: settings.Lab) -> dict[str, t.Any]:
    """Run one combination; return its row of the table."""
    given = {f"master_migrate_{name}": value for name, value in zip(OPTIONS, combination)}
    extra = ["-e", json.dumps({**given, "master_migrate_rehearse_timeout": 900, "master_migrate_discard_vm_data": True})]
    log = here.state / "log" / f"options-{'-'.join(combination)}.log"
    first_row, since = last_acknowledged(), time.time()
    with AddressWatch(here.bridge, f"{here.net}.2") as watch:
        done = play("reduced.footprint.migrate_master", *extra, log=log)
        result = journal()
        if done.rc == 0:
            await_true("the VM that serves", writing, SERVICE_TIMEOUT)
        again = play("reduced.footprint.migrate_master", *extra, log=log)
    seen, source_off = watch.report(), unreachable(f"{here.net}.3")
    row: dict[str, t.Any] = dict(zip(OPTIONS, combination))
    row |= {
        "state": result.get("state"),
        "rehearsed": bool(result["facts"].get("rehearsal", {}).get("passed")),
        "pause (s)": round(float(result["downtime"].get("seconds") or 0), 1),
        "longest gap of the client (s)": longest_pause(since),
        "rows lost": lost(first_row),
        "two on the address (s)": seen["seconds_two"],
        "source afterwards": "off" if source_off else "at its temporary address",
        "changed when run again": again.changed if again.rc == 0 else "failed",
    }
    serves = ssh("laptop", "systemd-detect-virt", ok=False).strip()
    held = (done.rc, result.get("state"), result.get("verified"), row["rehearsed"], serves in ("qemu", "kvm")) == (0, "done", True, True, True)
    clean = (row["rows lost"], seen["seconds_two"], row["changed when run again"]) == (0, 0, 0)
    row["held"] = held and clean and source_off == (combination[3] == "shutdown")
    return row


def main() -> int:
    """Run the combinations; those with the same ``boot`` run one after the other and use the same copy."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="VALUE", help="only combinations with this value")
    parser.add_argument("--whole", action="store_true", help="all combinations, for hours")
    parser.add_argument("--resume", action="store_true", help="skip the combinations that passed with the same code")
    arguments = parser.parse_args()
    wanted = [each for each in (ALL if arguments.whole else PAIRS) if set(arguments.only) <= set(each)]
    results, boot, good = Cells("migration-options", ("held",), migration_code.state()), "", True
    for combination in sorted(wanted):
        if arguments.resume and results.held(combination):
            continue
        roll_back()
        if combination[0] != boot:
            discard_migration()
            boot = combination[0]
        row = migrate(combination, settings.current())
        results.add(combination, row)
        good = good and row["held"]
    roll_back()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
