# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab comes up, is what it says, survives power cuts and leaves nothing.

A lab of its own name and network, so a person's lab on the same machine is not
touched. The tests run in order and share that lab.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import time
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The gate gives a network that is free; by hand it is this one.
NAME = os.environ.get("LAB_NAME", "gate")
NET = os.environ.get("LAB_NETWORK", "10.216.0.0/24").removesuffix(".0/24")
STATE = ROOT / f".lab-{NAME}"
ENVIRONMENT = {**os.environ, "LAB_NAME": NAME, "LAB_NETWORK": f"{NET}.0/24"}
#: Seconds that a lab may take from the cache; the first one also fetches packages and builds roots.
FROM_CACHE = 60
FIRST = 300


def lab(*arguments: str, timeout: float = 180, ok: t.Container[int] = (0,)) -> str:
    """A command of the lab; its standard output."""
    argv = [str(ROOT / "lab" / "lab"), *arguments]
    done = subprocess.run(argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode in ok, f"{' '.join(argv)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def status() -> dict[str, t.Any]:
    return json.loads(lab("status", "--json", ok=(0, 3)))


def powered() -> dict[str, bool]:
    return {machine["name"]: machine["power"] == "on" and machine["ssh"] for machine in status()["machines"]}


def eventually(what: str, true: t.Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds:.0f} s"
        time.sleep(1)


def traces() -> dict[str, list[str]]:
    """All that this lab could leave on the machine."""
    run = subprocess.run
    links = [link["ifname"] for link in json.loads(run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout)]
    addresses = run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout
    processes = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            own = f"LAB_NAME={NAME}\0".encode() in (entry / "environ").read_bytes() + b"\0" or os.readlink(entry / "root").startswith(f"{STATE}/")
        except OSError:
            continue
        if (own or f"rflab-{NAME}-" in words) and int(entry.name) not in (os.getpid(), os.getppid()):
            processes.append(words)
    loops = run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"], capture_output=True, text=True, check=True).stdout
    return {
        "mounts": [line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if f"{STATE}/" in line],
        "interfaces": [name for name in links if name == bridge() or name.startswith(f"{bridge().removeprefix('rflab-')}-")],
        "addresses": re.findall(rf"{re.escape(NET)}\.\d+", addresses),
        "processes": processes,
        "loops": [line for line in loops.splitlines() if f"{STATE}/" in line],
        "files": [str(STATE)] if STATE.exists() else [],
        "registry": [str(path) for path in pathlib.Path("/run/rflab").glob(f"{NAME}.json*")],
    }


def bridge() -> str:
    return status()["bridge"]


@pytest.fixture(scope="module", autouse=True)
def _one_lab() -> t.Iterator[None]:
    lab("down")
    yield
    lab("down")


def test_it_comes_up_and_every_machine_answers() -> None:
    began = time.monotonic()
    lab("up", timeout=FIRST)
    assert time.monotonic() - began < FIRST
    assert powered() == {"laptop": True, "metal1": True, "metal2": True}
    assert status()["network"] == f"{NET}.0/24"


def test_a_second_up_keeps_what_runs() -> None:
    before = lab("ssh", "metal1", "cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat")
    began = time.monotonic()
    lab("up")
    assert time.monotonic() - began < 15
    assert lab("ssh", "metal1", "cat", "/proc/sys/kernel/random/boot_id", "/proc/1/stat").split()[22] == before.split()[22]


@pytest.mark.parametrize("name", ["metal1", "metal2"])
def test_a_server_has_nothing_of_ours(name: str) -> None:
    assert lab("ssh", name, "hostname").strip() == name
    assert "running" in lab("ssh", name, "systemctl", "is-system-running", "--wait", ok=(0, 1))
    found = lab("ssh", name, "sh", "-c", "'command -v libvirtd virsh qemu-system-x86_64; ls -d /etc/ansible /var/lib/reduced.footprint 2>/dev/null; true'")
    assert not found.strip()
    assert re.search(rf"eno1\b.*{re.escape(NET)}\.1[12]/24", lab("ssh", name, "ip", "-o", "-4", "address"))
    assert not lab("ssh", name, "ip", "-4", "route", "show", "default").strip()


def test_the_mirror_serves_packages_to_the_servers() -> None:
    lab("ssh", "metal1", "apt-get", "-q", "update")
    assert "Candidate: (none)" not in lab("ssh", "metal1", "apt-cache", "policy", "libvirt-daemon-system", "mariadb-server")


def test_the_master_serves_and_rows_are_written() -> None:
    ask = f"'import urllib.request as u; print(u.urlopen(\"http://{NET}.2:8080/health\").read().decode())'"
    health = json.loads(lab("ssh", "metal1", "python3", "-c", ask))
    assert health["hostname"] == "laptop"
    lab("writer", "start")
    first = json.loads(lab("writer", "report"))["rows_acked"]
    eventually("the writer writes", lambda: json.loads(lab("writer", "report"))["rows_acked"] > first, 10)
    assert json.loads(lab("writer", "report", f"{NET}.2"))["rows_lost"] == 0


def test_the_bridge_keeps_its_mac_without_a_machine() -> None:
    links = json.loads(subprocess.run(["ip", "-json", "address", "show"], capture_output=True, text=True, check=True).stdout)
    (bridge,) = [link for link in links if any(one["local"] == f"{NET}.1" for one in link["addr_info"])]
    ports = [link["address"] for link in links if link.get("master") == bridge["ifname"]]
    # with the MAC of a port, it would have another one after a power cut of that machine
    assert len(ports) > 1 and bridge["address"] not in ports


def test_a_power_cut_and_a_start() -> None:
    lab("kill", "metal2")
    assert not powered()["metal2"]
    lab("start", "metal2")
    assert powered()["metal2"]


def test_a_half_dead_lab_is_cleared() -> None:
    # Everything that keeps the lab together dies at once, as when a person's session is killed.
    keepers = [entry for entry in pathlib.Path("/proc").glob("[0-9]*") if b"rflab." in _read(entry, "cmdline") and _ours(entry)]
    nspawns = [entry for entry in pathlib.Path("/proc").glob("[0-9]*") if f"--directory={STATE}/".encode() in _read(entry, "cmdline")]
    assert keepers and nspawns
    for entry in keepers + nspawns:
        try:
            os.kill(int(entry.name), signal.SIGKILL)
        except ProcessLookupError:
            pass  # it fell with another one
    began = time.monotonic()
    lab("up", "--servers", "1", timeout=FIRST)
    assert time.monotonic() - began < FROM_CACHE * 2
    assert powered()["metal1"] and powered()["laptop"]


def _ours(entry: pathlib.Path) -> bool:
    return f"LAB_NAME={NAME}\0".encode() in _read(entry, "environ") + b"\0"


def _read(entry: pathlib.Path, name: str) -> bytes:
    try:
        return (entry / name).read_bytes()
    except OSError:
        return b""


def test_another_server_joins_later() -> None:
    lab("up", "--servers", "2", timeout=FROM_CACHE)
    assert powered() == {"laptop": True, "metal1": True, "metal2": True}


def test_an_address_range_in_use_is_refused() -> None:
    other = {**ENVIRONMENT, "LAB_NAME": f"{NAME}2"}
    done = subprocess.run([str(ROOT / "lab" / "lab"), "up"], env=other, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert NET in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (ROOT / f".lab-{NAME}2").exists()


def test_down_leaves_nothing_and_can_be_repeated() -> None:
    lab("down")
    assert traces() == {kind: [] for kind in traces()}
    lab("down")
    assert not status()["up"]


def test_a_lab_without_a_laptop_gets_one_later() -> None:
    lab("up", "--no-laptop", "--servers", "1", timeout=FROM_CACHE)
    assert powered() == {"metal1": True}
    for command in (("writer", "start"), ("start", "laptop"), ("kill", "metal3")):
        # refused, with the name of what is missing
        lab(*command, ok=(1,))
    lab("up", "--servers", "1", timeout=FROM_CACHE)
    assert powered() == {"metal1": True, "laptop": True}
    lab("down")
    assert traces() == {kind: [] for kind in traces()}
