# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The master is migrated through a VM that boots over the network and exports its disks over ssh, despite the DHCP server of the source."""

from __future__ import annotations

import json
import pathlib
import subprocess
import threading
import time
import typing as t

import pytest
from rflab.plays import PlayRun, play
from rflab.settings import Lab
from source import LOGS, ROOT, command

UNIT = "reduced-footprint-migrate-master.service"
FOLDER = "/var/lib/reduced.footprint/migrations/master"
STAND_IN = "master-bootstrap"
CACHE = "/var/cache/reduced.footprint/bootstrap-master"
SERVED = "/etc/dnsmasq.d/newmaster.conf"
QEMU_LOG = "/var/log/libvirt/qemu/master-bootstrap.log"
# what there is of a bootstrap system on the server
TRACES = (
    "virsh -q list --all --name | grep bootstrap; systemctl list-units --plain --no-legend 'reduced-footprint-pxe*' | cut -d' ' -f1;"
    " ip -o link | grep -o 'rfb[0-9a-f]*'; pgrep -a 'dnsmasq|nbdfuse' | grep -e rfb -e nbd.unix;"
    " find /var/cache/reduced.footprint /run/reduced.footprint /var/lib/libvirt /var/log/libvirt -name '*bootstrap*' -not -name '*.log.*' 2>/dev/null"
    " | grep -v '/qemu/master-bootstrap.log'; losetup -l --noheadings | grep far; true"
)


def ssh(host: str, *words: str, check: bool = True) -> str:
    """Run a command on a machine of the lab."""
    done = subprocess.run([str(ROOT / "lab" / "lab"), "ssh", host, *words], capture_output=True, encoding="utf-8", check=False, stdin=subprocess.DEVNULL)
    assert not check or done.returncode == 0, f"ssh {host} {words}: {done.stdout} {done.stderr}"
    return done.stdout


def moved(name: str, **values: t.Any) -> PlayRun:
    """Migrate the master of the lab, or continue its migration; keep the output."""
    given = {f"master_migrate_{key}": value for key, value in {"boot": "pxe", "rehearse_timeout": 900, "discard_vm_data": True, **values}.items()}
    return play("reduced.footprint.migrate_master", "-e", json.dumps(given), log=LOGS / f"pxe-{name}.log")


def journal() -> dict[str, t.Any]:
    """Return the journal of the migration."""
    return json.loads(ssh("metal1", "cat", f"{FOLDER}/journal.json"))


def log() -> str:
    """Return the log of the migration."""
    return ssh("metal1", "cat", f"{FOLDER}/log")


def traces() -> list[str]:
    """List remains of a bootstrap system."""
    return ssh("metal1", TRACES).split("\n")[:-1]


def kill_in_precopy() -> None:
    """Kill all processes of the worker unit with signal 9 during the copy, once; systemd restarts it."""
    until = time.monotonic() + 1200
    while time.monotonic() < until:
        time.sleep(2)
        state = ssh("metal1", "cat", f"{FOLDER}/journal.json", check=False)
        if state and json.loads(state)["phase"] == "precopy" and json.loads(state)["progress"].get("percent", 0) >= 5:
            ssh("metal1", "systemctl", "kill", "--kill-who=all", "--signal=KILL", UNIT)
            return


@pytest.fixture(name="intruder")
def fixture_intruder(lab: Lab, tmp_path: pathlib.Path) -> t.Iterator[pathlib.Path]:
    """Another DHCP and TFTP server on the admin network, whose offers iPXE prefers; returns its log."""
    log = tmp_path / "intruder.log"
    (tmp_path / "boot.ipxe").write_text("#!ipxe\necho booted by an intruder\nsleep 3600\n", encoding="ascii")
    tmp_path.chmod(0o755)
    argv = [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--port=0", "--pid-file=", f"--log-facility={log}",
        "--log-dhcp", f"--interface={lab.bridge}", "--except-interface=lo", "--bind-interfaces", "--leasefile-ro", "--no-ping", "--user=root",
        f"--dhcp-range={lab.net}.240,{lab.net}.250,10m", "--dhcp-option-force=175,01:01:7f:b0:01:01", "--dhcp-boot=boot.ipxe",
        "--enable-tftp", f"--tftp-root={tmp_path}",
    ]  # fmt: skip
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    yield log
    assert server.poll() is None, "the intruder's server ended"
    server.terminate()
    server.wait()


def test_check_mode_changes_nothing_and_reports_all_missing_requirements(lab: Lab) -> None:
    before = ssh("metal1", "find", "/var/lib/reduced.footprint", "/var/cache", "-maxdepth", "1", check=False)
    given = ["-e", json.dumps({"master_migrate_boot": "pxe"})]
    checked = play("reduced.footprint.migrate_master", "--check", "--diff", *given, log=LOGS / "pxe-check.log")
    assert checked.rc == 0, checked.output[-6000:]
    assert ssh("metal1", "find", "/var/lib/reduced.footprint", "/var/cache", "-maxdepth", "1", check=False) == before
    assert traces() == []


def test_an_intruder_on_the_admin_network_is_never_booted(intruder: pathlib.Path) -> None:
    done = moved("intruder", stop_after="prepare")
    requests = intruder.read_text(encoding="utf-8")
    assert "started" in requests
    for mac in journal()["facts"]["vm"]["macs"]:
        assert mac not in requests, requests
    assert done.rc == 0, f"{done.output[-5000:]}\n{log()[-3000:]}"
    assert traces() == []


@pytest.fixture(name="from_source")
def fixture_from_source() -> t.Iterator[t.Callable[[], str]]:
    """Return a function that copies the boot files to the source and lets its DHCP and TFTP serve them; it returns the MAC that is answered."""

    def serve() -> str:
        mac = str(journal()["facts"]["vm"]["macs"][0])
        archive = subprocess.run(
            [str(ROOT / "lab" / "lab"), "ssh", "metal1", f"tar --create --directory={CACHE} ."], check=True, capture_output=True, stdin=subprocess.DEVNULL
        ).stdout
        subprocess.run([str(ROOT / "lab" / "lab"), "ssh", "laptop", "tar --extract --no-same-owner --directory=/srv/tftp"], check=True, input=archive)
        config = f"dhcp-host={mac},set:newmaster\\ndhcp-boot=tag:newmaster,boot.ipxe\\nlog-dhcp\\n"
        ssh("laptop", f"printf '{config}' >{SERVED}; systemctl restart dnsmasq")
        return mac

    yield serve
    ssh("laptop", f"rm -f {SERVED} /srv/tftp/boot.ipxe /srv/tftp/vmlinuz /srv/tftp/initrd.img; systemctl restart dnsmasq")


def test_source_boots_a_machine_without_disks_and_keys(from_source: t.Callable[[], str]) -> None:
    done = moved("source-files", pxe_from_source=True, stop_after="prepare")
    assert done.rc == 0, f"{done.output[-5000:]}\n{log()[-3000:]}"
    mac = from_source()
    ssh("metal1", f"truncate --size=0 {QEMU_LOG}")
    done = moved("from-source", pxe_from_source=True, stop_after="partition")
    assert done.rc == 0, f"{done.output[-5000:]}\n{log()[-3000:]}"
    assert "/srv/tftp/initrd.img" in ssh("laptop", "journalctl -b -u dnsmasq --no-pager") and mac in ssh("laptop", "journalctl -b -u dnsmasq --no-pager")
    first, second = ssh("metal1", "cat", QEMU_LOG).split("starting up")[1:]
    assert "rf-disk-0" not in first and "rf-seed" not in first and "blockdev" not in first, first
    assert "rf-disk-0" in second and "rf-seed" in second
    assert [each for each in traces() if CACHE not in each] == []
    done = play("reduced.footprint.rollback_master", log=LOGS / "pxe-back-source.log")
    assert done.rc == 0, done.output[-5000:]
    assert traces() == []


def test_copy_over_the_network_continues_after_a_kill(lab: Lab) -> None:
    command("writer", "start")
    before = len(ssh("metal1", "cat", f"{FOLDER}/log", check=False))
    killer = threading.Thread(target=kill_in_precopy)
    killer.start()
    done = moved("precopy", stop_after="precopy")
    killer.join()
    assert done.rc == 0, f"{done.output[-5000:]}\n{log()[-3000:]}"
    words = log()[before:]
    # one boot served both workers: the second worker found the machine running
    assert words.count(f"the bootstrap system boots as {STAND_IN}") == 1, words
    assert words.count("the bootstrap system answers after") >= 2, words
    state = journal()
    assert state["state"] == "stopped" and state["facts"]["manifest"]["files"] > 10000 and "quiesce" not in state["phases"]
    assert traces() == []


def test_master_is_rehearsed_and_moved(lab: Lab) -> None:
    done = moved("move")
    assert done.rc == 0, f"{done.output[-6000:]}\n{log()[-3000:]}"
    state = journal()
    assert state["state"] == "done" and state["verified"] and state["facts"]["rehearsal"]["passed"]
    assert traces() == []
    assert ssh(f"{lab.net}.2", "systemd-detect-virt").strip() == "qemu"
    report = json.loads(subprocess.run([str(ROOT / "lab" / "lab"), "writer", "report", f"{lab.net}.2"], capture_output=True, check=True).stdout)
    assert report["rows_acked"] > 0 and report["rows_lost"] == 0, report
    again = moved("again")
    assert again.rc == 0 and again.changed == 0, again.changed_tasks()


def test_rollback_leaves_nothing(lab: Lab) -> None:
    done = play("reduced.footprint.rollback_master", log=LOGS / "pxe-back.log")
    assert done.rc == 0, done.output[-5000:]
    assert traces() == []
    assert "qemu" not in ssh("laptop", "systemd-detect-virt", check=False)


def test_rollback_during_the_boot_leaves_nothing(lab: Lab) -> None:
    done = moved("partition", stop_after="partition")
    assert done.rc == 0, done.output[-5000:]
    done = play("reduced.footprint.rollback_master", log=LOGS / "pxe-back-early.log")
    assert done.rc == 0, done.output[-5000:]
    assert traces() == []
