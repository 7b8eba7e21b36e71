# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What remove_virt_node refuses, and what ends with the VMs of the server."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_server_removal import Found, Wanted, plan

CONFIRMED = Wanted("metal2", "lab", confirmed=True, remove_vms=True)
KEY = {"key_accepted_by": ["metal1", "w1", "gone"], "public_key": "ssh-ed25519 AAAA"}


def source(**more: t.Any) -> dict[str, t.Any]:
    return {"id": "notes", "part": "source", "cluster": "lab", "standby": "metal1", "state": "copied", "automatic": None, **KEY, **more}


def decide(wanted: Wanted, *standbys: t.Any, **more: t.Any) -> dict[str, t.Any]:
    found = Found({"standbys": list(standbys)}, {"stdout": "inactive", "rc": 3}, {})._replace(**more)
    return plan(wanted, found, {"metal1", "metal2", "w1"}, {"controller": []}).as_result()


@pytest.mark.parametrize("state", ["active", "activating", "reloading"])
def test_a_server_on_which_the_cloud_starts_instances_is_refused(state: str) -> None:
    compute = {"stdout": state}
    assert "nova-compute runs on metal2" in decide(CONFIRMED, compute=compute)["msg"]
    assert not decide(CONFIRMED._replace(confirmed=False), compute=compute)["why"]
    assert not decide(CONFIRMED._replace(leave_instances=True), compute=compute)["why"]
    assert not decide(CONFIRMED._replace(migrate_instances=True), compute=compute)["why"]


@pytest.mark.parametrize(
    "compute", [{"msg": "systemctl did not answer"}, {"unreachable": True}, {"rc": 1, "stdout": "", "stderr": "Failed to connect to bus"}]
)
def test_a_cloud_that_cannot_be_asked_is_not_absent(compute: dict[str, t.Any]) -> None:
    for wanted in (CONFIRMED, CONFIRMED._replace(migrate_instances=True)):
        assert "it is unknown whether nova-compute runs on metal2" in decide(wanted, compute=compute)["msg"]
    assert not decide(CONFIRMED._replace(leave_instances=True), compute=compute)["why"]


def test_volumes_on_its_disks_are_named() -> None:
    assert decide(CONFIRMED, volumes=["volumes of local are on the disks of metal2"])["lines"] == ["volumes of local are on the disks of metal2"]


def test_a_server_that_starts_vms_of_others_by_itself_is_refused() -> None:
    entries = [{"id": "web", "part": "standby", "automatic": False}, {"id": "notes", "part": "standby", "automatic": True}, {"id": "db", "part": "standby"}]
    entries += [source(id="mail", automatic=True), {"id": "vault", "part": "ended", "cluster": "lab", "automatic": None}]
    decided = decide(CONFIRMED, *entries)
    assert decided["msg"].startswith("Nothing was changed: metal2 would start notes by itself when its server is lost.") and not decided["steps"]
    assert not decide(CONFIRMED._replace(confirmed=False), *entries)["why"]


@pytest.mark.parametrize("standbys", [{"msg": "broken record"}, {"skipped": True}])
def test_a_list_that_cannot_be_read_is_not_empty(standbys: dict[str, t.Any]) -> None:
    assert "it is unknown whether the server starts VMs of others by itself" in decide(CONFIRMED, standbys=standbys)["msg"]
    assert not decide(CONFIRMED._replace(confirmed=False), standbys=standbys)["why"]


def test_the_copies_of_the_cluster_end() -> None:
    # a VM that was moved is copied by its new server, with its key there
    standbys = [source(automatic=True), source(id="moved", state="moved", automatic=True), source(id="web", cluster="green"), {"id": "db", "part": "standby"}]
    steps = decide(CONFIRMED, *standbys)["steps"]
    assert [(step["action"], step.get("id"), step["host"]) for step in steps] == [
        ("disarm", "notes", "metal2"), ("disarm", "moved", "metal2"), ("leave", None, "metal1"), ("leave", None, "metal2"),
        ("withdraw", "notes", "metal1"), ("withdraw", "notes", "w1"), ("withdraw", "moved", "metal1"), ("withdraw", "moved", "w1"),
        ("end", "notes", "metal2"), ("end", "moved", "metal2"),
    ]  # fmt: skip
    assert steps[4]["public_key"] == KEY["public_key"] and steps[-1]["withdrawn_from"] == KEY["key_accepted_by"]
    # its VMs continue to run, or nothing is changed
    assert not decide(CONFIRMED._replace(remove_vms=False), *standbys)["steps"] and not decide(CONFIRMED._replace(confirmed=False), *standbys)["steps"]
    # without a key, and with a standby that is not in the inventory
    steps = decide(CONFIRMED, source(public_key=None, standby="gone", automatic=True))["steps"]
    assert [step["action"] for step in steps] == ["disarm", "leave", "end"]


def test_the_impact_and_the_quorums_are_returned() -> None:
    servers = [{"name": name, "lost": {"sentence": f"If {name} is lost: nothing."}} for name in ("metal1", "metal2")]
    decided = decide(CONFIRMED._replace(confirmed=False), impact={"servers": servers})
    assert decided["lines"] == ["If metal2 is lost: nothing."] and decided["quorums"] == {"controller": []}
