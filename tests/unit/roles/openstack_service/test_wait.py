# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A drain that a killed restart has left ends, and nothing else is removed."""

from __future__ import annotations

import http.server
import json
import pathlib
import threading
import typing as t

import pytest

from tests.support.control_node import HERE, ControlNode


class _Health(http.server.BaseHTTPRequestHandler):
    text = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *args: t.Any) -> None:
        """Write nothing."""


@pytest.mark.parametrize(("text", "removed"), [(b"OK\n", False), (b"OK, but drained\n", True)])
def test_a_left_drain_ends(tmp_path: pathlib.Path, text: bytes, removed: bool) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Health", (_Health,), {"text": text}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "shop-api.drain").touch()
    unit = {"name": "shop-api.service", "port": server.server_address[1], "program": "/usr/bin/shop"}
    definition = {"name": "shop", "user": "root", "group": "virt", "units": [unit], "files": []}
    role = {"name": "reduced.footprint.openstack_service", "tasks_from": "wait"}
    task = {"ansible.builtin.include_role": role, "vars": {"openstack_service_definition": definition}}
    control = ControlNode(tmp_path)
    fixed = {"__openstack_service_drain": f"{tmp_path}/{{}}.drain", "__openstack_service_address": "127.0.0.1"}
    code, output = control.play([task], "metal2", "-e", json.dumps(fixed), **HERE)
    server.shutdown()
    server.server_close()
    assert code == 0 and (tmp_path / "shop-api.drain").exists() != removed, output
