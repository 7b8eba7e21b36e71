# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parts of a cloud's control plane are killed while clients ask every API and a tenant works; then all controllers lose power.

The figures are recorded in tests/output/controllers/LAB/cloud_failures.json: seconds without an answer of each API, failed requests, and operations
that were left in an intermediate state.
"""

from __future__ import annotations

import collections
import json
import time
import typing as t

import pytest
from cloud_client import REQUESTS, UNANSWERED, Cloud, Operations, Watch
from cloud_lab import CloudLab
from controllers_lab import SERVERS, notes
from support import eventually

pytestmark = pytest.mark.chapter
note = notes("cloud_failures")
#: Seconds for which clients continue after a kill.
AFTER = 90
#: An API may be silent for this long while a database, a queue or OVN chooses another member.
SILENT = 45
#: Unattended, all services answer after this long.
RECOVERED = 420


@pytest.fixture(scope="module", name="cloud")
def fixture_cloud(cloud: Cloud) -> Cloud:
    """Without what an interrupted run has left."""
    Operations(cloud).remove()
    return cloud


def whole(lab: CloudLab) -> bool:
    """Whether the status finds nothing degraded or down."""
    return lab.play("status").rc == 0


def through(lab: CloudLab, cloud: Cloud, what: str, fail: t.Callable[[], str], restore: t.Callable[[str], object] = lambda failed: None) -> None:
    """Let something fail under clients, and record what became of their requests; then restore what does not come back by itself."""
    eventually("nothing is degraded before", lambda: whole(lab), 300)
    with Operations(cloud) as tenant:
        with Watch(cloud) as watch:
            eventually("the tenant works", lambda: len(tenant.done) == 4, 180)
            began, before = time.monotonic(), {kind: len(times) for kind, times in tenant.done.items()}
            failed = fail()
            time.sleep(AFTER)
            restore(failed)
    after = {kind: len(times) - before[kind] for kind, times in tenant.done.items()}
    left = tenant.left()
    stuck = tenant.remove()
    tenant.close()
    note(
        what,
        failed=failed,
        silent_seconds=watch.gaps(),
        answered={port: len(times) for port, times in watch.answered.items()},
        failed_requests=[f"{moment - began:+.1f} s: {text}" for moment, unused, text in watch.failures],
        operations={kind: f"{after[kind]} complete, slowest {max(times[before[kind]:], default=0):.1f} s" for kind, times in tenant.done.items()},
        failed_operations=tenant.failures,
        left=left,
        stuck=stuck,
    )
    assert max(watch.gaps().values()) <= SILENT
    assert not stuck, "objects that their owner cannot remove"
    assert min(after.values()) > 0, after
    eventually("nothing is degraded after", lambda: whole(lab), RECOVERED)


def test_killed_leader_of_the_network_databases(lab: CloudLab, cloud: Cloud) -> None:
    def fail() -> str:
        victim = lab.leader("nb")
        lab.run(victim, ["systemctl", "kill", "--signal=KILL", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb"])
        return victim

    through(lab, cloud, "leader of the OVN databases", fail)


def test_killed_writer_of_the_database(lab: CloudLab, cloud: Cloud) -> None:
    def fail() -> str:
        victim = str(lab.writer_sql("SELECT @@hostname")[0][0])
        assert victim in SERVERS
        lab.run(victim, ["systemctl", "kill", "--signal=KILL", "mariadb"])
        return victim

    through(lab, cloud, "writer of the database", fail)


def test_killed_member_of_the_queues(lab: CloudLab, cloud: Cloud) -> None:
    def fail() -> str:
        text = lab.run(SERVERS[0], ["rabbitmqctl", "-q", "list_queues", "-p", "nova", "--formatter", "json", "name", "leader"])
        leaders = collections.Counter(str(queue["leader"]).partition("@")[2] for queue in json.loads(text))
        victim = next(name for name, unused in leaders.most_common() if name in SERVERS)
        lab.run(victim, ["systemctl", "kill", "--signal=KILL", "rabbitmq-server"])
        return f"{victim}, leader of {leaders[victim]} of {leaders.total()} queues"

    through(lab, cloud, "member of RabbitMQ", fail)


def test_power_loss_of_the_holder_of_the_virtual_address(lab: CloudLab, cloud: Cloud) -> None:
    def fail() -> str:
        victim = lab.holder() or ""
        assert victim in SERVERS
        lab.lose_power(victim)
        return victim

    through(lab, cloud, "power loss of the holder of the virtual address", fail, lab.power_on)


def test_power_loss_of_all_controllers(lab: CloudLab, cloud: Cloud) -> None:
    kept = cloud.upload(b"kept" * 1000)
    lab.lose_power(*SERVERS)
    time.sleep(5)
    lab.power_on(*SERVERS)
    began = time.monotonic()
    seconds: dict[int, float] = {}

    def answered() -> bool:
        for port, path in REQUESTS.items():
            if port not in seconds:
                try:
                    cloud.ask(port, path, timeout=5)
                    seconds[port] = round(time.monotonic() - began, 1)
                except UNANSWERED:
                    pass
        return len(seconds) == len(REQUESTS)

    eventually("all services answer", answered, RECOVERED)
    tenant = Operations(cloud)
    times = {}
    for kind, operate in (("network", tenant.network), ("image", tenant.upload), ("provider", tenant.provider), ("instance", tenant.instance)):
        at = time.monotonic()
        operate()
        times[kind] = round(time.monotonic() - at, 1)
    tenant.close()
    assert cloud.ask(9292, f"/v2/images/{kept}/file") == b"kept" * 1000
    whole_after = eventually("nothing is degraded", lambda: whole(lab), RECOVERED)
    note("power loss of all controllers", answers_after_seconds=seconds, operations_seconds=times, not_degraded_after_seconds=round(whole_after, 1))
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()
