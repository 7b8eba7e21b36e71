# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Operations of the tests of the automatic start: waiting, samples of both servers, and plays as an operator runs them."""

from __future__ import annotations

import bisect
import pathlib
import time
import typing as t

import yaml
from lab_bmcs import Controllers
from rflab.plays import play
from rflab.settings import current
from standby_pair import CLUSTER, VM, Server, Trio, eventually, machine, sampled

# on a machine with other work
TAKEN = 120.0
#: Longer than the time after which the other server starts the machine.
NOTHING = 45.0


def ready(trio: Trio, home: Server | None = None) -> None:
    """Wait until the machine would be started on the other server if its own is lost."""
    try:
        # Pacemaker tries a management controller that has failed again after five minutes
        eventually("it is automatic", lambda: trio.entry(home or trio.here)["automatic_problem"] is None, 360)
    except AssertionError:
        print(trio.entry(home or trio.here), logs(trio), sep="\n")
        raise


def logs(trio: Trio) -> str:
    """Return the state of the cluster and the ends of the logs, for messages."""
    command = "crm_mon -1 -r -f; journalctl -n 40 --no-pager -u pacemaker -u 'reduced-footprint-standby-*'"
    return "".join(server.ssh(command, check=False) for server in (trio.here, trio.there))


def copied(trio: Trio, home: Server | None = None) -> None:
    """Wait until the machine has a copy and is automatic."""
    eventually("it is copied", lambda: trio.entry(home or trio.here)["state"] == "copied", 180)
    ready(trio, home)


def running(server: Server) -> list[float]:
    """Return the times at which the machine ran on a server."""
    return [at for at, state in sampled(server) if state == "running"]


def check_never_two(trio: Trio) -> None:
    """Compare the samples of both servers."""
    here, there = running(trio.here), running(trio.there)
    near = [(each, bisect.bisect_left(there, each - 0.5)) for each in here]
    assert not [(each, there[at]) for each, at in near if at < len(there) and there[at] < each + 0.5], "it ran twice"


def taken(trio: Trio, lost: float, server: Server | None = None) -> float:
    """Wait for the start on the second server; returns the seconds since the loss."""
    target = server or trio.there
    try:
        eventually("the second server starts it", lambda: any(at > lost for at in running(target)), TAKEN)
    except AssertionError:
        print(logs(trio))
        raise
    return next(at for at in running(target) if at > lost) - lost


def forget_samples(trio: Trio) -> None:
    """Begin the samples again, for example after a move, during which both servers have a process of the machine."""
    for server in (trio.here, trio.there):
        server.ssh("rm -f /root/samples")


def up(trio: Trio, server: Server) -> None:
    """Wait until a server answers after a start, and sample the machine on it."""
    eventually(f"{server.name} is back", lambda: server.ssh("virsh list >/dev/null && echo up", check=False).strip() == "up", 180)
    trio.sample(server)


def knows(server: Server) -> None:
    """Wait until a server knows that the machine was started on the other one."""
    eventually("it knows", lambda: server.gave_up() and server.state(VM) != "running", 120)


class Operator:
    """Plays about the machine, with an inventory of their own."""

    def __init__(self, trio: Trio, folder: pathlib.Path, controllers: Controllers) -> None:
        self.trio, self.inventory, self._folder, self._controllers = trio, folder / "hosts.yml", folder, controllers
        text = (current().state / "inventory" / "group_vars" / "all.yml").read_text("utf-8")
        shared = yaml.safe_load(text.replace("{{ inventory_dir }}/..", str(current().state)))
        known = {"expert_mode": True, "footprint_cluster": CLUSTER, "virt_guests_allow_emulation": True, "spawn_vms_wait": False}
        self._variables = {**shared, **known}
        self._count = 0
        secret = folder / ".secrets" / CLUSTER / "bmc" / "lab.txt"
        secret.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        secret.write_text(controllers.password + "\n", "utf-8")
        secret.chmod(0o600)

    def write(
        self, home: str = "metal1", standby: str | None = "metal2", automatic: bool = True, bmcs: t.Sequence[str] = ("metal1", "metal2"), **more: t.Any
    ) -> None:
        """Write the inventory.

        :arg home: the server whose VM details contain the machine.
        :arg bmcs: servers with a management controller.
        :arg more: variables; by default the laptop is the witness.
        """
        machines = {each.name: each for each in (self.trio.here, self.trio.there, self.trio.witness)}
        servers: dict[str, dict[str, t.Any]] = {
            name: {"ansible_host": machines[name].address, "node_roles": ["virt"]} for name in ("metal1", "metal2")
        }
        for name in bmcs:
            servers[name]["bmc"] = self._controllers.entry(name)
        details = {"standby": {"server": standby, "interval": 3600, "automatic": automatic}} if standby else {}
        servers[home]["vms"] = [{**machine(), **details}]
        children = {"virt": {"hosts": servers}, "others": {"hosts": {"laptop": {"ansible_host": self.trio.witness.address}}}}
        given = {"standby_witnesses": ["laptop"], **more}
        variables = {**self._variables, **{name: value for name, value in given.items() if value is not None}}
        self.inventory.write_text(yaml.safe_dump({"all": {"vars": variables, "children": children}}), "utf-8")

    def run(self, name: str, *more: str, fails: str | None = None, says: str = "") -> int:
        """Run a playbook; returns the number of changed tasks.

        :arg more: variables as ``name=value``, and options.
        :arg fails: what the error says; ``None`` if there is none.
        """
        given = [word for each in more for word in ((each,) if each.startswith("-") else ("-e", each))]
        self._count += 1
        began = time.time()
        done = play(f"reduced.footprint.{name}", *given, inventory=self.inventory, log=self._folder / f"{self._count:02}-{name}.log")
        print(f"{name} {' '.join(more)}: {done.rc}, {done.changed} changed, {time.time() - began:.0f} s", done.changed_tasks(), flush=True)
        text = " ".join(done.output.split())
        errors = [line for line in done.output.splitlines() if line.startswith(("[ERROR]", "fatal:", "failed:"))]
        assert (done.rc != 0) == (fails is not None) and (fails or "") in text and says in text, "\n".join([*errors, done.output[-4000:]])
        return done.changed

    def begin(self, **more: t.Any) -> None:
        """Create the machine, and wait until it is automatic."""
        self.write(**more)
        assert self.run("spawn_vms") > 0
        copied(self.trio)
