# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resource agent of the cluster recognises the process of a real guest without libvirt, and not one of another user with its arguments."""

from __future__ import annotations

import os
import pathlib
import subprocess

from ansible_collections.reduced.footprint.plugins.module_utils._standby import plan_cluster
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import parse_cluster
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ASK, CLUSTER, Record
from storage_host import StorageHost

MEMBERS = [{"name": name, "addresses": [address], "watchdog": True} for name, address in (("metal1", "192.0.2.11"), ("metal2", "192.0.2.12"))]
GIVEN = {"cluster": "lab", "members": MEMBERS, "witness": "192.0.2.20", "authkey": "k" * 128, "key": "", "certificate": "", "ca": ""}


def test_a_guest_is_recognised_by_its_pid_file(host: StorageHost, tmp_path: pathlib.Path) -> None:
    folder = host.folder.parent / "run" / "qemu"
    host.one({"id": "a"})
    uuid = host.domain("a").UUIDString()
    agent, runs, records = tmp_path / "vm", tmp_path / "runs-vm", tmp_path / "vms"
    agent.write_text(plan_cluster.agent("/code.zip", "python3").replace("/run/libvirt/qemu", str(folder)), "utf-8")
    files = {each["path"]: each["content"] for each in plan_cluster.member_files(parse_cluster(GIVEN), GIVEN, "/code.zip", "python3")}
    records.mkdir()
    record = records / f"{uuid}.json"
    record.write_text(Record("lab", "a", uuid, "a", start=CLUSTER).to_json(), "utf-8")
    runs.write_text(files[plan_cluster.RUNS].replace("/run/libvirt/qemu", str(folder)).replace("/etc/reduced.footprint/vms", str(records)), "utf-8")

    def seen() -> tuple[int, int]:
        environment = {**os.environ, "OCF_RESKEY_uuid": uuid}
        return tuple(subprocess.run(["/bin/sh", *words], env=environment, check=False).returncode for words in ([agent, "monitor"], [runs]))

    fake = subprocess.Popen(["/bin/sh", "-c", "read line", "-uuid", uuid], user=65534, cwd="/", stdin=subprocess.PIPE)
    try:
        assert seen() == (0, 0)
        # a VM that the cluster does not start
        record.write_text(Record("lab", "a", uuid, "a", start=ASK).to_json(), "utf-8")
        assert seen() == (0, 1)
        record.write_text(Record("lab", "a", uuid, "a", start=CLUSTER).to_json(), "utf-8")
        host.domain("a").destroy()
        assert seen() == (7, 1)
    finally:
        fake.kill()
