# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another certificate authority is refused while members are running that would not accept its certificates."""

from __future__ import annotations

import pathlib
import sys
import time

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from tests.support.control_node import ROOT, ControlNode

NOW = time.time()
PAIRS = [io_certificates.make_authority("galera/ca", NOW, 100) for _number in range(2)]
#: Names for the test; random texts in the names of tests would differ between processes.
OLD, NEW, RENEWED = "old ", "new ", "renewed "
TEXTS = {OLD: PAIRS[0].certificate, NEW: PAIRS[1].certificate, RENEWED: io_certificates.renew_authority(PAIRS[0], NOW, 3650).certificate}


def text(names: str) -> str:
    return "".join(TEXTS[f"{name} "] for name in names.split())


@pytest.mark.parametrize(
    "tls, present, wanted, good",
    [
        ("on", OLD, OLD, True),
        ("both", OLD, OLD, True),
        ("on", OLD, NEW, False),
        # both of them for a while, then the new one only
        ("on", OLD, OLD + NEW, True),
        ("on", OLD + NEW, NEW, True),
        # renewed, and both again
        ("on", OLD, RENEWED, True),
        ("on", RENEWED, OLD, True),
        ("on", RENEWED + NEW, OLD, True),
        ("on", OLD + NEW, RENEWED + RENEWED, True),
        # stopped, and plain text
        (None, OLD, NEW, True),
        ("off", OLD, NEW, True),
        ("off", "", NEW, True),
        # in check mode, one that would be generated
        ("on", OLD, "", True),
    ],
)
def test_the_authority_of_running_members_is_kept(tls: str | None, present: str, wanted: str, good: bool, tmp_path: pathlib.Path) -> None:
    if present:
        (tmp_path / "ca.pem").write_text(text(present), "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/galera/tasks/certificate.yml").read_text("utf-8"))[:2]
    given = {
        "__galera_tls_directory": str(tmp_path), "__galera_here": {"galera": {"tls": tls}}, "__galera_tls_made": {"ca": text(wanted)},
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play(tasks, **given)
    assert (code == 0) == good and (good or "galera/ca: the certificate of metal2 is signed by another authority" in " ".join(output.split())), output


@pytest.mark.parametrize(
    "wanted, units, good",
    [(OLD, "active", True), (RENEWED, "active", True), (NEW, "active", False), (NEW, "inactive", True), ("", "active", True)],
)
def test_ovn_keeps_the_authority_of_running_members(wanted: str, units: str, good: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ca.pem").write_text(text(OLD), "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/ovn_database/tasks/authority.yml").read_text("utf-8"))
    tasks[1]["ansible.builtin.command"] = {"argv": ["echo", units]}
    given = {
        "__ovn_database_directory": str(tmp_path), "__ovn_database_made": {"ca": text(wanted)}, "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play(tasks, **given)
    assert (code == 0) == good and (good or "ovn/ca: the certificate of metal2 is signed by another authority" in " ".join(output.split())), output


@pytest.mark.parametrize(
    "internode, alive, wanted, good", [(True, True, NEW, False), (True, False, NEW, True), (False, True, NEW, True), (True, True, RENEWED, True)]
)
def test_rabbitmq_keeps_the_authority_if_members_verify_each_other(internode: bool, alive: bool, wanted: str, good: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ca.pem").write_text(text(OLD), "utf-8")
    tasks = [task for task in yaml.safe_load((ROOT / "roles/rabbitmq/tasks/encryption.yml").read_text("utf-8")) if "authority" in task["name"]]
    given = {
        "__rabbitmq_tls_directory": str(tmp_path), "__rabbitmq_made": {"ca": text(wanted)}, "__rabbitmq_internode": internode,
        "__rabbitmq_look": {"rabbitmq": {"alive": alive}}, "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play(tasks, **given)
    assert len(tasks) == 2 and (code == 0) == good, output
    assert good or "amqp/ca: the certificate of metal2 is signed by another authority" in " ".join(output.split())
