# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import plan_source
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import Container


def test_the_first_boot_of_the_copy_starts_the_containers_once():
    files = plan_source.container_files([{"engine": "podman", "name": "web"}, {"engine": "docker", "name": "db"}])
    unit = files["/etc/systemd/system/reduced-footprint-containers.service"]
    # the unit ends, and the monitors of its containers must not end with it
    scope = "ExecStart=-systemd-run --quiet --scope --collect"
    assert unit.index(f"{scope} podman start web\n") < unit.index(f"{scope} docker start db\n")
    assert "After=network-online.target docker.service podman.service\n" in unit
    (drop_in,) = (path for path in files if path.endswith(".conf"))
    assert f"ExecStartPost=/bin/rm -f {drop_in}\n" in unit
    assert plan_source.container_files([]) == {}


def test_containers_of_a_source_are_those_named_or_all_that_run():
    source = {
        "containers": [{"engine": "podman", "name": "web", "state": "running"}, {"engine": "podman", "name": "off", "state": "stopped"}],
        "running_containers": [{"engine": "podman", "name": "web"}, {"engine": "podman", "name": "more"}],
    }
    assert [each["name"] for each in plan_source.containers_of(source, everything=False)] == ["web"]
    assert [each["name"] for each in plan_source.containers_of(source, everything=True)] == ["web", "more"]


def test_problems_name_their_path():
    source = {
        "services": {"a.service": {"load": "loaded"}, "b.service": {"load": "not-found"}},
        "containers": [{"engine": "docker", "name": "x", "state": "missing"}, {"engine": "podman", "name": "y", "state": "no engine"}],
        "asks_passphrase": "root",
    }
    containers = [Container("docker", "x"), Container("podman", "y")]
    assert [each[2] for each in plan_source.source_problems(["x"], containers, "maintenance_boot", source)] == [
        "services",
        "containers[0]",
        "containers[1].engine",
        "quiesce",
    ]
    assert [each[2] for each in plan_source.source_problems(["x"], [], "stop_services", source)] == ["services"]


def test_services_that_run_without_a_login_are_a_problem_if_everything_stops():
    source = {"user_services": {"ann": ["web.service", "libpod-1.scope"]}}
    assert list(plan_source.source_problems(["mariadb.service"], [], "stop_services", source)) == []
    for services, quiesce in ((["all"], "stop_services"), (["mariadb.service"], "maintenance_boot")):
        ((message, hint, path),) = plan_source.source_problems(services, [], quiesce, source)
        assert "ann" in message and "web.service, libpod-1.scope" in message and "disable-linger ann" in hint and path == "services"
