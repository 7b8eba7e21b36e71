# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run without a change loads: on a host each module is compiled again in each run, so what only a change needs waits for one."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[6]
UTILS = ROOT / "plugins" / "module_utils"

# what makes, changes, removes or explains
CHANGES = (
    "_vm.storage.io_images", "_vm.apply.io_live", "_vm.storage.io_room", "_vm.storage.io_volume_files", "_vm.storage.io_volume_pools",
    "_vm.storage.io_remote_volumes",
    "_vm.compare.plan_apply_class", "_vm.storage.plan_volumes_missing", "_vm.apply.run_adopt", "_vm.apply.run_apply", "_vm.template.run_blame",
    "_vm.apply.run_check", "_vm.compare.run_diff", "_vm.compare.run_facts", "_vm.apply.run_live", "_vm.storage.run_missing",
    "_vm.apply.run_moved", "_vm.storage.run_removal", "_vm.apply.xml_device_forms", "_vm.compare.xml_merge",
)  # fmt: skip
# what only moved VMs, containers, host keys and commands need, and what of Python's own is slow to load
OTHERS = (
    "_core.io_command", "_core.io_tree", "_vm.first_boot.io_host_key",
    "_vm.hypervisor.io_kvm_record", "_vm.hypervisor.io_machine_proof", "_vm.first_boot.model_host_key",
    "_vm.first_boot.run_host_key", "concurrent.futures", "urllib.request", "xml.sax", "ssl",
)  # fmt: skip
DISKS = (
    "_vm.storage.io_disk_header", "_vm.storage.io_pool_mounts", "_vm.storage.io_volumes", "_vm.storage.model_storage", "_vm.storage.plan_volumes",
    "_vm.storage.run_users", "_vm.storage.run_volumes",
)  # fmt: skip
SEEDS = ("_vm.first_boot.io_seed",)
# what only the details and templates need, or only a comparison
DETAILS = (
    "_vm.apply.run_result", "_vm.compare.xml_compare", "_vm.compare.xml_hidden", "_vm.details.model_parts", "_vm.details.model_vm",
    "_vm.first_boot.model_cloud_init", "_vm.template.run_render", "_vm.template.xml_template",
)  # fmt: skip

DEFINE = """
import contextlib, json, pathlib, sys

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock as lock

lock.lock_folder = lambda: pathlib.Path(sys.argv[2])

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms

uri = sys.argv[1]
with DomainHost(uri) as host:
    vms = [{"id": number, "cpu": 1, "memory_mb": 32, "nics": [{"network": "default"}], **json.loads(sys.argv[3])} for number in range(3)]
    request = DefineRequest(cluster="lab", uri=uri, vms=vms, autostart=False, pool="p")
    # each connection to a file has its own domains
    result = define_vms(request, check_mode=False, connect=lambda uri: contextlib.nullcontext(host))
    documents = [record.config_xml for record in host.domains()]
print(json.dumps({"vms": [[vm.actions, vm.error] for vm in result.vms], "documents": documents, "modules": sorted(sys.modules)}))
"""

INFO = """
import json, sys

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms

vms = read_vms(InfoRequest(uri=sys.argv[1]))
print(json.dumps({"vms": [vm["id"] for vm in vms], "modules": sorted(sys.modules)}))
"""


def call(script: str, *arguments: str) -> dict[str, t.Any]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / ".cache" / "collections"), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script, *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def loaded(result: t.Mapping[str, t.Any]) -> set[str]:
    return {name.split(".module_utils.")[-1] for name in result["modules"]}


@pytest.mark.parametrize(
    ("details", "made", "waits", "needed"),
    [
        ({}, 0, DISKS + SEEDS, ()),
        ({"disks": [{"size": "1 MiB"}]}, 1, SEEDS, DISKS),
        ({"disks": [{"size": "1 MiB"}], "user_data": {"hostname": "a"}}, 2, (), DISKS + SEEDS),
    ],
    ids=["plain", "disks", "seeds"],
)
def test_what_only_a_change_needs_is_not_loaded_without_one(
    tmp_path: pathlib.Path, details: dict[str, t.Any], made: int, waits: tuple[str, ...], needed: tuple[str, ...]
) -> None:
    # libvirt's test driver forgets with its process, and can be given an initial state
    (tmp_path / "pool").mkdir()
    host = f"<network><name>default</name></network><pool type='dir'><name>p</name><target><path>{tmp_path / 'pool'}</path></target></pool>"
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{host}</node>", "utf-8")
    first = call(DEFINE, f"test://{node}", str(tmp_path), json.dumps(details))
    assert [(len(actions), error) for actions, error in first["vms"]] == [(made + 2, None)] * 3
    node.write_text(f"<node>{host}{''.join(first['documents'])}</node>", "utf-8")
    second = call(DEFINE, f"test://{node}", str(tmp_path), json.dumps(details))
    assert second["vms"] == [[[], None]] * 3
    assert loaded(second).isdisjoint(CHANGES + OTHERS + waits), sorted(loaded(second).intersection(CHANGES + OTHERS + waits))
    assert loaded(second).issuperset(("_vm.compare.xml_compare", *needed))
    third = call(INFO, f"test://{node}")
    assert third["vms"] == ["0", "1", "2"]
    waits = (*CHANGES, *DISKS, *SEEDS, *DETAILS, "_core.io_command")
    assert loaded(third).isdisjoint(waits), sorted(loaded(third).intersection(waits))


def test_the_names_are_those_of_today() -> None:
    there = {path.relative_to(UTILS).with_suffix("").as_posix().replace("/", ".") for path in UTILS.rglob("*.py")}
    assert {name for name in CHANGES + OTHERS + DISKS + SEEDS + DETAILS if name.startswith("_")} <= there


@pytest.mark.parametrize("name", ["run_node", "run_info"])
def test_a_recorded_proof_needs_no_code_of_the_test_guest(name: str) -> None:
    script = f"import json, sys\nfrom ansible_collections.reduced.footprint.plugins.module_utils._host.node import {name}\n"
    found = loaded(call(script + 'print(json.dumps({"modules": sorted(sys.modules)}))'))
    assert found.isdisjoint(("_host.node.io_hypervisor_probe", "_vm.hypervisor.io_machine_proof"))
