# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A backend that is not up fails the run, libvirt that does not answer is an error, and two servers do not manage the same backends."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ControlNode

KEYS = ("AQCpoAtrEHRANhAAuGI4MvvfN4EHzAP0qJYbCw==", "AQDpoAtrEHRANhAAuGI4MvvfN4EHzAP0qJYbCw==")
LVM = {"lvm": {"type": "lvm", "volume_group": "cinder-volumes"}}
LINE = "{:16} {:36} {:16} {:10} {:5} {:20} {:12} {:15} {:36}"
HEAD = LINE.format("Binary", "Host", "Zone", "Status", "State", "Updated At", "RPC Version", "Object Version", "Cluster")


def backends(key: str = KEYS[0]) -> dict[str, t.Any]:
    return {"ceph": {"type": "rbd", "monitors": ["192.0.2.31"], "pool": "volumes", "user": "cinder", "key": key}}


class Server:
    """A compute server that is this machine, with a program of its own."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str) -> None:
        self.control = ControlNode(folder)
        self.control.program(monkeypatch, name, script.replace("FOLDER", str(folder)))

    def computes(self, *names: str) -> str:
        """Return the path of an inventory with the group ``compute``."""
        (self.control.folder / "compute.yml").write_text(yaml.safe_dump({"compute": {"hosts": {name: {} for name in names}}}), "utf-8")
        return str(self.control.folder / "compute.yml")

    def run(self, tasks: str, *options: str, **variables: t.Any) -> tuple[int, str]:
        role = {"ansible.builtin.include_role": {"name": "reduced.footprint.cinder_volume", "tasks_from": tasks}}
        local = {**HERE, "cinder_volume_shared_host": "metal2"}
        return self.control.play([role], "metal2", *options, **{**local, "cinder_volume_backends": backends(), **variables})


@pytest.mark.parametrize(
    "host, state, report, good",
    [
        ("shared@ceph", ":-)", "2126-11-29 04:00:00", True),
        ("shared@ceph", "XXX", "2126-11-29 04:00:00", False),
        ("shared@cephs", ":-)", "2126-11-29 04:00:00", False),
        ("metal2@lvm", ":-)", "2126-11-29 04:00:00", False),
        # the last report is earlier than the restart, or there was none
        ("shared@ceph", ":-)", "2026-01-01 04:00:00", False),
        ("shared@ceph", ":-)", "None", False),
    ],
)
def test_backends_must_be_up(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, host: str, state: str, report: str, good: bool) -> None:
    rows = [HEAD, LINE.format("cinder-scheduler", "c1@ceph", "nova", "enabled", ":-)", "2126-11-29 04:00:00", "3.12", "1.39", "")]
    rows.append(LINE.format("cinder-volume", host, "nova", "enabled", state, report, "3.17", "1.39", ""))
    (tmp_path / "services").write_text("\n".join(rows), "utf-8")
    server = Server(tmp_path, monkeypatch, "runuser", "cat FOLDER/services\n")
    code, output = server.run("gate", cinder_volume_wait_timeout=0)
    assert (code == 0) == good, output


@pytest.mark.parametrize(("host", "good"), [("metal2@lvm", True), ("metal1@lvm", False), ("shared@lvm", False)])
def test_backend_on_own_disks_must_be_up(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, host: str, good: bool) -> None:
    rows = [HEAD, LINE.format("cinder-volume", host, "nova", "enabled", ":-)", "2126-11-29 04:00:00", "3.17", "1.39", "")]
    (tmp_path / "services").write_text("\n".join(rows), "utf-8")
    server = Server(tmp_path, monkeypatch, "runuser", "cat FOLDER/services\n")
    code, output = server.run("gate", "-i", server.computes("metal1", "metal2"), cinder_volume_wait_timeout=0, cinder_volume_backends=LVM)
    assert (code == 0) == good, output


def test_servers_have_initiators_of_different_names(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path, monkeypatch, "unused", "")
    server.control.more = {"metal3": HERE}
    (tmp_path / "iscsid.conf").write_text("node.startup = manual\n", "utf-8")
    (tmp_path / "initiatorname.iscsi").write_text("InitiatorName=iqn.1993-08.org.debian:01:1\n", "utf-8")
    include = {"name": "reduced.footprint.cinder_volume", "tasks_from": "initiator"}
    role = {"ansible.builtin.include_role": include, "vars": {"__packages_there": {"open-iscsi": "2"}}}
    for hosts, same in (("metal2", False), ("metal2:metal3", True)):
        _code, output = server.control.play([role], hosts, "--check", "-e", f"__cinder_volume_iscsi={tmp_path} __cinder_volume_lvm={tmp_path}", **HERE)
        assert ("has the name of another server in" in output) == same, output


def test_libvirt_that_does_not_answer_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(tmp_path, monkeypatch, "virsh", "echo 'error: failed to connect to the hypervisor' >&2; exit 1\n")
    code, output = server.run("secret", __cinder_volume_name="ceph")
    assert code != 0 and KEYS[0] not in output, output


@pytest.mark.parametrize(("state", "good"), [("inactive", True), ("failed", True), ("active", False), ("activating", False), ("", False)])
def test_two_servers_do_not_manage_the_same_backends(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, state: str, good: bool) -> None:
    server = Server(tmp_path, monkeypatch, "systemctl", f"echo {state}\n")
    # metal1 is lost
    server.control.more = {"metal2": HERE, "metal3": HERE}
    role = {"ansible.builtin.include_role": {"name": "reduced.footprint.cinder_volume", "tasks_from": "alone"}}
    options = ["-i", server.computes("metal1", "metal2", "metal3"), "-e", f"__cinder_volume_config={tmp_path}/footprint-volume.conf"]
    for configured, admitted in (("backend_host = shared\n", good), ("volume_group = cinder-volumes\n", True), ("", good)):
        (tmp_path / "footprint-volume.conf").unlink(missing_ok=True)
        if configured:
            (tmp_path / "footprint-volume.conf").write_text(configured, "utf-8")
        code, output = server.control.play([role], "metal2", *options, ansible_ssh_args="-o ConnectTimeout=1")
        assert (code == 0) == admitted, output
    assert good != ("cinder_volume_shared_host: cinder-volume runs on metal3, and metal2 would manage the same" in output), output
