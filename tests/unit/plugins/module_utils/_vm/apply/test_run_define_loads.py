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

ROOT = pathlib.Path(__file__).resolve().parents[6]
UTILS = ROOT / "plugins" / "module_utils"

# what makes, changes, removes or explains (but _vm.compare.xml_differences: the test driver begins with running domains), and what
# of Python's own is slow to load
WAITS = (
    "_core.io_command", "_vm.storage.io_disk_header", "_vm.storage.io_images", "_vm.apply.io_live", "_vm.apply.io_moved",
    "_vm.storage.io_pool_mounts", "_vm.storage.io_room", "_vm.first_boot.io_seed", "_vm.storage.io_volume_files", "_vm.storage.io_volume_pools",
    "_vm.storage.io_volumes", "_vm.details.model_moved", "_vm.storage.model_storage", "_core.model_yaml_text", "_vm.compare.plan_apply_class",
    "_vm.storage.plan_volumes", "_vm.storage.plan_volumes_missing", "_vm.apply.run_adopt", "_vm.apply.run_apply", "_vm.template.run_blame",
    "_vm.apply.run_check", "_vm.compare.run_diff", "_vm.compare.run_facts", "_vm.apply.run_live", "_vm.apply.run_lookup", "_vm.storage.run_missing",
    "_vm.apply.run_moved", "_vm.storage.run_removal", "_vm.storage.run_volumes", "_vm.apply.xml_device_forms", "_vm.compare.xml_merge",
    "concurrent.futures", "urllib.request", "xml.sax", "ssl",
)  # fmt: skip

CALL = """
import json, pathlib, sys

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock as lock

lock.lock_folder = lambda: pathlib.Path(sys.argv[2])

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms

TEMPLATE = "<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>{memory_mb}</memory><vcpu>{cpu}</vcpu><os><type>hvm</type></os></domain>"
uri = sys.argv[1]
with DomainHost(uri) as host:
    vms = [{"id": number, "cpu": 1, "memory_mb": 32} for number in range(3)]
    request = DefineRequest(cluster="lab", uri=uri, template=TEMPLATE, state="present", vms=vms, autostart=False)
    result = define_vms(request, check_mode=False)
    documents = [record.config_xml for record in host.domains() if record.name != "test"]
print(json.dumps({"actions": [vm.actions for vm in result.vms], "documents": documents, "modules": sorted(sys.modules)}))
"""


def call(uri: str, folder: pathlib.Path) -> dict[str, t.Any]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / ".cache" / "collections"), *sys.path])}
    done = subprocess.run([sys.executable, "-c", CALL, uri, str(folder)], env=env, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_what_only_a_change_needs_is_not_loaded_without_one(tmp_path: pathlib.Path) -> None:
    first = call("test:///default", tmp_path)
    assert first["actions"] == [["define"]] * 3
    # libvirt's test driver forgets with its process, and can be given an initial state
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{''.join(first['documents'])}</node>", "utf-8")
    second = call(f"test://{node}", tmp_path)
    assert second["actions"] == [[]] * 3
    loaded = {name.split(".module_utils.")[-1] for name in second["modules"]}
    assert "_vm.compare.xml_compare" in loaded
    assert loaded.isdisjoint(WAITS), sorted(loaded.intersection(WAITS))
    # and the names above are those of today
    there = {path.relative_to(UTILS).with_suffix("").as_posix().replace("/", ".") for path in UTILS.rglob("*.py")}
    assert {name for name in WAITS if name.startswith("_")} <= there
