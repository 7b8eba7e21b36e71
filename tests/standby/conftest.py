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
from lab_bmcs import Controllers  # noqa: E402
from rflab.plays import play  # noqa: E402
from rflab.settings import current  # noqa: E402

# a cluster of an earlier test fences no server and starts nothing
HARMLESS = "for each in stonith-enabled=false maintenance-mode=true; do timeout 20 crm_attribute -t crm_config -n ${each%=*} -v ${each#*=}; done"
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
def fixture_pair(servers: Pair) -> Pair:
    """Remove all traces of an earlier test from both servers, which are up, and sample the machine on both."""
    _fresh(servers)
    return servers


def _fresh(servers: Pair) -> None:
    for server in (servers.here, servers.there):
        # refused if it is up
        subprocess.run([str(ROOT / "lab" / "lab"), "start", server.name], check=False, capture_output=True)
        eventually(f"{server.name} answers", lambda server=server: server.ssh("virsh list >/dev/null && echo up", check=False).strip() == "up", 120)
    for server in (servers.here, servers.there):
        server.ssh(HARMLESS, check=False)
    for server in (servers.here, servers.there):
        _clear(server)
        _place_image(server)
        server.ssh("cat > /root/sampler.py", given=SAMPLER.encode())
        server.ssh("systemd-run --quiet --unit=sampler python3 /root/sampler.py")


def _place_image(server: Server) -> None:
    """Place the image of the counting machine; also on the second server, to which it is moved, and on one that replaced another."""
    binary = LOGS / "counter.img"
    binary.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["nasm", "-f", "bin", "-o", str(binary), str(ROOT / "tests" / "move" / "counter.asm")], check=True)
    server.ssh(f"mkdir -p {POOL}/images && cat > {POOL}/images/counter.raw && truncate -s 8M {POOL}/images/counter.raw", given=binary.read_bytes())


def _clear(server: Server) -> None:
    server.ssh(
        # a stop would end the machine
        "systemctl kill --signal=KILL pacemaker 2>/dev/null; systemctl disable --quiet --now corosync corosync-qdevice pacemaker corosync-qnetd 2>/dev/null; "
        "rm -rf /var/lib/pacemaker/cib/* /etc/corosync/corosync.conf /etc/corosync/authkey /var/lib/corosync/* /etc/reduced.footprint/failover*; "
        f"systemctl disable --quiet --now reduced-footprint-standby-{VM}.timer reduced-footprint-standby-guard.service; systemctl stop sampler; "
        f"systemctl stop reduced-footprint-standby-{VM}.service; "
        "rm -f /etc/systemd/system/reduced-footprint-standby-* /etc/systemd/system/*.wants/reduced-footprint-standby-*; systemctl daemon-reload; "
        "systemctl reset-failed; "
        f"virsh -q destroy {VM}; virsh -q undefine {VM} --nvram --checkpoints-metadata; "
        "rm -rf /run/libvirt/rf-* /run/reduced.footprint/standby*; cd /var/lib/reduced.footprint && rm -rf secrets* standby* move*; rm -rf "
        f"/etc/reduced.footprint/vms /root/samples {POOL}/{VM}-disk* {POOL}/.{VM}* {POOL}/standby /etc/libvirt/hooks/*.d; "
        "sed -i '/reduced.footprint-migrate/d' /root/.ssh/authorized_keys",
        check=False,
    )


@pytest.fixture(scope="session", name="controllers")
def fixture_controllers(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Controllers]:
    """The management controllers of both servers."""
    with Controllers(tmp_path_factory.mktemp("controllers")) as found:
        yield found


@pytest.fixture(scope="module", name="trio")
def fixture_trio(servers: Pair) -> t.Iterator[Trio]:
    """Add a witness, and sample the processes of the machine instead of asking libvirt; once for the chapters of a file."""
    trio = Trio()
    trio.join()
    subprocess.run([str(ROOT / "lab" / "lab"), "start", trio.witness.name], check=False, capture_output=True)
    _fresh(trio)
    eventually("the witness answers", lambda: trio.witness.ssh("echo up", check=False).strip() == "up", 120)
    _clear(trio.witness)
    for server in (trio.here, trio.there):
        server.ssh("systemctl stop sampler; rm -f /root/samples")
        server.ssh("cat > /root/sampler.py", given=PROCESSES.encode())
        trio.sample(server)
    yield trio
    trio.join()
    for server in (trio.here, trio.there):
        server.ssh(HARMLESS, check=False)
