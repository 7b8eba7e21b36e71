# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VM details that are given to a run: checked with those of the inventory file, and kept in a file beside it."""

from __future__ import annotations

import json
import os
import pathlib
import typing as t

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, Problems
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory, run_kept

DEFAULTS = {"ram": 4, "nics": [{"bridge": "br-admin"}], "disks": [{"size": 20}], "gateway": "192.0.2.1"}
ONE = {"id": "one", "address": "192.0.2.31/24", "roles": ["controller"]}
SERVERS = {"metal1": {"roles": ["virt"], "vms": [ONE]}, "metal2": {"roles": ["virt"]}, "metal3": {"roles": ["compute"]}}
WEB = {"id": "web", "ram": 8, "address": "192.0.2.40/24", "roles": ["controller"]}


def read(file: pathlib.Path, given: t.Any = None) -> run_inventory.Inventory:
    """Read the inventory as the plugin does."""
    problems = Problems()
    servers = run_inventory.parse_servers(SERVERS, "servers", DEFAULTS, problems)
    servers = run_kept.add(servers, str(file), content(file), given, problems)
    plan = run_inventory.parse("blue", servers, problems)
    problems.check()
    return plan


def content(file: pathlib.Path) -> t.Any:
    kept = pathlib.Path(run_kept.file_of(str(file)))
    return yaml.safe_load(kept.read_text("utf-8")) if kept.exists() else None


def upload(file: pathlib.Path, given: t.Any, lasts: bool = True, check: bool = False) -> run_kept.Kept:
    read(file, given)
    return run_kept.keep(str(file), content(file), lasts, check)


@pytest.fixture(name="file")
def fixture_file(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "nodes.yml"


@pytest.mark.parametrize("given", [{"metal2": [WEB]}, json.dumps({"metal2": [WEB]}), {"metal2": json.dumps([WEB])}])
def test_they_are_read_and_kept(file: pathlib.Path, given: t.Any) -> None:
    plan = read(file, given)
    (web,) = (one.vm for one in plan.machines if one.server.name == "metal2")
    assert (web.memory_mib, web.address, web.nics[0].bridge, web.path) == (8192, "192.0.2.40", "br-admin", "spawn_vms_details.metal2[0]")
    checked = upload(file, given, check=True)
    assert checked.changed and "- id: web" in checked.diff["after"] and content(file) is None
    assert upload(file, given) == checked
    assert content(file) == {"plugin": "reduced.footprint.nodes", "part_of": "nodes.yml", "servers": {"metal2": {"vms": [WEB]}}}
    assert os.stat(checked.path).st_mode & 0o777 == 0o600
    assert run_inventory.hosts(read(file), {}) == run_inventory.hosts(plan, {})
    assert upload(file, given) == run_kept.Kept(checked.path, False, {})
    file.write_text("", "utf-8")
    assert run_kept.is_part(checked.path) and not run_kept.is_part(str(file))


def test_kept_ones_are_replaced_and_others_stay(file: pathlib.Path) -> None:
    kept = pathlib.Path(upload(file, {"metal2": [WEB]}).path)
    kept.chmod(0o640)
    kept.write_text(f"{kept.read_text('utf-8')}# edited\n", "utf-8")
    assert not upload(file, {"metal2": [WEB]}).changed and "# edited" in kept.read_text("utf-8")
    diff = upload(file, {"metal2": [{"id": "db"}, {**WEB, "ram": 12}], "metal1": [{"id": "dns"}]}).diff
    assert "ram: 8" in diff["before"] and "ram: 12" in diff["after"]
    assert content(file)["servers"] == {"metal1": {"vms": [{"id": "dns"}]}, "metal2": {"vms": [{**WEB, "ram": 12}, {"id": "db"}]}}
    assert kept.stat().st_mode & 0o777 == 0o640


def test_what_the_inventory_file_has_is_not_kept_again(file: pathlib.Path) -> None:
    assert not upload(file, {"metal1": [ONE]}).changed and content(file) is None
    # moved to the inventory file by the operator, but not removed here
    kept = {"part_of": "nodes.yml", "servers": {"metal1": {"vms": [ONE]}}}
    pathlib.Path(run_kept.file_of(str(file))).write_text(yaml.safe_dump(kept), "utf-8")
    with pytest.raises(InputError, match=r"^nodes.vms.yml: servers.metal1.vms\[0\].id: 'one' is already used at servers.metal1.vms\[0\].id"):
        read(file)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"metal2": [{**WEB, "ram": "much", "cpu": 0}]}, ["2 errors:", "spawn_vms_details.metal2[0].ram: 'much'", "spawn_vms_details.metal2[0].cpu: "]),
        ({"metal2": [{**WEB, "id": "one"}]}, ["spawn_vms_details.metal2[0].id: 'one' is already used at servers.metal1.vms[0].id."]),
        ({"metal1": [{"id": "one"}]}, ["spawn_vms_details.metal1[0].id: 'one' has other values at servers.metal1.vms[0]. Change them there"]),
        ({"metal1": [WEB, {"id": "web"}]}, ["spawn_vms_details.metal1[1].id: 'web' is already used at spawn_vms_details.metal1[0].id."]),
        ({"metal1": [WEB, {"id": "two", "name": "web"}]}, ["spawn_vms_details.metal1[1].name: 'web' is already used at spawn_vms_details.metal1[0].name."]),
        ({"metal2": [{**WEB, "address": "192.0.2.31/24"}]}, ["spawn_vms_details.metal2[0].address: '192.0.2.31' is already used"]),
        ({"metal2": [{**WEB, "gateway": "192.0.3.1"}]}, ["spawn_vms_details.metal2[0].gateway: 192.0.3.1 is not in the network"]),
        ({"metal2": [{**WEB, "ram": "{{ 4 }}"}]}, ["spawn_vms_details.metal2[0].ram: contains a template."]),
        ({"metal2": [{**WEB, "ram": b"4"}]}, ["spawn_vms_details.metal2[0].ram: is text, which is not kept"]),
        ({"metal2": [7]}, ["spawn_vms_details.metal2[0]: is a number, not a mapping."]),
        ({"metal2": {"id": "web"}}, ["spawn_vms_details.metal2: "]),
        ({"metal3": [WEB]}, ["metal3 has VM details but not the role virt."]),
        ("[{}", ["spawn_vms_details: is not valid JSON"]),
        (["web"], ["spawn_vms_details: expected a mapping, got a list."]),
    ],
)
def test_invalid_ones_are_refused_like_those_of_the_inventory(file: pathlib.Path, given: t.Any, words: list[str]) -> None:
    with pytest.raises(Exception) as error:
        read(file, given)
    assert [word for word in words if word not in str(error.value)] == [], error.value


def test_the_file_that_keeps_them_is_checked(file: pathlib.Path) -> None:
    kept = pathlib.Path(upload(file, {"metal2": [WEB]}).path)
    text = kept.read_text("utf-8")
    for before, after, words in (
        ("ram: 8", "ram: [8]", r"^nodes.vms.yml: servers.metal2.vms\[0\].ram: "),
        ("metal2", "metal9", "^nodes.vms.yml: servers.metal9: is not a server of the inventory file. Did you mean"),
        ("vms:", "vmms:", "^nodes.vms.yml: servers.metal2.vmms: is not a known key."),
        ("servers:", "server:", "^nodes.vms.yml.server: is not a known key."),
    ):
        kept.write_text(text.replace(before, after), "utf-8")
        with pytest.raises(InputError, match=words):
            read(file)
    kept.write_text(text, "utf-8")
    with pytest.raises(BackendError, match="nodes.yml does not exist, of which this file is a part."):
        run_kept.is_part(str(kept))


def test_where_it_cannot_be_written_it_is_shown_without_secrets(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"metal2": [{**WEB, "user_data": {"password": "hunter22"}}]}
    lost = upload(file, given, lasts=False)
    assert not lost.changed and "AWX" in lost.refused and "- id: web" in lost.diff["after"] and "hunter22" not in lost.diff["after"]

    def full(*_arguments: t.Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_kept, "write_atomic", full)
        assert upload(file, given).refused == "cannot be written: No space left on device"
    monkeypatch.setattr(run_kept.os, "access", lambda *_arguments: False)
    assert upload(file, given, check=True).refused == "cannot be written: permission denied"
    assert content(file) is None
    assert upload(file, given).changed and "hunter22" in pathlib.Path(lost.path).read_text("utf-8")
