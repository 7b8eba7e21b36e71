# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import pathlib
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings import io_settings
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.io_settings import SettingsHost
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import Label, PagesFound, WriteFile


def put(root: pathlib.Path, path: str, text: str) -> pathlib.Path:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return file


class Commands:
    """systemctl and its like are not on every machine the unit tests run on; the lab has the real ones."""

    def __init__(self, monkeypatch, **answers):
        self.argv = []
        self.answers = answers
        monkeypatch.setattr(io_settings, "run", self)

    def __call__(self, argv, **unused):
        self.argv.append(tuple(argv))
        answer = self.answers.get(argv[0], "")
        if isinstance(answer, Exception):
            raise answer
        return Completed(tuple(argv), 0, answer, "")


def test_files_are_read_with_the_time_they_were_written(tmp_path):
    file = put(tmp_path, "/etc/libvirt/qemu.conf", "a\n")
    os.utime(file, (5, 7.5))
    found = SettingsHost(str(tmp_path)).files(["/etc/libvirt/qemu.conf", "/etc/nothing"])
    assert {path: (one.text, one.written) for path, one in found.items()} == {"/etc/libvirt/qemu.conf": ("a\n", 7.5)}


def test_a_file_is_written_whole_taken_away_and_restore(tmp_path):
    here = SettingsHost(str(tmp_path))
    steps = [WriteFile("/etc/a", None, "new", 0o600), WriteFile("/etc/b", "old", None), WriteFile("/etc/c", "old", "new")]
    put(tmp_path, "/etc/b", "old")
    put(tmp_path, "/etc/real", "old")
    (tmp_path / "etc/c").symlink_to("real")
    for step in steps:
        here.write(step)
    assert ((tmp_path / "etc/a").read_text(), (tmp_path / "etc/a").stat().st_mode & 0o777) == ("new", 0o600)
    assert not (tmp_path / "etc/b").exists()
    assert (tmp_path / "etc/c").is_symlink() and (tmp_path / "etc/real").read_text() == "new"
    here.restore(steps)
    assert not (tmp_path / "etc/a").exists()
    assert ((tmp_path / "etc/b").read_text(), (tmp_path / "etc/real").read_text()) == ("old", "old")


def test_units_are_matched_by_their_order(monkeypatch):
    shown = (
        "Id=libvirtd.service\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=yes\nMainPID=42\n"
        f"ExecMainStartTimestampMonotonic={int((time.monotonic() - 60) * 1e6)}\n\n"
        "Id=other.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\nNeedDaemonReload=no\nMainPID=0\n"
        "ExecMainStartTimestampMonotonic=0\n"
    )
    Commands(monkeypatch, systemctl=shown)
    found = SettingsHost().units(["libvirtd.service", "virtqemud.service"])
    daemon, missing = found["libvirtd.service"], found["virtqemud.service"]
    assert (daemon.is_active, daemon.is_enabled, daemon.needs_reload, daemon.pid) == (True, True, True, 42)
    assert daemon.started == pytest.approx(time.time() - 60, abs=1)
    assert (missing.installed, missing.started) == (False, None)


def test_limits_and_memory_are_numbers(tmp_path):
    put(tmp_path, "/proc/sys/fs/max", "128\n")
    put(tmp_path, "/proc/sys/net/range", "1\t2\n")
    put(tmp_path, "/proc/meminfo", "MemTotal:       24683000 kB\nHugepagesize:       2048 kB\n")
    here = SettingsHost(str(tmp_path))
    limits = {"fs.max": "/proc/sys/fs/max", "net.range": "/proc/sys/net/range", "no.such": "/proc/sys/no/such", "fs": "/proc/sys/fs"}
    assert here.limits(limits) == {"fs.max": 128, "net.range": None, "no.such": None, "fs": None}
    assert here.memory() == (24683000, 2048)
    here.set_number("/proc/sys/fs/max", 1024)
    assert (tmp_path / "proc/sys/fs/max").read_text() == "1024"


def test_refused_limit_is_reported(tmp_path):
    with pytest.raises(BackendError, match="cannot write 5 to .*/proc/sys/none"):
        SettingsHost(str(tmp_path)).set_number("/proc/sys/none", 5)


def pages_of(root: pathlib.Path, size: int, count: int) -> pathlib.Path:
    put(root, f"/sys/kernel/mm/hugepages/hugepages-{size}kB/free_hugepages", f"{count}\n")
    return put(root, f"/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages", f"{count}\n")


def test_pages_are_counted_and_given(tmp_path):
    pages_of(tmp_path, 1048576, 0)
    file = pages_of(tmp_path, 2048, 3)
    here = SettingsHost(str(tmp_path))
    assert here.pages() == {2048: PagesFound(3, 3), 1048576: PagesFound(0, 0)}
    assert here.give_pages(2048, 8) == 8
    assert file.read_text() == "8"
    assert here.pages()[2048] == PagesFound(8, 3)


def test_what_the_kernel_could_not_give_is_remembered_until_it_could(tmp_path, monkeypatch):
    file = pages_of(tmp_path, 2048, 0)
    here = SettingsHost(str(tmp_path))
    # the kernel, which gives 5 whatever it is asked for
    monkeypatch.setattr(io_settings, "_put", lambda path, value: path.write_text(str(min(value, 5)), "ascii"))
    assert here.give_pages(2048, 8) == 5
    assert here.pages()[2048] == PagesFound(5, 0, tried=8)
    assert here.give_pages(2048, 4) == 4
    assert (here.pages()[2048].tried, file.read_text()) == (None, "4")
    (tmp_path / "run/reduced.footprint/huge-pages.json").write_text("{broken", "ascii")
    assert here.pages()[2048].tried is None


def test_modules_of_kvm_say_whether_guests_have_guests(tmp_path):
    put(tmp_path, "/sys/module/kvm_amd/parameters/nested", "1\n")
    assert SettingsHost(str(tmp_path)).modules() == {"kvm_amd": "1\n"}


def test_a_device_is_hidden_when_a_process_sees_another(tmp_path):
    here = SettingsHost(str(tmp_path))
    assert not here.has_kvm() and not here.hides_kvm(7)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kvm").symlink_to("/dev/null")
    (tmp_path / "proc/7/root/dev").mkdir(parents=True)
    assert here.has_kvm() and here.hides_kvm(7) and not here.hides_kvm(0)
    seen = tmp_path / "proc/7/root/dev/kvm"
    seen.symlink_to("/dev/null")
    assert not here.hides_kvm(7)
    seen.unlink()
    seen.symlink_to("/dev/zero")
    assert here.hides_kvm(7)
    seen.unlink()
    seen.write_text("")
    assert here.hides_kvm(7)


def test_a_proof_on_record_is_taken_while_it_holds(tmp_path, monkeypatch):
    from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts, io_hypervisor_probe
    from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HypervisorProof
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm

    monkeypatch.setattr(io_kvm, "qemu_binary", lambda: "/usr/bin/qemu")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "n", "6", "#1", "x86_64")))
    made = []
    monkeypatch.setattr(io_hypervisor_probe, "prove", lambda *arguments: made.append(arguments) or HypervisorProof("kvm", True, "ran", 1.0))
    facts = tmp_path / "facts"
    key = io_facts.proof_key("kvm", io_facts.measure())
    facts.write_text(json.dumps({"hypervisors": {"kvm": {"usable": False, "reason": "hung", "seconds": 1, "key": key}}}), "utf-8")
    assert SettingsHost.prove_kvm(str(facts), 15) == (False, "hung")
    assert not made
    facts.write_text(json.dumps({"hypervisors": {"kvm": {"usable": False, "reason": "hung", "seconds": 1, "key": "old kernel"}}}), "utf-8")
    assert SettingsHost.prove_kvm(str(facts), 15) == (True, "ran")
    assert len(made) == 1


def test_unknown_users_are_not_found():
    assert SettingsHost.known_users(["root", "no-such-user"]) == {"root"}
    assert "root" in (SettingsHost.members("root") or ())
    assert SettingsHost.members("no-such-group") is None


def test_without_selinux_there_are_no_labels(tmp_path):
    assert SettingsHost(str(tmp_path)).labels(["/srv"]) is None


def test_labels_are_what_the_policy_and_the_disk_say(tmp_path, monkeypatch):
    # no machine of the tests has SELinux: its answers are made up here
    put(tmp_path, "/sys/fs/selinux/enforce", "1")
    (tmp_path / "srv").mkdir()
    Commands(monkeypatch, matchpathcon="system_u:object_r:var_t:s0\n")
    types = {str(tmp_path / "srv"): b"system_u:object_r:virt_image_t:s0\0"}

    def getxattr(path, name):
        if str(path) not in types:
            raise FileNotFoundError(path)
        return types[str(path)]

    monkeypatch.setattr(os, "getxattr", getxattr)
    assert SettingsHost(str(tmp_path)).labels(["/srv", "/none"]) == (Label("/srv", "var_t", "virt_image_t"), Label("/none", "var_t", None))


def test_a_time_to_come_is_set_back_or_each_start_would_look_older(tmp_path, monkeypatch):
    commands = Commands(monkeypatch)
    file = put(tmp_path, "/etc/libvirt/qemu.conf", "")
    os.utime(file, (time.time() + 3600,) * 2)
    SettingsHost(str(tmp_path)).restart("libvirtd.service", ["/etc/libvirt/qemu.conf", "/etc/none"])
    assert file.stat().st_mtime <= time.time()
    assert commands.argv[-1] == ("systemctl", "restart", "libvirtd.service")


def test_a_daemon_that_does_not_answer_is_quoted(monkeypatch):
    monkeypatch.setattr(io_settings, "_PATIENCE", 0)
    refused = CommandError(["virsh"], 1, "error: failed to connect")
    ended = "Initialization of QEMU state driver failed: internal error: no such user: x"
    Commands(monkeypatch, virsh=refused, journalctl=f"dmidecode: error\n2026 12: error : {ended}\nudev: error\n")
    assert SettingsHost().answers("libvirtd.service", "qemu:///system") == ended
    Commands(monkeypatch, virsh=refused)
    assert "failed to connect" in (SettingsHost().answers("libvirtd.service", "qemu:///system") or "")
    Commands(monkeypatch)
    assert SettingsHost().answers("libvirtd.service", "qemu:///system") is None


def test_a_daemon_that_does_not_even_start_is_quoted(monkeypatch):
    monkeypatch.setattr(io_settings, "_PATIENCE", 0)
    ended = "Initialization of QEMU state driver failed: internal error: no such user: x"

    def run(argv, **unused):
        if argv[:2] == ["systemctl", "restart"]:
            raise CommandError(argv, 1, "start request repeated too quickly")
        return Completed(tuple(argv), 0, words if argv[0] == "journalctl" else "", "")

    monkeypatch.setattr(io_settings, "run", run)
    for words, reported in ((f"error : {ended}\n", ended), ("", "start request repeated too quickly")):
        with pytest.raises(BackendError, match=reported):
            SettingsHost().restart("libvirtd.service", [])
