# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans with standbys: where their VMs may be, the space of the copies, and errors with the path of the value."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, plan_footprint
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import servers_from_variables
from tests.support.placement import GIB, server


def vm(**more: t.Any) -> dict[str, t.Any]:
    """A VM with 10 GiB whose standby is metal2."""
    return {"id": "master", "cpu": 1, "ram": 1, "disks": [{"size": "10GiB"}], "standby": "metal2", **more}


def planned(vms: list[dict[str, t.Any]], *servers: dict[str, t.Any]) -> dict[str, t.Any]:
    """The report of a plan."""
    result = plan_footprint(PlanRequest(cluster="lab", servers=list(servers), vms=vms))
    assert result.error is None, result.error
    return result.report


def pool(gib: int, available: int | None = None) -> dict[str, t.Any]:
    """A pool."""
    return {"default": {"capacity": f"{gib} GiB", **({"available": f"{available} GiB"} if available is not None else {})}}


def test_a_vm_is_never_placed_on_its_standby() -> None:
    # metal2 has more memory, which the plan would prefer
    report = planned([vm()], server("metal1", 4), server("metal2", 64))
    assert report["placements"][0]["server"] == "metal1"
    assert report["standbys"] == [{"id": "master", "name": "master", "server": "metal2", "interval_seconds": 900, "copies": 2, "needed_bytes": 20 * GIB}]
    assert "  - master: copied to metal2 every 900 s, 2 copies kept, 20 GiB of space" in report["text"]


def test_the_space_of_copies_is_counted() -> None:
    report = planned([vm()], server("metal1", 4, pools=pool(100)), server("metal2", 4, pools=pool(50)))
    pools = {each["name"]: each["pools"]["default"]["promised_bytes"] for each in report["servers"]}
    assert pools == {"metal1": 10 * GIB, "metal2": 20 * GIB}


@pytest.mark.parametrize(
    ("vms", "servers", "path", "message"),
    [
        ([vm(standby="metal9")], (), "vms[0].standby", "'metal9' is not a server"),
        ([vm(host="metal2")], (), "vms[0].standby", "metal2 is the server of the VM itself"),
        ([vm(standby="metal3")], (), "vms[0].standby", "does not have the role virt"),
        ([vm()], ({"pools": pool(19)},), "vms[0].standby", "need 20 GiB more in the pool default of metal2"),
        ([vm(), vm(id="other")], ({"pools": pool(39)},), "vms[1].standby", "19 GiB is free"),
        ([vm(disks=[{"size": "1GiB", "pool": "fast"}])], ({"pools": pool(99)},), "vms[0].standby", "has no pool fast"),
    ],
)
def test_invalid_standbys(vms: list[dict[str, t.Any]], servers: tuple[dict[str, t.Any], ...], path: str, message: str) -> None:
    second = servers[0] if servers else {}
    machines = [server("metal1", 8), server("metal2", 8, **second), server("metal3", 8, roles=["compute"])]
    with pytest.raises(FootprintError) as caught:
        plan_footprint(PlanRequest(cluster="lab", servers=machines, vms=vms))
    assert caught.value.path == path and message in str(caught.value) and caught.value.hint


def test_a_standby_on_the_server_that_lists_the_vm() -> None:
    machines = [server("metal1", 8), server("metal2", 8, vms=[vm()])]
    with pytest.raises(FootprintError, match=r"servers\[1\].vms\[0\].standby: metal2 is the server of the VM itself"):
        plan_footprint(PlanRequest(cluster="lab", servers=machines))


def test_existing_copies_are_credited() -> None:
    # 20 GiB are needed, 12 are there already, 9 are free
    report = planned([vm()], server("metal1", 4), server("metal2", 4, pools=pool(50, 9), copies={"master": 12 * GIB}))
    assert report["feasible"]
    with pytest.raises(FootprintError, match="need 20 GiB more"):
        planned([vm()], server("metal1", 4), server("metal2", 4, pools=pool(50, 9)))


def test_a_vm_that_was_started_on_its_standby_may_stay_there() -> None:
    machines = [server("metal1", 8, vms=[vm()], runs=[]), server("metal2", 8, runs=["master"])]
    result = plan_footprint(PlanRequest(cluster="lab", servers=machines))
    assert result.error is None


def test_copies_of_the_facts() -> None:
    copies = [{"id": "m", "part": "standby", "used_bytes": 5}, {"id": "x", "part": "source"}]
    found = servers_from_variables({"metal2": {}}, ["metal2"], {}, {}, {"metal2": copies})
    assert found[0]["copies"] == {"m": 5}
