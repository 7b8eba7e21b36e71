# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment of RabbitMQ, as its start script reads it."""

from __future__ import annotations

import pathlib
import subprocess

import jinja2
import pytest

from tests.support.control_node import ROOT


@pytest.mark.parametrize("internode", [False, True])
def test_schedulers_do_not_busy_wait(internode: bool, tmp_path: pathlib.Path) -> None:
    text = (ROOT / "roles/rabbitmq/templates/rabbitmq-env.conf.j2").read_text("utf-8")
    given = {
        "__rabbitmq_node": "rabbit@metal1", "__rabbitmq_long": False, "__rabbitmq_internode": internode, "__rabbitmq_tls_directory": "/tls",
        "__rabbitmq_address": "192.0.2.11",
    }  # fmt: skip
    (tmp_path / "env").write_text(jinja2.Environment(trim_blocks=True).from_string(text).render(**given), "utf-8")
    script = f'. {tmp_path}/env; printf "%s" "$SERVER_ADDITIONAL_ERL_ARGS"'
    found = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert found.startswith("+sbwt none ") and ("-proto_dist inet_tls" in found) == internode
