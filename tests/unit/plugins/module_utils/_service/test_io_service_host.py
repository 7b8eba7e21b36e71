# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._service import io_service_host
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost

SAID = """ExecMainStartTimestamp=Sun 2026-11-22 08:14:31.250000 UTC
NeedDaemonReload=no
LoadState=loaded
ActiveState=active
StateChangeTimestamp=Sun 2026-11-22 08:14:33.500000 UTC
ActiveEnterTimestamp=Sun 2026-11-22 08:14:31.500000 UTC
UnitFileState=enabled

ExecMainStartTimestamp=
NeedDaemonReload=yes
LoadState=loaded
ActiveState=active
StateChangeTimestamp=Sun 2026-11-22 08:14:31.500000 UTC
ActiveEnterTimestamp=Sun 2026-11-22 08:14:31.500000 UTC
UnitFileState=disabled

ExecMainStartTimestamp=n/a
LoadState=masked
ActiveState=inactive
UnitFileState=masked
"""


@pytest.fixture(name="units")
def fixture_units(monkeypatch):
    asked = []
    monkeypatch.setattr(io_service_host, "run", lambda argv, **more: asked.append(argv) or types.SimpleNamespace(stdout=SAID))
    found = ServiceHost.units(["a.service", "b.socket", "c.service"])
    assert len(asked) == 1
    return found


def test_times_have_microseconds(units):
    # a service that is reloaded in the same second in which its file was written is not due again
    second = 1795335271
    assert (units["a.service"].started, units["a.service"].settled) == (second + 0.25, second + 2.5)
    assert (units["b.socket"].started, units["b.socket"].settled) == (second + 0.5, second + 0.5)
    assert (units["c.service"].started, units["c.service"].settled) == (0, 0)


def test_states(units):
    assert [(unit.active, unit.enabled, unit.unread, unit.masked) for unit in units.values()] == [
        (True, True, False, False),
        (True, False, True, False),
        (False, False, False, True),
    ]


def test_without_units_systemd_is_not_called():
    assert ServiceHost.units([]) == {}
