# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CapacityError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import (
    FileFound,
    HostFound,
    Kvm,
    Label,
    PagesFound,
    Unit,
    WriteFile,
    parse_settings,
)
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings import plan_files
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.plan_settings import daemon_of, limit_path, plan_host, unit_names

STARTED = 1000.0
LIMIT = "fs.inotify.max_user_instances"
HIDE_KVM = plan_files.HIDE_KVM
DROP_IN = "/etc/systemd/system/libvirtd.service.d/reduced-footprint.conf"
BROKEN = Kvm(device=True, usable=False, reason="hung")
QEMU_CONF = "# from the package\nuser = \"root\"\n"
OFF = {"load": "loaded", "active": "inactive", "file_state": "disabled"}


def units(**states):
    """All units: those of one libvirtd installed, enabled and started, by default."""
    found = {name: Unit(name) for name in unit_names()}
    for name in ("virtlogd.socket", "libvirtd.socket", "libvirtd.service", "libvirt-guests.service"):
        found[name] = Unit(name, "loaded", "active", "enabled", STARTED)
    for name, changes in states.items():
        name = name.replace("_", ".").replace("libvirt.guests", "libvirt-guests")
        found[name] = found[name]._replace(**changes)
    return found


def modular(**changes):
    found = {name: Unit(name) for name in unit_names()}
    for name in unit_names():
        if not name.startswith(("libvirtd", "virtlxcd")):
            found[name] = Unit(name, "loaded", "active", "enabled", STARTED)
    for name, change in changes.items():
        found[name.replace("_", ".")] = found[name.replace("_", ".")]._replace(**change)
    return found


def host(**changes):
    """Return a host on which every setting is present."""
    files = {plan_files.GUESTS_DROP_IN: FileFound(plan_files.GUESTS_TEXT, 1.0), plan_files.QEMU_CONF: FileFound(QEMU_CONF, 1.0)}
    whole = HostFound(
        files={**files, **changes.pop("files", {})}, folders={}, units=units(), limits={LIMIT: 128}, memory_kib=8 * 1024**2, default_page_kib=2048,
        pages={2048: PagesFound(0, 0), 1024**2: PagesFound(0, 0)}, modules={}, kvm=Kvm(), users=frozenset({"ann"}),
    )  # fmt: skip
    return whole._replace(**changes)


def actions(plan):
    return [step.action for step in plan.steps] + (["restart"] if plan.restart else [])


def brought(found, plan):
    """The host after the plan's steps, its daemon started after them."""
    files = dict(found.files)
    for step in plan.steps:
        if isinstance(step, WriteFile):
            files.pop(step.path, None)
            if step.text is not None:
                files[step.path] = FileFound(step.text, STARTED + 1)
    later = {name: unit._replace(started=STARTED + 2) for name, unit in found.units.items()}
    return found._replace(files=files, units=later)


def test_a_host_that_is_as_wanted_is_left_alone():
    plan = plan_host(parse_settings({}), host())
    assert (actions(plan), plan.warnings, plan.restart_required, plan.daemon) == ([], (), (), "libvirtd.service")


@pytest.mark.parametrize(
    ("states", "daemon"),
    [
        (units(), "libvirtd.service"),
        (modular(), "virtqemud.service"),
        # upgraded from a release with one daemon: both are installed, the old one runs
        ({**modular(virtqemud_socket=OFF, virtqemud_service=OFF), **{n: u for n, u in units().items() if n.startswith("libvirtd")}}, "libvirtd.service"),
        # one daemon installed beside the drivers' own, never used
        (modular(libvirtd_service=OFF, libvirtd_socket=OFF), "virtqemud.service"),
        ({name: Unit(name) for name in unit_names()}, None),
    ],
)  # fmt: skip
def test_the_daemon_is_the_one_the_host_runs(states, daemon):
    assert daemon_of(states) == daemon


def test_settings_go_to_the_top_of_qemu_conf_and_the_daemon_is_restarted_once():
    settings = parse_settings({"qemu_conf": {"vnc_listen": "127.0.0.1", "cgroup_controllers": []}})
    found = host()
    plan = plan_host(settings, found)
    assert actions(plan) == ["write /etc/libvirt/qemu.conf", "restart"]
    (step,) = plan.daemon_files
    ours = "cgroup_controllers = []\nvnc_listen = \"127.0.0.1\"\n"
    assert step.text == f"# BEGIN reduced.footprint.virt_host\n{ours}# END reduced.footprint.virt_host\n{QEMU_CONF}"
    assert step.mode == 0o600
    assert actions(plan_host(settings, brought(found, plan))) == []
    # and without the wish the file is what it was
    back = plan_host(parse_settings({}), brought(found, plan))
    assert [step.text for step in back.steps] == [QEMU_CONF]


def test_a_restart_that_was_lost_is_made_up_for():
    settings = parse_settings({"qemu_conf": {"max_files": 1}})
    written = plan_host(settings, host()).daemon_files[0].text
    late = host(files={plan_files.QEMU_CONF: FileFound(written, STARTED + 0.5)})
    assert actions(plan_host(settings, late)) == ["restart"]
    in_time = host(files={plan_files.QEMU_CONF: FileFound(written, STARTED - 0.5)})
    assert actions(plan_host(settings, in_time)) == []


def test_a_lost_restart_after_a_drop_in_was_taken_away_is_made_up_for():
    folder = DROP_IN.rpartition("/")[0]
    assert actions(plan_host(parse_settings({}), host(folders={folder: STARTED + 1}))) == ["restart"]
    assert actions(plan_host(parse_settings({}), host(folders={folder: STARTED - 1}))) == []


def test_a_daemon_that_sleeps_is_not_restarted():
    settings = parse_settings({"qemu_conf": {"max_files": 1}})
    plan = plan_host(settings, host(units=units(libvirtd_service={"active": "inactive", "started": None})))
    assert actions(plan) == ["write /etc/libvirt/qemu.conf"]
    assert [step.path for step in plan.daemon_files] == [plan_files.QEMU_CONF]


def test_guests_settings_restart_nothing():
    settings = parse_settings({"guests_conf": {"ON_SHUTDOWN": "shutdown", "URIS": "qemu:///system lxc:///system"}})
    plan = plan_host(settings, host())
    assert actions(plan) == ["write /etc/default/libvirt-guests"]
    assert plan.steps[0].text.splitlines()[1:3] == ["ON_SHUTDOWN=shutdown", "URIS='qemu:///system lxc:///system'"]


@pytest.mark.parametrize(
    ("asked", "kvm", "hidden", "warned"),
    [
        (True, BROKEN, True, False),
        (False, BROKEN, False, False),
        (True, Kvm(device=True, usable=True), False, False),
        (True, Kvm(), False, False),
        (True, Kvm(device=True, usable=None, reason="no QEMU yet"), False, True),
    ],
)
def test_kvm_is_hidden_only_when_asked_there_and_broken(asked, kvm, hidden, warned):
    plan = plan_host(parse_settings({"mask_broken_kvm": asked}), host(kvm=kvm))
    assert plan.hide_kvm is hidden
    assert actions(plan) == ([f"write {HIDE_KVM}", f"write {DROP_IN}", "reload systemd units", "restart"] if hidden else [])
    assert bool(plan.warnings) is warned
    if hidden:
        assert "\nWants=reduced-footprint-hide-kvm.service\n" in plan.steps[1].text
        assert "[Service]" in plan.steps[1].text and "\nBindPaths=-/run/reduced.footprint/no-kvm:/dev/kvm\n" in plan.steps[1].text
        # systemd creates missing mount points, so the source must not exist on a host without the device
        made = "ExecStart=-/usr/bin/find /dev/kvm -maxdepth 0 -type c -exec /usr/bin/install -D --mode=0600 /dev/null /run/reduced.footprint/no-kvm \\;\n"
        assert f"ExecStart=/usr/bin/rm -f /run/reduced.footprint/no-kvm\n{made}" in plan.steps[0].text


def test_kvm_comes_back_when_it_works_again():
    settings = parse_settings({"mask_broken_kvm": True})
    hidden = brought(host(kvm=BROKEN), plan_host(settings, host(kvm=BROKEN)))
    assert actions(plan_host(settings, hidden)) == []
    repaired = hidden._replace(kvm=Kvm(device=True, usable=True, hidden=True))
    assert actions(plan_host(settings, repaired)) == [f"remove {HIDE_KVM}", f"remove {DROP_IN}", "reload systemd units", "restart"]


def test_each_driver_has_a_daemon_and_the_one_of_qemu_gets_the_settings():
    states = modular(virtstoraged_socket={"active": "inactive", "file_state": "disabled"}, virtstoraged_service={"active": "inactive"})
    plan = plan_host(parse_settings({"mask_broken_kvm": True}), host(units=states, kvm=BROKEN))
    place = "/etc/systemd/system/virtqemud.service.d/reduced-footprint.conf"
    unit_actions = ["enable virtstoraged.socket", "start virtstoraged.socket", "restart"]
    assert actions(plan) == [f"write {HIDE_KVM}", f"write {place}", "reload systemd units", *unit_actions]
    assert plan.daemon == "virtqemud.service"


def test_units_are_enabled_and_started_and_a_socket_gets_its_service_back():
    states = units(libvirtd_socket={"active": "inactive"}, libvirt_guests_service={"active": "inactive", "file_state": "disabled"})
    plan = plan_host(parse_settings({}), host(units=states))
    assert actions(plan) == [
        "enable libvirt-guests.service", "stop libvirtd.service", "start libvirtd.socket, libvirt-guests.service", "start libvirtd.service",
    ]  # fmt: skip


def test_daemon_reload_after_a_killed_run():
    plan = plan_host(parse_settings({}), host(units=units(libvirtd_service={"needs_reload": True})))
    assert actions(plan) == ["reload systemd units"]


def test_a_masked_unit_is_somebodys_word():
    with pytest.raises(RefusedError, match="libvirt-guests.service is masked"):
        plan_host(parse_settings({}), host(units=units(libvirt_guests_service={"load": "masked"})))


def test_incomplete_installation_is_reported():
    with pytest.raises(BackendError, match="virtlogd.socket is not installed"):
        plan_host(parse_settings({}), host(units=units(virtlogd_socket={"load": "not-found"})))


def test_limits_are_raised_and_never_lowered():
    settings = parse_settings({"sysctl": {LIMIT: 1024}})
    plan = plan_host(settings, host())
    assert actions(plan) == [f"write {plan_files.SYSCTL}", f"set {LIMIT} from 128 to 1024"]
    assert plan.steps[1].path == "/proc/sys/fs/inotify/max_user_instances"
    assert actions(plan_host(settings, host(limits={LIMIT: 4096}))) == [f"write {plan_files.SYSCTL}"]
    with pytest.raises(InputError) as error:
        plan_host(settings, host(limits={LIMIT: None}))
    assert error.value.path == f"sysctl.{LIMIT}"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.5/x", "net/ipv4/conf/eth0.5/x"),
        ("net.ipv4.conf.eth0/5.x", "net/ipv4/conf/eth0.5/x"),
    ],
)
def test_limits_are_named_as_sysctl_names_them(name, path):
    assert limit_path(name) == f"/proc/sys/{path}"


def test_huge_pages_now_with_the_host_and_where_libvirt_looks():
    settings = parse_settings({"huge_pages": [{"size": "2 MiB", "count": 512}, {"size": "1 GiB", "count": 2}]})
    found = host()
    plan = plan_host(settings, found)
    mount = "/etc/systemd/system/dev-hugepages1G.mount"
    assert actions(plan) == [
        "set huge pages of 2 MiB from 0 to 512", "set huge pages of 1 GiB from 0 to 2", f"write {plan_files.HUGE_PAGES}",
        f"write {DROP_IN}", f"write {mount}", "reload systemd units", "restart",
    ]  # fmt: skip
    texts = {step.path: step.text for step in plan.steps if isinstance(step, WriteFile)}
    assert "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 512\n" in texts[plan_files.HUGE_PAGES]
    assert "Where=/dev/hugepages1G\n" in texts[mount] and "pagesize=1048576K" in texts[mount]
    assert "Wants=dev-hugepages1G.mount\n" in texts[DROP_IN]
    given = brought(found, plan)._replace(pages={2048: PagesFound(512, 512), 1024**2: PagesFound(2, 2)})
    assert actions(plan_host(settings, given)) == []
    # no longer wanted: given back, and nothing of it stays
    back = actions(plan_host(parse_settings({}), given))
    assert back == [
        "set huge pages of 2 MiB from 512 to 0", "set huge pages of 1 GiB from 2 to 0", f"remove {plan_files.HUGE_PAGES}",
        f"remove {DROP_IN}", f"remove {mount}", "reload systemd units", "restart",
    ]  # fmt: skip


def test_failed_pages_are_reported_and_not_requested_again():
    settings = parse_settings({"huge_pages": [{"size": "2 MiB", "count": 512}]})
    tried = brought(host(), plan_host(settings, host()))._replace(pages={2048: PagesFound(37, 37, tried=512)})
    plan = plan_host(settings, tried)
    assert actions(plan) == []
    assert "37 of 512 huge pages of 2 MiB" in plan.restart_required[0]
    # another number is another try
    more = parse_settings({"huge_pages": [{"size": "2 MiB", "count": 100}]})
    assert "set huge pages of 2 MiB from 37 to 100" in actions(plan_host(more, tried))


def test_pages_the_kernel_does_not_know_or_that_eat_the_host_are_refused():
    with pytest.raises(InputError, match="supported: 2 MiB, 1 GiB") as error:
        plan_host(parse_settings({"huge_pages": [{"size": "16 MiB", "count": 1}]}), host())
    assert error.value.path == "huge_pages[0].size"
    with pytest.raises(CapacityError, match="8 GiB of huge pages would leave less than 1 GiB of 8 GiB"):
        plan_host(parse_settings({"huge_pages": [{"size": "1 GiB", "count": 8}]}), host())


@pytest.mark.parametrize(
    ("wanted", "now", "due"), [(True, "N\n", True), (True, "Y\n", False), (True, "1\n", False), (False, "Y\n", True), (None, "Y\n", False)]
)
def test_nested_guests_wait_for_the_module(wanted, now, due):
    plan = plan_host(parse_settings({"nested": wanted}), host(modules={"kvm_intel": now}))
    assert actions(plan) == ([] if wanted is None else [f"write {plan_files.MODPROBE}"])
    assert bool(plan.restart_required) is due
    if wanted is not None:
        assert f"options kvm_intel nested={int(wanted)}\n" in plan.steps[0].text
        assert not any("modprobe" in step.action for step in plan.steps if not isinstance(step, WriteFile))


def test_users_are_added_and_unknown_ones_refused():
    plan = plan_host(parse_settings({"users": ["ann"]}), host())
    assert [step.argv for step in plan.steps] == [("usermod", "--append", "--groups", "libvirt", "ann")]
    assert actions(plan_host(parse_settings({"users": ["ann"]}), host(members=frozenset({"ann"})))) == []
    with pytest.raises(InputError) as error:
        plan_host(parse_settings({"users": ["ann", "eve"]}), host())
    assert error.value.path == "users[1]"


@pytest.mark.parametrize(
    ("label", "steps"),
    [
        (Label("/srv/guests", "virt_image_t", "virt_image_t"), []),
        (Label("/srv/guests", "var_t", "var_t"), ["add /srv/guests to the SELinux policy", "restore the SELinux labels of /srv/guests"]),
        (Label("/srv/guests", "var_t", None), ["add /srv/guests to the SELinux policy", "create /srv/guests", "restore the SELinux labels of /srv/guests"]),
        # killed between the policy and the disk
        (Label("/srv/guests", "virt_image_t", "var_t"), ["restore the SELinux labels of /srv/guests"]),
        (Label("/srv/guests", "var_t", "nfs_t"), []),
    ],
)
def test_selinux_learns_a_pool_and_stays_on(label, steps):
    plan = plan_host(parse_settings({"pool_paths": ["/srv/guests"]}), host(labels=(label,)))
    assert actions(plan) == steps
    assert bool(plan.warnings) is (label.actual == "nfs_t")
    for step in plan.steps:
        assert "setenforce" not in step.action


def test_selinux_path_is_escaped():
    (step, unused) = plan_host(parse_settings({"pool_paths": ["/srv/a.b"]}), host(labels=(Label("/srv/a.b", "var_t", "var_t"),))).steps
    assert step.argv[-1] == r"/srv/a\.b(/.*)?"


def test_block_keeps_its_position_and_other_lines():
    text = "a\n# BEGIN reduced.footprint.virt_host\nold\n# END reduced.footprint.virt_host\nb"
    assert plan_files.with_block(text, ["new"], at_top=True) == "a\n# BEGIN reduced.footprint.virt_host\nnew\n# END reduced.footprint.virt_host\nb"
    assert plan_files.with_block(text, [], at_top=True) == "a\nb"
    assert plan_files.with_block("a", ["new"], at_top=False) == "a\n# BEGIN reduced.footprint.virt_host\nnew\n# END reduced.footprint.virt_host\n"
    assert plan_files.with_block(None, [], at_top=False) is None


HOOK = {"/etc/reduced.footprint/vms/.present": ("", 0o644), "/etc/libvirt/hooks/qemu.d/ours": ("#!", 0o755)}


def test_libvirt_looks_for_a_new_hook_and_is_otherwise_not_restarted():
    settings = parse_settings({})._replace(hook=HOOK)
    plan = plan_host(settings, host())
    assert plan.restart and not plan.daemon_files and [step.path for step in plan.steps if isinstance(step, WriteFile)] == list(HOOK)
    for written, restart in ((STARTED - 1, False), (STARTED + 1, True)):
        there = {path: FileFound(text, written) for path, (text, unused) in HOOK.items()}
        assert plan_host(settings, host(files=there)).restart is restart
        separate = host(files=there, units=modular(virtlxcd_socket={"load": "loaded", "active": "active", "file_state": "enabled"}, virtlxcd_service={
            "load": "loaded", "active": "active", "file_state": "enabled", "started": STARTED}))
        assert ("restart virtlxcd.service" in actions(plan_host(settings, separate))) is restart
