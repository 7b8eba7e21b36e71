# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An old master with UEFI firmware, an NVMe disk, LVM, xfs and a separate /var is moved to a VM that boots in the same way.

It has a volume without a file system, which a service writes to past the page cache, and a container of podman with a volume.
"""

from __future__ import annotations

import json
import subprocess
import time

from rflab.plays import PlayRun, play
from rflab.settings import Lab
from source import LOGS, ROOT, Source, command

LOG = "/var/lib/reduced.footprint/migrations/oldmaster/log"


def request(lab: Lab, source: Source, **more: object) -> list[str]:
    """Variables of the operator, in addition to those of the lab."""
    given = {
        "master_migrate_source": "oldmaster",
        "master_migrate_name": "oldmaster",
        "master_migrate_admin_address": source.address,
        "master_migrate_temporary_address": source.parked,
        "master_migrate_services": ["proof-writer", "proof-raw"],
        "master_migrate_containers": [{"engine": "podman", "name": "counter"}],
        "master_migrate_sync": "rsync_dd",
        "master_migrate_disk_schema": [],
        "master_migrate_disk_size": "5GiB",
        "master_migrate_ram": "1GiB",
        "master_migrate_boot_timeout": 600,
        # source and VM are emulated next to each other: an answer may take longer than a renewal of the default lease waits
        "master_migrate_lease_timeout": 600,
        "master_migrate_health_checks": [{"type": "http", "url": f"http://{source.address}:8080/"}],
        **more,
    }
    beside = source.folder / "old.yml"
    reached = {
        "ansible_host": source.address,
        # the lab's own values speak of the folder of an inventory, and this host comes from another one
        "ansible_ssh_private_key_file": str(lab.key),
        "ansible_ssh_common_args": f"-o UserKnownHostsFile={lab.state}/known_hosts -o StrictHostKeyChecking=no -o IdentitiesOnly=yes",
    }
    beside.write_text(json.dumps({"all": {"hosts": {"oldmaster": reached}}}), encoding="utf-8")
    return ["-i", str(beside), "-e", json.dumps(given)]


def moved(lab: Lab, source: Source, name: str, *arguments: str) -> PlayRun:
    """Run the playbook; keep its output."""
    return play("reduced.footprint.migrate_master", *request(lab, source), *arguments, log=LOGS / f"{name}.log")


def mounts(source: Source) -> dict[str, tuple[str, str]]:
    """Return the mounts of the source: path → (file system, kind of disk)."""
    found = {}
    for line in (source.ssh("findmnt", "--real", "--noheadings", "--list", "--output", "TARGET,FSTYPE,SOURCE") or "").splitlines():
        target, fstype, device = line.split()[:3]
        # podman's own mounts of a running container
        if target.startswith("/var/lib/containers/"):
            continue
        found[target] = (fstype, device.rstrip("0123456789"))
    return found


def identity(source: Source) -> dict[str, str]:
    """Return the identity of the source."""
    texts = {name: source.ssh("cat", f"/etc/{name}") or "" for name in ("machine-id", "hostname", "ssh/ssh_host_ed25519_key.pub")}
    return {**texts, "nic": (source.ssh("ip", "-json", "route", "get", f"{source.lab.net}.1") or "").partition('"dev":"')[2].partition('"')[0]}


def state(source: Source, unit: str, address: str | None = None) -> str:
    """Return the state of a systemd unit."""
    return (source.ssh("systemctl", "show", "--property=ActiveState", "--value", unit, address=address) or "").strip()


def addresses(source: Source, address: str | None = None) -> set[str]:
    """Return the global addresses of the source."""
    links = json.loads(source.ssh("ip", "-json", "address", "show", "scope", "global", address=address) or "[]")
    return {info["local"] for link in links for info in link.get("addr_info", []) if "local" in info}


def check_container_runs(source: Source) -> None:
    """Check that the container runs and continues to write."""
    assert (source.ssh("podman", "inspect", "--format", "{{.State.Running}}", "counter") or "").strip() == "true"
    counted = source.counted()
    time.sleep(5)
    assert len(source.counted()) > len(counted)


def check_copies(source: Source, written: list[int], counted: list[int]) -> None:
    """Compare the raw volume and the container's volume with those of the parked source; both are written to again."""
    # every block of the source, apart from those that the VM has overwritten since
    old, new = source.raw(source.parked), source.raw()
    assert len(old) == len(new) == 40 * 256 and -1 not in old and -1 not in new
    last = max(old)
    assert last >= max(written) and max(new) > last
    assert all(mine == theirs or mine > last for mine, theirs in zip(new, old))
    assert sorted(each for each in new if each) == list(range(1, max(new) + 1))
    kept, continued = source.counted(source.parked), source.counted()
    assert kept[: len(counted)] == counted and continued[: len(kept)] == kept and continued == list(range(len(continued)))
    assert len(continued) > len(kept)
    check_container_runs(source)
    assert state(source, "proof-raw.service", source.parked) == "inactive"
    assert (source.ssh("podman", "ps", "--quiet", address=source.parked) or "").strip() == ""


def test_master_is_moved_and_boots_as_before(lab: Lab, source: Source) -> None:
    before, who = mounts(source), identity(source)
    assert before["/"] == ("xfs", "/dev/mapper/vg0-root") and before["/boot/efi"][1] == "/dev/nvme0n1p"
    checked = moved(lab, source, "1-check", "--check", "--diff")
    assert checked.rc == 0, checked.output[-6000:]
    assert "+UUID=" in checked.output and "vg0-var" in checked.output
    acknowledged, written, counted = source.numbers(), source.raw(), source.counted()

    done = moved(lab, source, "2-move")
    assert done.rc == 0, done.output[-8000:]
    # the same name, the same address; another machine, with the same mounts on other disks
    assert (source.ssh("systemd-detect-virt") or "").strip() == "qemu"
    assert identity(source) == who
    after = mounts(source)
    assert {path: fs for path, (fs, _disk) in after.items()} == {path: fs for path, (fs, _disk) in before.items()}
    assert {disk for _fs, disk in after.values()} == {"/dev/vda"}
    check_copies(source, written, counted)
    assert source.ssh("test", "-d", "/sys/firmware/efi", check=False) is not None
    assert "/dev/vda" in (source.ssh("cat", "/proc/swaps") or "")
    assert (source.ssh("systemctl", "--failed", "--plain", "--no-legend") or "").strip() == ""
    assert state(source, "smartd.service") == "inactive"
    # no acknowledged number is missing, and the master continues to write
    numbers = source.numbers()
    assert numbers[: len(acknowledged)] == acknowledged and numbers == list(range(len(numbers)))
    time.sleep(3)
    assert len(source.numbers()) > len(numbers)
    # all its addresses came along, and none is on two machines
    mine, old = addresses(source), addresses(source, source.parked)
    assert {f"{lab.net}.5", f"{lab.net}.7", "2001:db8:5::5"} <= mine and not mine & old
    # the old machine stands aside, its service held
    assert state(source, "proof-writer.service", source.parked) == "inactive"

    again = moved(lab, source, "3-again")
    assert again.rc == 0 and again.changed == 0, again.changed_tasks()


def test_master_is_started_with_its_host(source: Source) -> None:
    boot = source.ssh("cat", "/proc/sys/kernel/random/boot_id")
    command("kill", "metal1")
    command("start", "metal1")
    until = time.monotonic() + 420
    while source.ssh("cat", "/proc/sys/kernel/random/boot_id", check=False) in (None, boot):
        assert time.monotonic() < until, "the VM did not come back with its host"
        time.sleep(2)
    assert source.numbers()


def test_master_returns_with_its_container(lab: Lab, source: Source) -> None:
    back = play("reduced.footprint.rollback_master", *request(lab, source), log=LOGS / "4-back.log")
    assert back.rc == 0, back.output[-6000:]
    source.wait()
    # the program on the source that has started the container ends, and the container must not end with it
    until = time.monotonic() + 300
    while state(source, "reduced-footprint-source-oldmaster.service") != "inactive":
        assert time.monotonic() < until, "the lease is over, and its program still runs"
        time.sleep(2)
    check_container_runs(source)
    assert source.numbers() and state(source, "proof-raw.service") == "active"


def test_master_is_moved_over_a_network_boot(lab: Lab, source: Source) -> None:
    acknowledged, written, counted = source.numbers(), source.raw(), source.counted()
    done = moved(lab, source, "5-pxe", "-e", json.dumps({"master_migrate_boot": "pxe", "master_migrate_discard_vm_data": True}))
    assert done.rc == 0, done.output[-8000:]
    # the raw volume was copied to disks that the bootstrap system has
    log = subprocess.run([str(ROOT / "lab" / "lab"), "ssh", "metal1", "cat", LOG], capture_output=True, encoding="utf-8", check=True).stdout
    _image, booted, network = log.partition("the bootstrap system boots as oldmaster-bootstrap")
    assert booted and "/dev/mapper/vg0-raw: " in network, log
    assert (source.ssh("systemd-detect-virt") or "").strip() == "qemu"
    numbers = source.numbers()
    assert numbers[: len(acknowledged)] == acknowledged and numbers == list(range(len(numbers)))
    check_copies(source, written, counted)
