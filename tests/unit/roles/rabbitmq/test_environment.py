# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of RabbitMQ, as its start script reads it."""

from __future__ import annotations

import pathlib
import subprocess

import jinja2
import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list

from tests.support.control_node import ROOT


def arguments(folder: pathlib.Path, internode: bool) -> str:
    """Return the arguments of Erlang."""
    text = (ROOT / "roles/rabbitmq/templates/rabbitmq-env.conf.j2").read_text("utf-8")
    given = {
        "__rabbitmq_node": "rabbit@metal1", "__rabbitmq_long": False, "__rabbitmq_internode": internode, "__rabbitmq_tls_directory": "/tls",
        "__rabbitmq_address": "192.0.2.11",
    }  # fmt: skip
    (folder / "env").write_text(jinja2.Environment(trim_blocks=True).from_string(text).render(**given), "utf-8")
    script = f'. {folder}/env; printf "%s" "$SERVER_ADDITIONAL_ERL_ARGS"'
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("internode", [False, True])
def test_schedulers_do_not_busy_wait(internode: bool, tmp_path: pathlib.Path) -> None:
    found = arguments(tmp_path, internode)
    assert found.startswith("+sbwt none ") and ("-proto_dist inet_tls" in found) == internode


def test_streams_are_replicated_at_ports_of_the_members(tmp_path: pathlib.Path) -> None:
    """On a compute server the default ports are closed for members, because consoles of instances use them."""
    words = arguments(tmp_path, False).split()
    first, last = words[words.index("port_range") + 1].strip("{}").split(",")
    (rule,) = [access for access in plan_allow_list.SERVICES["rabbitmq"].access if f"{first}-{last}" in access.ports]
    assert rule.audience == plan_allow_list.PEERS
    assert not set(range(int(first), int(last) + 1)) & set(range(5900, 6924))
