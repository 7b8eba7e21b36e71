# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers of the lab with libvirt; the guests to be moved run on the first."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from move_pair import CLUSTER, INIT, MAKE_ROOT, POOL, ROOT, Pair, Server, container, eventually, machine, remembered, steps  # noqa: E402
from rflab.plays import play  # noqa: E402
from rflab.settings import current  # noqa: E402

LOGS = ROOT / "tests" / "output" / "move"


def _lab(*arguments: str) -> None:
    subprocess.run([str(ROOT / "lab" / "lab"), *arguments], check=True)


@pytest.fixture(scope="session", name="servers")
def fixture_servers(reuse_lab: bool, keep_lab: bool) -> t.Iterator[Pair]:
    """Return the servers after the role."""
    if not reuse_lab:
        _lab("down")
        _lab("up", "--servers", "2")
        done = play("reduced.footprint.provision_virt", log=LOGS / "provision.log", inventory=current().state / "inventory")
        assert done.rc == 0, done.output[-4000:]
    pair = Pair()
    for server in (pair.here, pair.there):
        server.ssh("command -v rsync || apt-get install --yes --no-install-recommends rsync")
    _images(pair)
    yield pair
    if not (reuse_lab or keep_lab):
        _lab("down")


def _images(pair: Pair) -> None:
    """Create the images of the guests on the source only: a move copies what it needs."""
    binary = LOGS / "counter.img"
    binary.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["nasm", "-f", "bin", "-o", str(binary), str(ROOT / "tests" / "move" / "counter.asm")], check=True)
    pair.here.ssh(f"mkdir -p {POOL}/images && cat > {POOL}/images/counter.raw && truncate -s 8M {POOL}/images/counter.raw", given=binary.read_bytes())
    pair.here.ssh("cat > /root/make-root", given=MAKE_ROOT.encode())
    pair.here.ssh("bash", "/root/make-root", f"{POOL}/images/steps.tar", given=INIT.encode())


@pytest.fixture(name="pair")
def fixture_pair(servers: Pair) -> t.Iterator[Pair]:
    """Remove all traces of an earlier test from the servers."""
    for server in (servers.here, servers.there):
        _clear(server)
    yield servers


def _clear(server: Server) -> None:
    server.ssh(
        "systemctl stop 'reduced-footprint-move-*'; for d in qemu lxc; do for n in $(virsh -c $d:///system list --all --name); do "
        "virsh -q -c $d:///system destroy $n; virsh -q -c $d:///system undefine $n --nvram 2>/dev/null || virsh -q -c $d:///system undefine $n; done; done; "
        f"rm -rf /run/libvirt/rf-* /var/lib/reduced.footprint/moves /etc/reduced.footprint/vms/*.json {POOL}/c*-root {POOL}/m*-disk0 {POOL}/.[cm]*; "
        "sed -i '/reduced.footprint-migrate/d' /root/.ssh/authorized_keys",
        check=False,
    )


@pytest.fixture(name="guest")
def fixture_guest(pair: Pair) -> str:
    """Create a container that writes a counter to a file five times a second and contains the corpus of difficult files."""
    root = f"{POOL}/c1-root"
    pair.here.call("define", {"cluster": CLUSTER, "vms": [container("c1")], "state": "present"})
    pair.here.ssh("python3", "-", "plant", f"{root}/srv/corpus", given=(ROOT / "tests" / "torture" / "corpus.py").read_bytes())
    pair.here.call("define", {"cluster": CLUSTER, "vms": [container("c1")]})
    eventually("the container counts", lambda: pair.here.has(f"{root}/srv/steps") and steps(pair.here, "c1") > 3)
    return "c1"


@pytest.fixture(name="counter")
def fixture_counter(pair: Pair) -> str:
    """Create a machine that writes a counter to its disk; it ignores shutdown requests."""
    pair.here.call("define", {"cluster": CLUSTER, "vms": [machine("m1")]})
    # a move that completes before the firmware would transfer no recognizable state
    eventually("the machine writes its counter", lambda: remembered(pair.here, "m1")[0] > 3)
    return "m1"
