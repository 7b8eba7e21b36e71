# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup ``deploy_plan``: witnesses are checked before any host is changed."""

from __future__ import annotations

import pytest

from ansible.errors import AnsibleError
from ansible.template import Templar
from ansible_collections.reduced.footprint.plugins.lookup import deploy_plan as plugin

GROUPS = {"controller": ["c1", "c2"], "witness": ["w"], "virt": ["metal1", "metal2"]}
HOSTS = {"c1": {"vm_host": "metal1"}, "c2": {"vm_host": "metal2"}, "w": {}, "metal1": {}, "metal2": {}}


@pytest.fixture(autouse=True)
def _options(monkeypatch):
    """Options as Ansible would set them from the documentation."""
    options = {"services": {}, "components": [], "with_dependencies": False, "fail": True}
    monkeypatch.setattr(plugin.LookupModule, "get_option", lambda self, name: options[name])
    monkeypatch.setattr(plugin.LookupModule, "set_options", lambda self, **unused: None)


def planned(groups=None, hosts=None, **variables):
    known = {"hostvars": {**HOSTS, **(hosts or {})}, "groups": {**GROUPS, **(groups or {})}, **variables}
    return plugin.LookupModule(loader=None, templar=Templar(loader=None, variables=known)).run([], variables=known)[0]


def test_a_witness_is_a_step_of_its_own_and_a_member_of_rabbitmq():
    found = {step["name"]: step["hosts"] for step in planned()["steps"]}
    assert (found["galera"], found["rabbitmq"], found["witness"]) == (["c1", "c2"], ["c1", "c2", "w"], ["w"])
    assert "w" not in found["keystone"]
    assert {step["name"]: step["hosts"] for step in planned(rabbitmq_witness="no")["steps"]}["rabbitmq"] == ["c1", "c2"]


@pytest.mark.parametrize(
    "groups, hosts, words",
    [
        ({"witness": ["metal1"]}, {}, "witness: metal1: metal1 cannot be a witness: it is a virt host"),
        ({"witness": ["c1"]}, {}, "witness: c1: c1 cannot be a witness: it is a controller"),
        ({}, {"w": {"vm_host": "metal2"}}, "witness: w: w cannot be a witness: it is on metal2 with c2"),
        ({"witness": ["w", "v"]}, {}, "witness: v: 2 witnesses (w, v) for 2 members with data (c1, c2)"),
        ({"controller": ["c1", "c2", "c3"]}, {}, "witness: w: 3 members with data (c1, c2, c3) and 1 witnesses (w) have 4 votes"),
    ],
)
def test_a_witness_that_does_not_decide_is_refused(groups, hosts, words):
    with pytest.raises(AnsibleError) as refused:
        planned(groups, hosts)
    assert words in str(refused.value)


def test_a_witness_beside_a_third_controller_leaves():
    groups, hosts = {"controller": ["c1", "c2", "c3"]}, {"c3": {}}
    steps = planned(groups, hosts, footprint_witness_leaves=True, footprint_cloud=True)["steps"]
    found = {step["name"]: step["hosts"] for step in steps}
    assert found["rabbitmq"] == ["c1", "c2", "c3", "w"] and found["witness"] == ["w"]
    # whose role never has an even number of members
    assert found["ovn_database"] == ["c1", "c2", "c3"]
