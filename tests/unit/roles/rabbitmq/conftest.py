# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guards of members on three loopback addresses, with the files of a broker; systemctl and the tool of RabbitMQ are of the test."""

from __future__ import annotations

import contextlib
import json
import pathlib
import socket
import sys
import threading
import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import plan_return

from tests.support.program import load

ALL = ["rabbit@a", "rabbit@b", "rabbit@c"]


@pytest.fixture(name="guard", scope="module")
def fixture_guard() -> t.Iterator[types.ModuleType]:
    # the role installs the decision under this name next to the guard
    sys.modules["rabbitmq_return"] = plan_return
    module = load("roles/rabbitmq/files/rabbitmq_guard.py")
    yield module
    del sys.modules["rabbitmq_return"]


class Cluster:
    """The members a, b and c with their files, and the guards of some of them."""

    def __init__(self, guard: t.Any, folder: pathlib.Path) -> None:
        self.guard, self.stack, self.active = guard, contextlib.ExitStack(), set[str]()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.members, self.guards = {}, {}
        for node in ALL:
            home = folder / node
            (home / "mnesia" / node).mkdir(parents=True)
            (home / ".erlang.cookie").write_text("COOKIE")
            addresses = {node: f"127.0.0.{number}" for number, node in enumerate(ALL, 1)}
            settings = {"node": node, "unit": "x.service", "home": str(home), "port": port, "members": addresses, "witnesses": []}
            self.members[node] = guard.Member(settings)
            self.saw(node, *ALL)

    def saw(self, node: str, *seen: str) -> None:
        """Write the broker's files, as it does when a node appears or disappears."""
        nodes = ",".join(f"'{one}'" for one in ALL)
        data = self.members[node].data
        (data / "cluster_nodes.config").write_text(f"{{[{nodes}],[{nodes}]}}.\n")
        (data / "nodes_running_at_shutdown").write_text(f"[{','.join(seen)}].\n")
        self.members[node].keep()

    def khepri(self, node: str, *members: str) -> None:
        """Write the files of a broker with Khepri instead, and what its guard has saved."""
        data = self.members[node].data
        (data.parent / f"{node}-feature_flags").write_text("[khepri_db,quorum_queue].\n")
        for name in ("cluster_nodes.config", "nodes_running_at_shutdown"):
            (data / name).unlink(missing_ok=True)
        self.members[node].record.write_text(json.dumps([list(members)] if members else []))

    def start(self, *nodes: str) -> None:
        for node in nodes:
            guard = self.guard.Guard(self.members[node])
            guard.active = lambda node=node: node in self.active
            self.guards[node] = guard
            server = self.stack.enter_context(self.guard.Server(guard))
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
            self.stack.callback(server.shutdown)

    def why(self, node: str) -> str:
        return str(self.guard.may_start(self.members[node]))


@pytest.fixture(name="cluster")
def fixture_cluster(guard: t.Any, tmp_path: pathlib.Path) -> t.Iterator[Cluster]:
    cluster = Cluster(guard, tmp_path)
    with cluster.stack:
        yield cluster
