# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings import plan_files, run_settings
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import FileFound, PagesFound, Unit, WriteFile
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.plan_settings import unit_names
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.run_settings import hidden_values


class FakeHost:
    """A host in memory whose clock goes a second with each thing done; the real one is in the lab's story."""

    def __init__(self):
        self.clock = 100.0
        self.texts = {plan_files.GUESTS_DROP_IN: (plan_files.GUESTS_TEXT, 1.0), plan_files.QEMU_CONF: ("", 1.0)}
        self.folders = {}
        self.state = {name: Unit(name) for name in unit_names()}
        for name in ("virtlogd.socket", "libvirtd.socket", "libvirtd.service", "libvirt-guests.service"):
            self.state[name] = Unit(name, "loaded", "active", "enabled", 50.0, pid=7)
        self.numbers = {"/proc/sys/fs/inotify/max_user_instances": 128}
        self.page_limit = 1000
        self.given = {2048: PagesFound(0, 0)}
        self.kvm = None
        self.refuses = ""
        self.done = []
        self.dies_after = None

    def _did(self, what):
        if self.dies_after is not None and len(self.done) >= self.dies_after:
            raise KeyboardInterrupt  # as far as the host is concerned, kill -9
        self.clock += 1
        self.done.append(what)

    def files(self, paths):
        return {path: FileFound(*self.texts[path]) for path in paths if path in self.texts}

    def times(self, folders):
        return {folder: self.folders[folder] for folder in folders if folder in self.folders}

    def units(self, names):
        return {name: self.state[name] for name in names}

    def limits(self, paths):
        return {name: self.numbers.get(path) for name, path in paths.items()}

    def memory(self):
        return 8 * 1024**2, 2048

    def pages(self):
        return dict(self.given)

    def modules(self):
        return {}

    def has_kvm(self):
        return self.kvm is not None

    def hides_kvm(self, pid):
        return False

    def prove_kvm(self, facts_file, timeout):
        return self.kvm, "as it is"

    def labels(self, paths):
        return None

    def write(self, step):
        self._did(step.action)
        self.texts.pop(step.path, None)
        if step.text is not None:
            self.texts[step.path] = (step.text, self.clock)
        self.folders[step.path.rpartition("/")[0]] = self.clock

    def restore(self, steps):
        for step in reversed(steps):
            self.write(WriteFile(step.path, step.text, step.before, step.mode))

    def set_number(self, path, value):
        self._did("set")
        self.numbers[path] = value

    def give_pages(self, size_kib, count):
        self._did("pages")
        given = min(count, self.page_limit)
        self.given[size_kib] = PagesFound(given, given, count if given < count else None)
        return given

    def command(self, argv):
        self._did(argv)

    def _start(self, daemon):
        self.clock += 1
        self.state[daemon] = Unit(daemon, "loaded", "active", "enabled", self.clock, pid=8)

    def restart(self, daemon, read):
        self._did("restart")
        if self.refuses and self.refuses in self.texts[plan_files.QEMU_CONF][0]:
            raise CommandError(["systemctl"], 1, "start request repeated too quickly")
        self._start(daemon)

    def revive(self, daemon):
        self._did("revive")
        self._start(daemon)

    def answers(self, daemon, uri):
        return "no such user" if self.refuses and self.refuses in self.texts[plan_files.QEMU_CONF][0] else None


WISH = {
    "qemu_conf": {"max_files": 5},
    "guests_conf": {"ON_SHUTDOWN": "shutdown"},
    "sysctl": {"fs.inotify.max_user_instances": 1024},
    "huge_pages": [{"size": "2 MiB", "count": 8}],
    "mask_broken_kvm": True,
}


def set_host(*given, **more):
    return types.SimpleNamespace(**run_settings.set_host(*given, **more))


@pytest.fixture(autouse=True)
def no_lock(monkeypatch):
    monkeypatch.setattr(run_settings, "host_lock", lambda *unused: contextlib.nullcontext())


def test_check_mode_matches_the_real_run_and_the_second_changes_nothing():
    host = FakeHost()
    host.kvm = False
    checked = set_host(WISH, check_mode=True, backend=host)
    assert host.done == []
    real = set_host(WISH, check_mode=False, backend=host)
    assert (checked.actions, checked.diff, checked.changed, checked.restarted) == (real.actions, real.diff, True, True)
    assert checked == real
    assert real.kvm == {"device": True, "usable": False, "reason": "as it is", "hidden": True}
    assert host.done.count("restart") == 1
    done = len(host.done)
    again = set_host(WISH, check_mode=False, backend=host)
    assert (again.changed, again.actions, again.diff, len(host.done)) == (False, [], [], done)


@pytest.mark.parametrize("steps", range(13))
def test_a_run_killed_after_any_step_is_completed_by_the_next(steps):
    whole, host = FakeHost(), FakeHost()
    for one in (whole, host):
        one.kvm = False
    count = len(set_host(WISH, check_mode=False, backend=whole).actions)
    assert count == 13
    host.dies_after = steps
    with pytest.raises(KeyboardInterrupt):
        set_host(WISH, check_mode=False, backend=host)
    host.dies_after = None
    set_host(WISH, check_mode=False, backend=host)
    assert host.done.count("restart") == 1
    assert {path: text for path, (text, unused) in host.texts.items()} == {path: text for path, (text, unused) in whole.texts.items()}
    assert not set_host(WISH, check_mode=False, backend=host).changed


def test_settings_that_stop_libvirt_are_rolled_back():
    host = FakeHost()
    host.refuses = "max_files"
    with pytest.raises(BackendError, match="does not start with these settings: .*/etc/libvirt/qemu.conf was restored"):
        set_host(WISH, check_mode=False, backend=host)
    assert host.texts[plan_files.QEMU_CONF][0] == ""
    assert host.done[-1] == "revive"
    # nothing is left to restart for
    assert set_host({k: v for k, v in WISH.items() if k != "qemu_conf"}, check_mode=False, backend=host).actions == []


def test_a_sleeping_daemon_is_asked_whether_it_lives_with_new_settings():
    host = FakeHost()
    host.state["libvirtd.service"] = Unit("libvirtd.service", "loaded", "inactive", "enabled")
    host.refuses = "max_files"
    with pytest.raises(BackendError, match="no such user"):
        set_host(WISH, check_mode=False, backend=host)
    assert host.texts[plan_files.QEMU_CONF][0] == ""


def test_failed_pages_are_reported_by_this_run_and_the_next():
    host = FakeHost()
    host.page_limit = 3
    first = set_host(WISH, check_mode=False, backend=host)
    second = set_host(WISH, check_mode=False, backend=host)
    for result in (first, second):
        assert result.huge_pages == [{"size_kib": 2048, "asked": 8, "given": 3}]
        assert "3 of 8 huge pages of 2 MiB" in result.restart_required[0]
        assert any("3 of 8" in warning for warning in result.warnings)
    assert not second.changed


def test_missing_libvirt_is_a_warning_in_check_mode_only():
    host = FakeHost()
    host.state = {name: Unit(name) for name in unit_names()}
    result = set_host(WISH, check_mode=True, backend=host)
    assert result.daemon is None and "Check mode reports what is possible" in result.warnings[-1]
    with pytest.raises(BackendError, match="neither libvirtd.service nor virtqemud.service"):
        set_host(WISH, check_mode=False, backend=host)
    assert host.done == []


def test_kvm_proof_runs_on_request_only():
    host = FakeHost()
    host.kvm = False
    host.prove_kvm = None
    assert set_host({}, check_mode=True, backend=host).kvm == {"device": True, "usable": None, "reason": None, "hidden": False}


def test_passwords_are_hidden_and_bad_input_touches_nothing():
    assert hidden_values({"qemu_conf": {"vnc_password": "hush", "spice_password": "", "vnc_listen": "x"}}) == {"hush"}
    assert hidden_values({"qemu_conf": None}) == set()
    host = FakeHost()
    result = set_host({"qemu_conf": {"vnc_password": "hush"}}, check_mode=True, backend=host)
    assert "hush" not in str(result.diff)
    with pytest.raises(InputError):
        set_host({"qemu_conf": {"A": 1}}, check_mode=False, backend=host)
    assert host.done == []
