# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A canary in every secret of the configuration of every role, in records and in logs that repeat them: none is in a diagnostic snapshot.

The roles write below a folder, from which the files of a host are read; commands are those of this machine.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import tarfile
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_sources, run_gather, run_snapshot
from tests.canary import roles
from tests.support.canary import Canaries

SIZE = 16 << 20
PEM = "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n"


VM = """
<domain type='qemu'><name>shown-vm</name><memory>65536</memory><os><type arch='x86_64' machine='pc'>hvm</type></os>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><graphics type='vnc' port='-1' passwd='{}'/></devices></domain>
"""


def plant(root: pathlib.Path, canaries: Canaries) -> None:
    """Write what a host has besides its configuration."""
    said = "2026-11-29 12:00:00.1 INFO req-1 sent {} to 192.0.2.1\n"
    logged = "".join(said.format(canaries(name)) for name in ("variable", "nova_settings password", "keystone_settings URL", "cookie", "job", "fernet"))
    files = {
        "var/log/nova/nova-api.log": f"shown-log\n{logged}GET /v3 X-Auth-Token: {canaries('token')}\n{PEM.format(canaries('logged key') * 3)}",
        "var/log/rabbitmq/rabbit@c1.log": f"connection amqp://nova:{canaries('nova_settings password')}@192.0.2.1:5672\n",
        "var/lib/rabbitmq/.erlang.cookie": canaries("cookie"),
        "etc/keystone/fernet-keys/0": canaries("fernet"),
        "etc/keystone/private.pem": PEM.format(canaries("key")),
        "var/lib/reduced.footprint/write-probe/password": canaries("probe"),
        "var/lib/reduced.footprint/moves/web/job.json": json.dumps({"name": "shown-job", "password": canaries("job"), "url": f"http://u:{canaries('u')}@x"}),
        "var/lib/reduced.footprint/moves/web/log": f"the password is {canaries('job')}, shown-phase\n",
        "var/lib/reduced.footprint/moves/old/job.json": f'{{"broken": "{canaries("broken")}"',
        "etc/systemd/system/footprint-x.service": f"[Service]\nEnvironment=SHOWN=1 API_TOKEN={canaries('unit')}\n",
        "etc/netplan/1.yaml": f"network:\n  wifis: {{wlan0: {{access-points: {{shown: {{password: {canaries('wifi')}}}}}}}}}\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


def test_no_secret_is_in_a_snapshot(
    tmp_path: pathlib.Path, ansible_playbook: str, daemon: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    canaries, root = Canaries(), tmp_path / "root"
    given, _output = roles.configure(tmp_path, canaries, ansible_playbook, lambda files: {"write_below": {"files": f"{{{{ {files} }}}}", "folder": str(root)}})
    plant(root, canaries)
    uri = daemon["FOOTPRINT_TEST_QEMU_URI"]
    monkeypatch.setattr(plan_sources, "VM_CONNECTIONS", (uri,))
    (root / "vm.xml").write_text(VM.format(canaries("vnc", 8)), "utf-8")
    subprocess.run(["virsh", "-c", uri, "define", str(root / "vm.xml")], check=True, capture_output=True)
    request.addfinalizer(lambda: subprocess.run(["virsh", "-c", uri, "undefine", "shown-vm"], check=True, capture_output=True))
    # the sweep has something to find
    assert len({each.name for each in canaries.in_tree(root)}) >= 30
    found = run_gather.gather(24, SIZE, 60, root)
    file = run_snapshot.keep(str(tmp_path), "c1", found["content"])
    control = canaries("of the control node")
    # the host cannot know that a setting repeats a variable
    known = [control, canaries("variable")]
    status = {"status.txt": f"web: the probe http://u:{canaries('probe URL')}@x failed after {control}\n"}
    hosts = {"c1": run_snapshot.Host("", file, {"parts": {"probes": {"password": canaries("status")}}}), "c2": run_snapshot.Host(f"failed: {control}")}
    path, silent = run_snapshot.write(str(tmp_path / "archives"), "20261129T120000Z", hosts, status, known, SIZE)
    assert list(silent) == ["c2"]
    with tarfile.open(path) as archive:
        texts = {member.name.partition("/")[2]: t.cast(t.IO[bytes], archive.extractfile(member)).read().decode() for member in archive}
    whole = "\n".join(texts.values())
    settings = {name for name in given if name.endswith("_settings") and not name.startswith("__") and name not in ("compute_settings", "horizon_settings")}
    assert {name for name in settings if f"shown-{name}" in whole} == settings
    assert [word for word in ("shown-log", "shown-job", "shown-phase", "SHOWN=1", "<name>shown-vm</name>") if word not in whole] == []
    assert texts["c2/no-answer.txt"] == "failed: ********\n"
    assert {"c1/configuration/etc/nova/nova.conf", "c1/state/var/lib/reduced.footprint/moves/web/job.json", "c1/index.json", "index.json"} <= set(texts)
    assert not canaries.in_bytes(pathlib.Path(path).read_bytes(), "archive")
