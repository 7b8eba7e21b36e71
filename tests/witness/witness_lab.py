# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A control plane on two servers, with the laptop as its third vote."""

from __future__ import annotations

import json
import time
import typing as t

from controllers_lab import ControllersLab
from rflab.plays import PlayRun
from support import eventually

DATA = ("metal1", "metal2")
WITNESS = "laptop"
#: The services that vote, and the way to them.
COMPONENTS = ["galera", "rabbitmq", "witness", "load_balancer"]
#: Seconds within which everything must be whole again, without a person, when nothing is broken any more.
RECOVERY = 180


class WitnessLab(ControllersLab):
    """metal1 and metal2 are the group ``controller``, the laptop is the group ``witness``."""

    def write_witness_inventory(
        self, witnesses: t.Sequence[str] = (WITNESS,), groups: t.Mapping[str, t.Sequence[str]] | None = None, **variables: t.Any
    ) -> None:
        """Write the inventory.

        :arg groups: additional groups.
        :arg variables: for all hosts.
        """
        known = {"controller": DATA, "witness": witnesses, **(groups or {})}
        hosts = {WITNESS: {"ansible_host": self.master}}
        # a deployment must not wait for a witness that is off for as long as an operator may want
        variables = {"deploy_controllers_witness_timeout": 10, "footprint_components": COMPONENTS, **variables}
        self.write_inventory(variables, {name: found for name, found in known.items() if found}, hosts)

    def deploys(self, **options: t.Any) -> PlayRun:
        """Run the deployment, which has to succeed."""
        done = self.play("deploy_controllers", **options)
        assert done.rc == 0, f"deploy_controllers failed:\n{done.output[-6000:]}"
        return done

    def refuses(self, *words: str, name: str = "deploy_controllers", **options: t.Any) -> PlayRun:
        """Run a playbook that has to fail with these words and change nothing."""
        done = self.play(name, **options)
        assert done.rc != 0, f"{name} did not fail"
        text = " ".join(done.output.split())
        missing = [word for word in words if word not in text]
        assert not missing, f"{name} does not say {missing}:\n{done.output[-4000:]}"
        assert done.changed == 0, done.changed_tasks()
        return done

    def report(self) -> dict[str, t.Any]:
        """The report of the status playbook, whether all is healthy or not."""
        path = self.state / "status.json"
        path.unlink(missing_ok=True)
        done = self.play("status", "-e", f"status_report_file={path}")
        assert path.exists(), done.output[-3000:]
        return json.loads(path.read_text(encoding="utf-8"))

    def becomes_whole(self, seconds: float = RECOVERY) -> None:
        """Wait until the status is ok again."""
        eventually("all is healthy", lambda: self.report()["state"] == "ok", seconds)

    def status_of(self, host: str, variable: str) -> str:
        """One status variable of the database of a server."""
        statement = f"SHOW GLOBAL STATUS LIKE '{variable}'"
        words = self.run(host, ["mariadb", "--batch", "--skip-column-names", "--execute", statement], check=False).split()
        return words[1] if len(words) > 1 else ""

    def votes(self, host: str) -> int:
        """The number of votes in the component of a server, 0 if that has no quorum."""
        return int(self.status_of(host, "wsrep_cluster_size") or 0) if self.status_of(host, "wsrep_cluster_status") == "Primary" else 0

    def pause_after(self, since: float, settle: float = 12) -> float:
        """The longest time without an acknowledged row since then; rows must be acknowledged again within ``settle`` seconds.

        :arg since: seconds since the epoch.
        """
        time.sleep(settle)
        times = sorted(at for at in self.acknowledged().values() if at >= since - 1)
        assert times and time.time() - times[-1] < 3, f"no row was acknowledged in the last {time.time() - (times or [since])[-1]:.1f} s"
        return max(later - earlier for earlier, later in zip(times, times[1:]))
