# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one-time key of a move: permitted and refused commands, removal after every end of a move; a live move opens no port."""

from __future__ import annotations

import time

import pytest
from move_pair import POOL, Pair, Refused, remembered

FOLDER = "/var/lib/reduced.footprint/moves"
# records TCP listeners until the stop file exists
SAMPLE = "rm -f /root/stop; while ! test -e /root/stop; do ss -Hltn | awk '{print $4}'; sleep 0.05; done | sort -u > /root/listeners"


def asked(pair: Pair, vm_id: str, *command: str) -> str:
    """Run a command with the key; return its output with the exit code of ssh at the end."""
    argv = f"ssh -F /dev/null -i {FOLDER}/{vm_id}/id_ed25519 -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no"
    quoted = " ".join(f"'{word}'" for word in command)
    return pair.here.ssh(f"timeout 20 {argv} -o UserKnownHostsFile=/dev/null -l root {pair.there.address} {quoted} </dev/null 2>&1; echo rc=$?", check=False)


def test_key_runs_only_the_programs_of_the_move(pair: Pair, guest: str) -> None:
    pair.place_key(guest)
    line = next(line for line in pair.there.ssh("cat", "/root/.ssh/authorized_keys").splitlines() if "footprint-migrate" in line)
    assert line.startswith(f'from="{pair.here.address}",restrict,expiry-time="') and "command=" in line
    for command in (
        ("id",), (), ("cat", "/etc/shadow"), ("rsync --server -vlogDtpre.iLsfxCIvu . /root/",), ("rsync --server --sender --remove-source-files -l . /",),
        ("PYTHONPATH=/var/lib/reduced.footprint/lib/x.zip python3 -c 1",), ("true; id",),
    ):  # fmt: skip
        said = asked(pair, guest, *command)
        assert "uid=0" not in said and "root:" not in said, said
        assert "rc=126" in said or "rc=255" in said, said
    forwarding = asked(pair, guest, "-W", "127.0.0.1:22") + asked(pair, guest, "-tt", "bash")
    assert "SSH-2.0" not in forwarding and "root@" not in forwarding
    # another VM's move is none of its business
    other = "python3 -m ansible_collections.reduced.footprint.plugins.module_utils._move.run_agent state move-other"
    assert "rc=126" in asked(pair, guest, f"PYTHONPATH=/var/lib/reduced.footprint/lib/{'0' * 32}.zip {other}")
    own = other.replace("move-other", f"move-{guest}")
    assert "rc=1" in asked(pair, guest, f"PYTHONPATH=/var/lib/reduced.footprint/lib/{'0' * 32}.zip {own}")


def test_expired_key_is_refused(pair: Pair, guest: str) -> None:
    pair.place_key(guest)
    pair.there.ssh("sed -i 's/expiry-time=\"[0-9]*/expiry-time=\"20200101000000/' /root/.ssh/authorized_keys")
    assert "Permission denied" in asked(pair, guest, "id")


def test_live_move_opens_no_port(pair: Pair, counter: str) -> None:
    before = {server.name: set(server.ssh("ss -Hltn | awk '{print $4}'").split()) for server in (pair.here, pair.there)}
    for server in (pair.here, pair.there):
        server.ssh("cat > /root/sample", given=SAMPLE.encode())
        server.ssh("nohup sh /root/sample >/dev/null 2>&1 &")
    time.sleep(0.5)
    done = pair.move(counter)
    assert done["method"] == "live"
    for server in (pair.here, pair.there):
        server.ssh("touch /root/stop; sleep 0.5")
        seen = set(server.ssh("cat", "/root/listeners").split())
        assert seen >= {each for each in before[server.name] if each.endswith(":22")}, "the sampling did not work"
        # a guest's screen is a socket, not a port
        assert seen - before[server.name] == set()
    assert remembered(pair.there, counter)[1] == 1
    assert pair.left_of_key(counter) == []


def test_failed_move_leaves_no_key(pair: Pair, counter: str) -> None:
    pair.there.ssh(f"truncate -s 1M {POOL}/m1-disk0")
    with pytest.raises(Refused, match="already exists at the destination"):
        pair.move(counter)
    assert pair.left_of_key(counter) == []
