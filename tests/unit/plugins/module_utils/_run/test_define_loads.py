# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run without a change loads: on a host each module is compiled anew in each run, so what only a change needs waits for one."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[5]

# what makes, changes, removes or explains (but _xml.differences: the test driver begins with running domains), and what of Python's own is slow to load
WAITS = (
    "_backend.command", "_backend.disk_header", "_backend.images", "_backend.live", "_backend.moved", "_backend.pool_mounts", "_backend.room",
    "_backend.seed", "_backend.volume_files", "_backend.volume_pools", "_backend.volumes", "_model.moved", "_model.storage", "_model.yaml_text",
    "_plan.apply_class", "_plan.volumes", "_plan.volumes_missing", "_run.define_adopt", "_run.define_apply", "_run.define_blame", "_run.define_check",
    "_run.define_diff", "_run.define_facts", "_run.define_live", "_run.define_lookup", "_run.define_missing", "_run.define_moved",
    "_run.define_removal", "_run.define_volumes", "_xml.device_forms", "_xml.merge", "concurrent.futures", "urllib.request", "xml.sax", "ssl",
)  # fmt: skip

CALL = """
import json, pathlib, sys

from ansible_collections.reduced.footprint.plugins.module_utils._backend import lock

lock.lock_folder = lambda: pathlib.Path(sys.argv[2])

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._run.define import DefineRequest, define_vms

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
    # libvirt's test driver forgets with its process, and can be told what to begin with
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{''.join(first['documents'])}</node>", "utf-8")
    second = call(f"test://{node}", tmp_path)
    assert second["actions"] == [[]] * 3
    loaded = {name.split(".module_utils.")[-1] for name in second["modules"]}
    assert "_xml.compare" in loaded
    assert loaded.isdisjoint(WAITS), sorted(loaded.intersection(WAITS))
    # and the names above are those of today
    there = {f"{path.parent.name}.{path.stem}" for path in (ROOT / "plugins" / "module_utils").glob("_*/*.py")}
    assert {name for name in WAITS if name.startswith("_")} <= there
