# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one host contributes to the status."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_cloud, run_status
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError

GIVEN: dict[str, t.Any] = {"server": False, "services": [], "cloud": False, "probes": {}, "cluster": "blue", "environment": "lab", "query_timeout": 5}
GIVEN["checks"] = False


def look(request: t.Any) -> dict[str, t.Any]:
    """The services, of which one hangs and one cannot be read."""
    (name,) = request.services
    if name == "rabbitmq":
        time.sleep(600)
    if name == "memcached":
        raise BackendError("broken.")
    return {"addresses": ["192.0.2.1"], "services": {name: {"units": {}, "cluster": request.cluster}}, "problems": []}


def refuse(*_unused: t.Any) -> t.Any:
    raise BackendError("libvirt does not answer.")


def test_a_service_that_hangs_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "look", look)
    parts = run_status.gather({**GIVEN, "services": ["galera", "rabbitmq", "memcached"]})
    assert sorted(parts) == ["clock", "controlplane"] and parts["clock"]["value"]["time"]
    found = parts["controlplane"]["value"]
    assert found["addresses"] == ["192.0.2.1"] and found["services"]["galera"]["cluster"] == "lab"
    assert found["services"]["rabbitmq"]["unknown"] == "no answer within 5 s" and found["services"]["memcached"]["unknown"] == "broken."


def test_a_server_is_asked_for_its_vms_and_what_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "read_vms", refuse)
    monkeypatch.setattr(run_status, "standbys", lambda vm_id, cluster: [{"id": vm_id, "cluster": cluster}])
    parts = run_status.gather({**GIVEN, "server": True, "probes": {"shop": "1"}})
    assert parts["vms"] == {"error": "libvirt does not answer."} and parts["standbys"] == {"value": [{"id": None, "cluster": "blue"}]}
    assert parts["migrations"] == {"value": []} and parts["probes"] == {"value": {"shop": "nothing listens on port 1"}}
    with pytest.raises(InputError, match="is not a probe"):
        run_status.gather({**GIVEN, "probes": {"shop": "x"}})


@pytest.mark.parametrize(("role", "asked"), [("leader", ["m1"]), ("follower", None)])
def test_the_cloud_is_asked_where_it_is_known(role: str, asked: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "look", look)
    monkeypatch.setattr(run_status.run_ovn, "look", lambda _databases: {"databases": {"OVN_Northbound": {"role": role}}})
    monkeypatch.setattr(io_cloud, "chassis", lambda _timeout: ["m1"])
    monkeypatch.setattr(io_cloud, "compute_services", lambda _timeout: ["m2"])
    parts = run_status.gather({**GIVEN, "cloud": True, "services": ["galera", "ovn_database"]})
    assert parts["compute"] == {"value": ["m2"]} and parts["chassis"] == {"value": asked}
    assert "compute" not in run_status.gather({**GIVEN, "cloud": True, "services": ["ovn_database"]})
    assert sorted(run_status.gather({**GIVEN, "services": ["galera", "ovn_database"]})) == ["clock", "controlplane"]


def test_checks_are_only_read_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "read_vms", refuse)
    monkeypatch.setattr(run_status, "standbys", lambda vm_id, cluster: [])
    assert sorted(run_status.gather({**GIVEN, "server": True})) == ["clock", "memory", "migrations", "pools", "standbys", "vms"]
    parts = run_status.gather({**GIVEN, "server": True, "checks": True})
    assert {"links", "file_systems", "disks", "units", "restart", "keys", "run", "pools", "record", "moves"} <= set(parts)
    # this machine has links and files, and no libvirt that the collection has prepared
    assert parts["links"]["value"] and parts["file_systems"]["value"] and parts["keys"] and parts["run"] == {"value": {}}
    assert not {"pools", "record", "moves"} & set(run_status.gather({**GIVEN, "checks": True}))
