# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers of the lab with libvirt; the counting machine runs on the first and is copied to the second."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from standby_pair import POOL, PROCESSES, ROOT, SAMPLER, VM, Pair, Server, Trio, eventually, lab  # noqa: E402
from rflab.plays import play  # noqa: E402
from rflab.settings import current  # noqa: E402

LOGS = ROOT / "tests" / "output" / "standby"


@pytest.fixture(scope="session", name="servers")
def fixture_servers(reuse_lab: bool, keep_lab: bool) -> t.Iterator[Pair]:
    """Return the servers after the role."""
    if not reuse_lab:
        lab("down")
        lab("up", "--servers", "2")
        done = play("reduced.footprint.provision_virt", log=LOGS / "provision.log", inventory=current().state / "inventory")
        assert done.rc == 0, done.output[-4000:]
    yield Pair()
    if not (reuse_lab or keep_lab):
        lab("down")


@pytest.fixture(name="pair")
def fixture_pair(servers: Pair) -> t.Iterator[Pair]:
    """Remove all traces of an earlier test from both servers, which are up, and sample the machine on both."""
    for server in (servers.here, servers.there):
        # refused if it is up
        subprocess.run([str(ROOT / "lab" / "lab"), "start", server.name], check=False, capture_output=True)
        eventually(f"{server.name} answers", lambda server=server: server.ssh("virsh list >/dev/null && echo up", check=False).strip() == "up", 120)
        _clear(server)
        _place_image(server)
        server.ssh("cat > /root/sampler.py", given=SAMPLER.encode())
        server.ssh("systemd-run --quiet --unit=sampler python3 /root/sampler.py")
    yield servers


def _place_image(server: Server) -> None:
    """Place the image of the counting machine; also on the second server, to which it is moved, and on one that replaced another."""
    binary = LOGS / "counter.img"
    binary.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["nasm", "-f", "bin", "-o", str(binary), str(ROOT / "tests" / "move" / "counter.asm")], check=True)
    server.ssh(f"mkdir -p {POOL}/images && cat > {POOL}/images/counter.raw && truncate -s 8M {POOL}/images/counter.raw", given=binary.read_bytes())


def _clear(server: Server) -> None:
    server.ssh(
        f"systemctl disable --quiet --now reduced-footprint-standby-{VM}.timer reduced-footprint-standby-guard.service; systemctl stop sampler; "
        f"systemctl stop reduced-footprint-standby-{VM}.service; systemctl stop reduced-footprint-standby-lease reduced-footprint-standby-takeover; "
        f"rm -f /etc/systemd/system/reduced-footprint-standby-* /etc/systemd/system/*.wants/reduced-footprint-standby-*; "
        # that of a test is a file
        "rm -f /etc/systemd/system.conf.d/reduced-footprint-standby.conf; test ! -f /dev/watchdog0 || rm /dev/watchdog0; systemctl daemon-reload; "
        "systemctl reset-failed; "
        f"virsh -q destroy {VM}; virsh -q undefine {VM} --nvram --checkpoints-metadata; "
        "rm -rf /run/libvirt/rf-* /run/reduced.footprint/standby* /var/lib/reduced.footprint/standby* /var/lib/reduced.footprint/move* "
        "/etc/reduced.footprint/vms /etc/reduced.footprint/standby-armed /root/samples "
        f"{POOL}/{VM}-disk* {POOL}/.{VM}* {POOL}/standby /etc/libvirt/hooks/qemu.d; "
        "sed -i '/reduced.footprint-migrate/d' /root/.ssh/authorized_keys",
        check=False,
    )


@pytest.fixture(scope="session", name="clear")
def fixture_clear() -> t.Callable[[Server], None]:
    """Return a function that removes all traces of an earlier test from another server."""
    return _clear


@pytest.fixture(name="trio")
def fixture_trio(pair: Pair) -> t.Iterator[Trio]:
    """Add a witness, and sample the processes of the machine instead of asking libvirt."""
    trio = Trio()
    trio.join()
    subprocess.run([str(ROOT / "lab" / "lab"), "start", trio.witness.name], check=False, capture_output=True)
    eventually("the witness answers", lambda: trio.witness.ssh("echo up", check=False).strip() == "up", 120)
    _clear(trio.witness)
    for server in (pair.here, pair.there):
        server.ssh("systemctl stop sampler; rm -f /root/samples")
        server.ssh("cat > /root/sampler.py", given=PROCESSES.encode())
        trio.sample(server)
    yield trio
    trio.join()
