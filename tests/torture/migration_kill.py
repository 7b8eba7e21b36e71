#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kill the worker of a migration in every phase, in a running lab whose writer continuously writes rows.

The worker of one migration is killed with ``kill -9`` once per phase. systemd restarts it; if systemd reaches its restart limit or
the kill ends the run, the playbook is run again. At the end the master must serve from the VM, the corpus of difficult files
must be equal, no acknowledged row may be lost, and no part of the one-time key may be left on either machine.

``LAB_NAME`` and ``LAB_NETWORK`` select the lab, as for ``lab/lab``. Exit code 0 if every check passed.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / (".lab" + (f"-{os.environ['LAB_NAME']}" if os.environ.get("LAB_NAME") else ""))
DESTINATION = "metal1"
UNIT = "reduced-footprint-migrate-master.service"
JOURNAL = "/var/lib/reduced.footprint/migrations/master/journal.json"
PHASES = (
    "preflight",
    "define",
    "prepare",
    "partition",
    "precopy",
    "rehearse",
    "quiesce",
    "final",
    "fixup",
    "verify",
    "cutover",
    "commit",
)
CORPUS = "/srv/corpus"
MARKER = "reduced.footprint-migrate"
# address of the source after it released the admin address
SOURCE_ASIDE = os.environ.get("LAB_NETWORK", "10.213.0.0/24").rpartition(".")[0] + ".3"


def ssh(machine: str, *command: str, given: bytes | None = None, ok: bool = True) -> str:
    """Run a command on a machine of the lab."""
    done = subprocess.run([str(ROOT / "lab/lab"), "ssh", machine, *command], input=given, capture_output=True, check=False)
    if ok and done.returncode != 0:
        raise RuntimeError(f"{machine}: {' '.join(command)}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def playbook(name: str, *more: str) -> subprocess.Popen:
    """Start a playbook of the collection against the lab; the earlier migration of the same lab was rolled back."""
    more = (*more, "-e", "master_migrate_discard_vm_data=true")
    environment = dict(
        os.environ,
        ANSIBLE_CONFIG=str(ROOT / "lab/ansible.cfg"),
        ANSIBLE_INVENTORY=str(LAB / "inventory/nodes.yml"),
    )
    log = open(LAB / f"log/{name}.log", "ab")
    return subprocess.Popen(["ansible-playbook", f"reduced.footprint.{name}", *more], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def journal() -> dict:
    """Return the current journal; empty if there is none."""
    text = ssh(DESTINATION, "cat", JOURNAL, ok=False)
    try:
        return json.loads(text)
    except ValueError:
        return {}


# Runs on the destination: fast enough to catch a phase of a tenth of a second.
KILLER = """
import json, subprocess, sys, time
unit, path, *phases = sys.argv[1:]
until = time.monotonic() + 1500
waiting = list(phases)
while waiting and time.monotonic() < until:
    try:
        now = json.load(open(path))
    except (OSError, ValueError):
        now = {}
    if now.get("state") == "running" and now["phase"] == waiting[0]:
        # systemd may still be restarting the unit after the previous kill
        if subprocess.run(["systemctl", "kill", "--kill-who=main", "--signal=KILL", unit], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            print(waiting.pop(0) + ": killed", flush=True)
            time.sleep(0.5)
    elif now.get("state") == "running" and phases.index(now["phase"]) > phases.index(waiting[0]):
        print(waiting.pop(0) + ": missed", flush=True)
    elif now.get("state") == "done":
        break
    time.sleep(0.01)
for phase in waiting:
    print(phase + ": missed", flush=True)
"""


def killer() -> subprocess.Popen:
    """Start killing the worker once in every phase."""
    argv = [str(ROOT / "lab/lab"), "ssh", DESTINATION, "python3", "-", UNIT, JOURNAL, *PHASES]
    started = subprocess.Popen(argv, stdin=subprocess.PIPE)
    assert started.stdin
    started.stdin.write(KILLER.encode())
    started.stdin.close()
    return started


def discard_migration(*more: str) -> None:
    """Roll back an earlier migration and remove its files, so that no phase is skipped."""
    if journal().get("state") == "done" and playbook("rollback_master", *more).wait() != 0:
        raise RuntimeError("the earlier migration could not be rolled back")
    ssh(DESTINATION, "systemctl", "stop", UNIT, ok=False)
    ssh(DESTINATION, "virsh", "undefine", "master", ok=False)
    ssh(DESTINATION, "rm", "-rf", str(pathlib.Path(JOURNAL).parent), "/var/lib/libvirt/images/master-disk0.img")


def last_acknowledged() -> int:
    """Return the number of the newest acknowledged row of the writer."""
    lines = (LAB / "writer.jsonl").read_text(encoding="utf-8").splitlines()
    return int(json.loads(lines[-1])["n"]) if lines else 0


def key_left() -> list[str]:
    """List remains of the one-time key and of the fence, after the master serves from the VM or the source serves again."""
    where = [SOURCE_ASIDE, "laptop"] if journal().get("state") == "done" else ["laptop"]
    left = [f"{each}: {MARKER}" for each in where if MARKER in ssh(each, "cat", "/root/.ssh/authorized_keys")]
    folder = str(pathlib.Path(JOURNAL).parent)
    list_remains = f"find {folder} -name 'id_*' -o -name 'known_hosts*'; nft list tables bridge; ls /etc/systemd/system | grep -- -fence"
    left += ssh(DESTINATION, list_remains, ok=False).split()
    return left


def corpus(action: str, machine: str) -> str:
    """Create or describe the corpus of difficult files."""
    return ssh(machine, "python3", "-", action, CORPUS, given=(ROOT / "tests/torture/corpus.py").read_bytes())


def main() -> int:
    """Run one migration with a kill in every phase and print the result."""
    more = sys.argv[1:]
    discard_migration(*more)
    corpus("plant", "laptop")
    before = json.loads(corpus("describe", "laptop"))
    # a rollback discards the rows written to the VM and reports them; rows of earlier migrations are not counted here
    first_row = last_acknowledged()
    watcher = killer()
    for runs in range(1, 13):
        # run the playbook again if a kill ended it, as a user would
        if playbook("migrate_master", *more).wait() == 0 and journal().get("state") == "done":
            break
    try:
        watcher.wait(timeout=10)
    except subprocess.TimeoutExpired:
        watcher.kill()
    end = journal()
    after = json.loads(corpus("describe", "laptop"))
    machine = ssh("laptop", "systemd-detect-virt", ok=False).strip()
    differing = sorted(path for path in set(before) | set(after) if before.get(path) != after.get(path))
    rows = {int(each["n"]) for each in map(json.loads, (LAB / "writer.jsonl").read_text(encoding="utf-8").splitlines()) if int(each["n"]) > first_row}
    lost = rows - {int(each) for each in ssh("laptop", "mariadb", "-N", "-e", "'SELECT n FROM footprint.events'").split()}
    keys = key_left()
    sys.stdout.write(
        json.dumps(
            {
                "state": end["state"],
                "runs": runs,
                "downtime": end["downtime"].get("seconds"),
                "verified": end["verified"],
                "master_is": machine,
                "corpus_files": len(before),
                "corpus_differing": [bytes.fromhex(path).decode(errors="replace") for path in differing],
                "rows_acked": len(rows),
                "rows_lost": len(lost),
                "key_left": keys,
            },
            indent=1,
        )
        + "\n"
    )
    return 0 if end["state"] == "done" and not differing and not lost and not keys and machine in ("qemu", "kvm") else 1


if __name__ == "__main__":
    sys.exit(main())
