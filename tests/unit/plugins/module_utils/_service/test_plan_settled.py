# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""For which services a run has nothing to do."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._service.plan_settled import settled

SAME = {"changed": False, "actions": []}
SKIPPED = {"changed": False, "skipped": True}
HEALTHY = {"problems": [], "facts": {"apis": {}, "drained": []}}


def host(*names: str, members: t.Sequence[str] = ("c1", "c2"), compared: t.Sequence[t.Any] = (SAME, SKIPPED), **health: t.Any) -> dict[str, t.Any]:
    return {"members": {name: list(members) for name in names}, "health": {**{name: HEALTHY for name in names}, **health}, "compared": list(compared)}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"c1": host("nova", "glance"), "c2": host("nova", "glance")}, ["nova", "glance"]),
        # a host without these services, and one without an answer that has none
        ({"c1": host("nova", members=["c1"]), "w1": host(compared=[SKIPPED] * 4), "w2": {}}, ["nova"]),
        ({}, []),
        # a difference on a member concerns all of its services, those of other hosts are not affected
        ({"c1": host("nova"), "c2": host("nova", compared=[{"actions": ["write /etc/nova/nova.conf"]}])}, []),
        ({"c1": host("nova", members=["c1"]), "c2": host("glance", members=["c2"], compared=[{"actions": ["start x"]}])}, ["nova"]),
        # what could not be compared is unknown, as is a service without an answer
        ({"c1": host("nova", members=["c1"], compared=[SAME, {"msg": "the server does not answer"}])}, []),
        ({"c1": host("nova", members=["c1"], nova=None)}, []),
        ({"c1": host("nova", members=["c1"], nova={"problems": [], "facts": None})}, []),
        ({"c1": host("nova")}, []),
        ({"c1": host("galera", members=["c1"], galera={"problems": [], "facts": {}})}, []),
        ({"c1": host("galera", members=["c1"], galera={"problems": [], "facts": {"ready": True}})}, ["galera"]),
        ({"c1": host("galera", members=["c1"], galera={"problems": ["c2 is not ready."], "facts": {"ready": True}})}, []),
        ({"c1": host("rabbitmq", members=["c1"], rabbitmq={"problems": [], "facts": {"drained": True}})}, []),
        ({"c1": host("nova"), "c2": {}}, []),
        ({"c1": host("nova"), "c2": host("glance", members=["c2"])}, ["glance"]),
        # one that does not work, or that load balancers were asked to leave out
        ({"c1": host("nova", "glance", members=["c1"], nova={"problems": ["nova: 503"], "facts": {"drained": []}})}, ["glance"]),
        ({"c1": host("nova", members=["c1"], nova={"problems": [], "facts": {"drained": ["nova-api.service"]}})}, []),
    ],
)
def test_settled(answers: dict[str, t.Any], expected: list[str]) -> None:
    assert settled(answers) == expected
