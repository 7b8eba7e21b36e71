# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operations of the move tests on two servers of the lab: run the collection's code there, watch guests, kill workers."""

from __future__ import annotations

import json
import pathlib
import struct
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lab"))

from rflab.settings import current  # noqa: E402

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units  # noqa: E402

CLUSTER = "moves"
POOL = "/var/lib/libvirt/images"
# the first process of a container that holds a shell and little else; it counts, and ends when it is asked to
INIT = """#!/bin/sh
# as a container's systemd it is asked by the signal 38
echo systemd > /proc/$$/comm
trap 'exit 0' TERM 38
while :; do
  n=$(cat /srv/steps 2>/dev/null || echo 0)
  echo $((n + 1)) > /srv/steps.new && mv /srv/steps.new /srv/steps
  sleep 0.2 &
  wait $!
done
"""
# makes the image of that container out of the server's own files
MAKE_ROOT = """
set -e
root=$(mktemp -d)
mkdir -p $root/sbin $root/bin $root/srv $root/proc $root/sys $root/dev $root/etc $root/tmp $root/run
cat > $root/sbin/init
chmod 755 $root/sbin/init
for each in sh sleep cat mv; do
  install -D $(readlink -f $(command -v $each)) $root/bin/$each
  ldd $root/bin/$each | grep -o '/[^ ]*' | while read -r library; do install -D $library $root$library; done
done
tar --create --numeric-owner --owner=0 --group=0 --file $1.new --directory $root .
mv $1.new $1
rm -r $root
"""
RUN = """
import json, sys
sys.path.insert(0, {code!r})
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
given = json.loads({given!r})
try:
    if {what!r} == "move":
        from ansible_collections.reduced.footprint.plugins.module_utils._move.run_move import move
        result = move(given, check_mode={check!r})
    elif {what!r} == "key":
        from ansible_collections.reduced.footprint.plugins.module_utils._keys.run_one_time_key import apply
        result = apply(given, check_mode={check!r})
    elif {what!r} == "standby":
        from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_standby import apply
        result = apply(given, check_mode={check!r})
    elif {what!r} == "standbys":
        from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_standby_info import standbys
        result = standbys(given.get("id"), given.get("cluster"))
    else:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
        result = define_vms(DefineRequest(**given), check_mode={check!r}).as_result()
    print(json.dumps({{"ok": result}}))
except FootprintError as error:
    print(json.dumps({{"error": error.as_result()}}))
"""
# runs on the server: kills the worker once in each of the phases, as soon as it is in one
KILLER = """
import json, subprocess, sys, time
unit, path, *waiting = sys.argv[1:]
until = time.monotonic() + 1500
while waiting and time.monotonic() < until:
    try:
        now = json.load(open(path))
    except (OSError, ValueError):
        now = {}
    if now.get("state") == "running" and now["phase"] == waiting[0]:
        subprocess.run(["systemctl", "kill", "--kill-who=main", "--signal=KILL", unit], check=False)
        print(waiting.pop(0), flush=True)
        time.sleep(1)
    elif now.get("state") in ("moved", "failed"):
        break
    time.sleep(0.005)
"""


class Refused(Exception):
    """The collection refused the request; the text is its message."""


class Server:
    """One server of the lab."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self._code: str | None = None

    def ssh(self, *command: str, given: bytes | None = None, check: bool = True) -> str:
        """Run a command on the server."""
        done = subprocess.run([str(ROOT / "lab" / "lab"), "ssh", self.name, *command], input=given, capture_output=True, check=False)
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stdout.decode()} {done.stderr.decode()}"
        return done.stdout.decode(errors="replace")

    def call(self, what: str, given: t.Mapping[str, t.Any], check: bool = False) -> dict[str, t.Any]:
        """Run the use case of a module, with the code of this checkout, as the module itself calls it.

        :raises Refused: it failed.
        """
        if self._code is None:
            archive = io_units.keep_code(ROOT / ".cache" / "move")
            self._code = f"/root/{archive.name}"
            self.ssh(f"test -s {self._code} || cat > {self._code}", given=archive.read_bytes())
        text = RUN.format(code=self._code, given=json.dumps(given), what=what, check=check)
        said = self.ssh("python3", "-", given=text.encode())
        answer = json.loads(said.strip().splitlines()[-1])
        if "error" in answer:
            raise Refused(answer["error"]["msg"])
        return answer["ok"]

    def state(self, name: str, uri: str = "qemu:///system") -> str:
        """Return the state of a domain, ``gone`` if it does not exist."""
        return self.ssh("virsh", "-c", uri, "domstate", name, check=False).strip() or "gone"

    def runs(self, name: str) -> bool:
        """Whether a domain with any driver is running on this server."""
        return any(self.state(name, uri) in ("running", "paused") for uri in ("qemu:///system", "lxc:///system"))

    def gave_up(self) -> bool:
        """Whether a record says that another server has a VM."""
        return '"former"' in self.ssh("cat /etc/reduced.footprint/vms/*.json 2>/dev/null", check=False)

    def has(self, path: str) -> bool:
        """Whether a path exists."""
        return "yes" in self.ssh(f"test -e {path} && echo yes", check=False)


class Pair:
    """The source and the destination of a move."""

    def __init__(self) -> None:
        net = current().net
        self.here, self.there = Server("metal1", f"{net}.11"), Server("metal2", f"{net}.12")

    def move(self, vm_id: str, state: str = "moved", *, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """Run ``vm_move`` on the source, after a new one-time key was placed."""
        given: dict[str, t.Any] = {"id": vm_id, "cluster": CLUSTER, "state": state, **options}
        if not check and not options.get("destination_lost"):
            self.place_key(vm_id)
        if state == "moved":
            keys = self.there.ssh("cat", "/etc/ssh/ssh_host_ed25519_key.pub").splitlines()
            given["destination"] = {"host": self.there.address, "name": self.there.name, "host_keys": keys}
            if check:
                vm = self.here.call("move", {"id": vm_id, "cluster": CLUSTER, "state": "looked"})["vm_facts"]
                given["destination_facts"] = self.there.call("move", {"id": vm_id, "state": "looked", "vm_facts": vm})["destination_facts"]
        return self.here.call("move", given, check)

    def place_key(self, vm_id: str) -> None:
        """Place the one-time key, restricted as in the playbook."""
        key = self.here.call("move", {"id": vm_id, "state": "prepared"})["public_key"]
        self.there.call("key", {"name": vm_id, "purpose": "move", "state": "present", "public_key": key, "allowed_from": [self.here.address]})

    def left_of_key(self, vm_id: str) -> list[str]:
        """List remains of a move's key and of its sockets on both hosts."""
        found = [line for line in self.there.ssh("cat", "/root/.ssh/authorized_keys").splitlines() if "reduced.footprint-migrate" in line]
        found += self.here.ssh(f"find /var/lib/reduced.footprint/moves/{vm_id} -name 'id_*' -o -name 'known_hosts*'").split()
        return found + [path for server in (self.here, self.there) for path in server.ssh("find /run/libvirt -name 'rf-*'").split()]

    def killed(self, vm_id: str, phases: t.Sequence[str]) -> t.Callable[[], list[str]]:
        """Start killing the worker in these phases; the returned function waits and returns the phases of the kills."""
        unit, journal = f"reduced-footprint-move-{vm_id}.service", f"/var/lib/reduced.footprint/moves/{vm_id}/journal.json"
        self.here.ssh("cat > /root/killer.py", given=KILLER.encode())
        argv = [str(ROOT / "lab" / "lab"), "ssh", self.here.name, "python3", "/root/killer.py", unit, journal, *phases]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, encoding="utf-8")

        def ended() -> list[str]:
            return process.communicate(timeout=1600)[0].split()

        return ended

    def journal(self, vm_id: str) -> dict[str, t.Any]:
        """Return the journal of the move."""
        return json.loads(self.here.ssh("cat", f"/var/lib/reduced.footprint/moves/{vm_id}/journal.json"))

    def phase(self, vm_id: str) -> str:
        """Return the phase of a move; empty before its journal exists."""
        said = self.here.ssh("cat", f"/var/lib/reduced.footprint/moves/{vm_id}/journal.json", check=False)
        return str(json.loads(said)["phase"]) if said.strip() else ""


def container(name: str) -> dict[str, t.Any]:
    """Return the details of a small container."""
    return {
        "id": name, "cpu": 1, "ram": 0.25, "hypervisor": "lxc", "nics": [{"bridge": "br-admin"}],
        "disks": [{"size": "1GiB", "image": "steps", "name": f"{name}-root"}],
    }


def machine(name: str) -> dict[str, t.Any]:
    """Return the details of the counting machine with 32 MiB; its disk is a layer over an image."""
    disk = {"size": "64MiB", "image": "counter", "format": "qcow2", "backing": True, "name": f"{name}-disk0"}
    return {"id": name, "cpu": 1, "ram": "32MiB", "hypervisor": "qemu", "nics": [{"bridge": "br-admin"}], "disks": [disk]}


def remembered(server: Server, name: str) -> tuple[int, int]:
    """Return steps and starts in the memory of the counting machine, which a live move must preserve."""
    said = server.ssh("virsh", "qemu-monitor-command", "--hmp", name, "'xp /2xw 0x8000'")
    steps_taken, starts = said.split()[1:3]
    return int(steps_taken, 16), int(starts, 16)


def counted(server: Server, path: str) -> tuple[int, int]:
    """Return steps and starts on the disk of the counting machine; while it runs, data that QEMU has not flushed are missing."""
    said = server.ssh("qemu-io", "-r", "-U", "-f", "qcow2", "-c", "'read -v 512 8'", path)
    line = next(line for line in said.splitlines() if line.startswith("00000200:"))
    return struct.unpack("<II", bytes.fromhex("".join(line.split()[1:9])))


def steps(server: Server, name: str) -> int:
    """Return the counter of the container."""
    return int(server.ssh("cat", f"{POOL}/{name}-root/srv/steps").strip() or 0)


def eventually(what: str, true: t.Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition is met."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not in {seconds} s: {what}"
        time.sleep(0.5)
