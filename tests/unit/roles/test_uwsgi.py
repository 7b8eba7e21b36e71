# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Services under uWSGI say that they close their connections; otherwise HAProxy uses one again that is being closed, and loses the request."""

from __future__ import annotations

import pathlib

import pytest

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
TEMPLATES = sorted(path for path in ROLES.glob("*/templates/*") if "http-socket = " in path.read_text("utf-8"))


def test_there_are_templates() -> None:
    assert {path.parts[-3] for path in TEMPLATES} >= {"keystone", "openstack_service"}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.parts[-3])
def test_answers_announce_that_the_connection_is_closed(path: pathlib.Path) -> None:
    assert "add-header = Connection: close" in path.read_text("utf-8").splitlines()
