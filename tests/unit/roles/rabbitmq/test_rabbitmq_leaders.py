# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that moves leaders away from a witness: what it asks of the broker. `tests/witness` has the answers of a real one."""

from __future__ import annotations

import pathlib
import subprocess

import jinja2
import pytest

from tests.support.control_node import ROOT

TOOL = "/usr/lib/rabbitmq/bin/rabbitmqctl"


@pytest.fixture(name="expression")
def fixture_expression(tmp_path: pathlib.Path) -> str:
    """Run the script with a tool that prints its last argument."""
    tool, script = tmp_path / "rabbitmqctl", tmp_path / "rabbitmq_leaders"
    tool.write_text('#!/bin/sh\n[ "$1 $2 $#" = "-q eval 3" ] && printf "%s" "$3"\n', "ascii")
    tool.chmod(0o755)
    text = jinja2.Template((ROOT / "roles/rabbitmq/templates/rabbitmq_leaders.j2").read_text("utf-8")).render(__rabbitmq_home=tmp_path)
    assert text.count(TOOL) == 1
    script.write_text(text.replace(TOOL, str(tool)), "utf-8")
    return " ".join(subprocess.run(["sh", script], capture_output=True, encoding="utf-8", check=True).stdout.split())


@pytest.mark.parametrize("opening, closing", ["()", "[]", "{}"])
def test_it_is_one_complete_expression(expression: str, opening: str, closing: str) -> None:
    assert expression.endswith("}.") and expression.count(opening) == expression.count(closing) > 0


def test_leaders_of_quorum_queues_are_moved(expression: str) -> None:
    assert "rabbit_quorum_queue:transfer_leadership(Queue, Node) || Queue <- rabbit_amqqueue:list_local_leaders()" in expression


def test_leaders_of_streams_are_moved_where_the_broker_can_choose(expression: str) -> None:
    streams = expression.partition("Streams = ")[2]
    order = [
        "restart_stream(Stream, #{preferred_leader_node => Node}) ||",
        "erlang:function_exported(rabbit_stream_coordinator, restart_stream, 2),",
        "Stream <- rabbit_amqqueue:list_by_type(rabbit_stream_queue),",
        # only those whose leader is here, to a replica that runs
        "{_, writer} <- [maps:get(node(), Members, none)],",
        "{Replica, {Pid, replica}} <- maps:to_list(Members), is_pid(Pid)",
    ]
    places = [streams.find(text) for text in order]
    assert -1 not in places and places == sorted(places)
