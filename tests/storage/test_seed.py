# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeds of cloud-init: their content for the guest, when they are created again, and that the content is not disclosed."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import typing as t

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import vm_uuid
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key
from storage_host import StorageHost

SECRET = "hunter2-äöü"
VM: dict[str, t.Any] = {
    "id": "a",
    "user_data": {"password": SECRET, "chpasswd": {"expire": False}},
    "network_config": {"version": 2, "ethernets": {"nic0": {"dhcp4": True}}},
}
BOX: dict[str, t.Any] = dict(VM, id="box", disks=[{"image": "root"}])
SEED = "a-seed.iso"


def extracted(iso: pathlib.Path, tmp_path: pathlib.Path) -> dict[str, str]:
    """What stands in an ISO, read by another program than ours."""
    into = tmp_path / "extracted"
    subprocess.run(["xorriso", "-no_rc", "-osirrox", "on", "-indev", str(iso), "-extract", "/", str(into)], check=True, capture_output=True)
    found = {path.name: path.read_text() for path in into.iterdir()}
    subprocess.run(["rm", "-rf", str(into)], check=True)
    return found


def test_a_machine_gets_a_labelled_drive(host: StorageHost, tmp_path: pathlib.Path) -> None:
    made = host.one(VM)
    assert made.actions == ["define", f"write_seed footprint-test/{SEED}", "autostart_on", "start"]
    iso = host.folder / SEED
    label = subprocess.run(["blkid", "-o", "value", "-s", "LABEL", str(iso)], check=True, capture_output=True, text=True).stdout
    assert (label.strip(), stat.S_IMODE(iso.stat().st_mode)) == ("cidata", 0o600)
    files = extracted(iso, tmp_path)
    assert sorted(files) == ["meta-data", "network-config", "user-data"]
    assert files["user-data"].startswith("#cloud-config\n")
    assert yaml.safe_load(files["user-data"]) == VM["user_data"]
    assert yaml.safe_load(files["meta-data"]) == {"instance-id": vm_uuid("storage", "a"), "local-hostname": "a"}
    assert yaml.safe_load(files["network-config"]) == VM["network_config"]
    drive = host.domain("a").XMLDesc()
    assert f"<source file='{iso}'" in drive and "<readonly/>" in drive


def test_texts_are_taken_as_they_are(host: StorageHost, tmp_path: pathlib.Path) -> None:
    script = "#!/bin/sh\necho '{{ no template }}'\n"
    host.one({"id": "a", "user_data": script, "meta_data": "local-hostname: other\n"}, state="present")
    files = extracted(host.folder / SEED, tmp_path)
    assert files == {"user-data": script, "meta-data": f'instance-id: "{vm_uuid("storage", "a")}"\nlocal-hostname: other\n'}


def test_changed_content_is_remade_and_waits_for_the_next_boot(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.one(VM)
    number = host.domain("a").ID()
    changed = host.one(dict(VM, user_data="#cloud-config\n{}\n"))
    assert changed.actions == [f"write_seed footprint-test/{SEED}"]
    assert changed.changes == [{"path": "seed", "class": "next_boot", "before": "there", "after": "new content", "applied": "there"}]
    assert extracted(host.folder / SEED, tmp_path)["user-data"] == "#cloud-config\n{}\n"
    # due until the guest has been restarted, and the guest is left alone
    again = host.call(dict(VM, user_data="#cloud-config\n{}\n")).vms[0]
    assert (again.changed, again.restart_required, host.domain("a").ID()) == (False, True, number)
    cycled = host.one(dict(VM, user_data="#cloud-config\n{}\n"), allow_power_cycling=True)
    assert (cycled.actions, cycled.restart_required) == (["power_cycle"], False)
    assert not host.call(dict(VM, user_data="#cloud-config\n{}\n")).vms[0].restart_required


def test_a_running_vm_gets_and_loses_its_seed(host: StorageHost) -> None:
    host.one({"id": "a"})
    number = host.domain("a").ID()
    seeded = host.one(VM)
    assert (seeded.actions, seeded.restart_required) == ([f"write_seed footprint-test/{SEED}", "redefine", "change_live"], True)
    assert SEED in host.domain("a").XMLDesc()
    # cloud-init reads it at the next boot
    assert host.call(VM).vms[0].restart_required and host.domain("a").ID() == number
    assert host.one(VM, allow_power_cycling=True).actions == ["power_cycle"]
    # a guest without an operating system does not release the disk, which check mode cannot know; nothing is deleted without being asked
    unseeded = host.call({"id": "a"}).vms[0]
    assert (unseeded.error, unseeded.restart_required, host.volumes()) == (None, True, [SEED])


def test_damaged_seed_is_created_again(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.one(VM, state="present")
    (host.folder / SEED).write_bytes(b"spoiled" * 10000)
    assert host.one(VM, state="present").actions == [f"write_seed footprint-test/{SEED}"]
    assert SECRET in extracted(host.folder / SEED, tmp_path)["user-data"]


def test_a_seed_goes_with_the_disks(host: StorageHost) -> None:
    host.one(VM)
    host.one({"id": "a"}, state="absent", remove_disks=True, wipe=True)
    assert host.volumes() == []


def test_a_container_finds_files_in_its_root(host: StorageHost) -> None:
    host.root_image()
    made = host.one(BOX, kind="lxc")
    assert made.actions[1:3] == ["create_volume footprint-test/box-disk0", "write_seed footprint-test/box-disk0/var/lib/cloud/seed/nocloud"]
    folder = host.folder / "box-disk0" / "var" / "lib" / "cloud" / "seed" / "nocloud"
    assert SECRET in (folder / "user-data").read_text()
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    fewer = {key: value for key, value in BOX.items() if key != "network_config"}
    changed = host.one(fewer, kind="lxc")
    assert (len(changed.actions), changed.restart_required) == (1, True)
    assert sorted(path.name for path in folder.iterdir()) == ["meta-data", "user-data"]


@pytest.mark.parametrize("part", ["var", "var/lib/cloud/seed", "var/lib/cloud/seed/nocloud/user-data"])
def test_no_link_of_a_guest_is_followed(host: StorageHost, part: str, tmp_path: pathlib.Path) -> None:
    host.root_image()
    host.one({"id": "box", "disks": BOX["disks"]}, kind="lxc", state="present")
    target = tmp_path / "outside"
    if part.endswith("user-data"):
        target.write_text("precious")
    else:
        target.mkdir()
    link = host.folder / "box-disk0" / part
    link.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(target, link)
    result = host.call(BOX, kind="lxc", state="present").vms[0]
    if part.endswith("user-data"):
        # a file is replaced, wherever its link led
        assert (result.error, target.read_text(), link.is_symlink()) == (None, "precious", False)
    else:
        assert "cannot write the seed" in result.error
        assert list(target.iterdir()) == []


def test_no_root_no_seed(host: StorageHost) -> None:
    with pytest.raises(InputError, match="has no root file system for the cloud-init seed"):
        host.call({"id": "box", "user_data": "#!/bin/sh\n"}, kind="lxc", state="present")


def test_template_without_the_seed_is_reported(host: StorageHost) -> None:
    template = "<domain type='qemu'><name>{id}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu></domain>"
    made = host.call(VM, template=template, state="present").vms[0]
    assert set(made.unused_attributes) >= {"user_data", "network_config"}
    assert host.volumes() == []


@pytest.mark.parametrize("kind", ["qemu", "lxc"])
def test_content_that_cloud_init_ignores_is_refused(host: StorageHost, kind: str) -> None:
    host.root_image()
    details = {"id": "box", "disks": [{"image": "root"}]} if kind == "lxc" else {"id": "a", "disks": [{"size": "1 MiB"}]}
    for check in (True, False):
        with pytest.raises(InputError) as raised:
            host.call({**details, "user_data": "users:\n  - name: admin\n"}, kind=kind, check=check, state="present")
        assert raised.value.path == "vms[0].user_data" and raised.value.hint
    assert host.volumes() == []


def test_the_content_shows_nowhere(host: StorageHost) -> None:
    for check in (True, False):
        result = host.call(VM, check=check)
        assert "hunter2" not in json.dumps(result.as_result()) + "".join(result.warnings)
        changed = host.call(dict(VM, user_data=f"#cloud-config\npassword: new-{SECRET}\n"), check=check)
        assert "hunter2" not in json.dumps(changed.as_result()) + "".join(changed.warnings)
    assert "hunter2" not in host.domain("a").XMLDesc()
    with pytest.raises(InputError) as raised:
        host.call(dict(VM, user_data={"password": {SECRET}}))
    assert (raised.value.path, "hunter2" in str(raised.value)) == ("vms[0].user_data", False)


def test_what_a_killed_run_left_is_cleared(host: StorageHost) -> None:
    left = host.folder / ".a-seed.iso.partial"
    left.mkdir(mode=0o700)
    (left / "files").mkdir()
    (left / "files" / "user-data").write_text(SECRET)
    host.one(VM, state="present")
    assert host.volumes() == [SEED]


def host_keys(name: str = "box") -> dict[str, str]:
    return {name: io_certificates.make_ssh_key()}


def test_a_new_container_starts_with_the_host_key_it_was_given(host: StorageHost) -> None:
    host.root_image()
    keys = host_keys()
    key = model_host_key.parse(keys["box"], "")
    made = host.one(BOX, kind="lxc", host_keys=keys)
    folder = host.folder / "box-disk0" / "etc" / "ssh"
    private, public = folder / "ssh_host_ed25519_key", folder / "ssh_host_ed25519_key.pub"
    assert made.host_key == key.public
    assert (private.read_text(), public.read_text()) == (key.private, f"{key.public}\n")
    assert (stat.S_IMODE(private.stat().st_mode), stat.S_IMODE(public.stat().st_mode)) == (0o600, 0o644)
    # another key changes nothing: what counts is the one the guest has
    again = host.one(BOX, kind="lxc", host_keys=host_keys())
    assert (again.actions, again.host_key) == ([], key.public)


def test_a_container_that_made_its_own_host_key_is_reported_with_that(host: StorageHost) -> None:
    host.root_image()
    box = {"id": "box", "disks": BOX["disks"]}
    host.one(box, kind="lxc", state="present")
    folder = host.folder / "box-disk0" / "etc" / "ssh"
    folder.mkdir(parents=True, exist_ok=True)
    own = model_host_key.parse(io_certificates.make_ssh_key(), "").public
    (folder / "ssh_host_ed25519_key.pub").write_text(f"{own} root@box\n")
    result = host.one(box, kind="lxc", state="present", host_keys=host_keys())
    assert (result.actions, result.host_key) == ([], own)


def test_no_link_of_a_guest_leads_to_a_host_key(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.root_image()
    box = {"id": "box", "disks": BOX["disks"]}
    host.one(box, kind="lxc", state="present")
    (tmp_path / "ssh_host_ed25519_key.pub").write_text(model_host_key.parse(io_certificates.make_ssh_key(), "").public)
    (host.folder / "box-disk0" / "etc").mkdir(exist_ok=True)
    os.symlink(tmp_path, host.folder / "box-disk0" / "etc" / "ssh")
    assert host.one(box, kind="lxc", state="present", host_keys=host_keys()).host_key is None


def test_a_new_machine_finds_its_host_key_in_the_seed(host: StorageHost, tmp_path: pathlib.Path) -> None:
    vm = dict(VM, disks=[{"size": "16 MiB"}])
    keys = host_keys("a")
    key = model_host_key.parse(keys["a"], "")
    made = host.one(vm, host_keys=keys)
    assert made.host_key == key.public
    files = extracted(host.folder / SEED, tmp_path)
    assert files["vendor-data"] == model_host_key.vendor_data(key)
    # the key stays with the guest, whatever else changes and whether it is given again or not
    again = host.one(vm, host_keys=host_keys("a"))
    assert (again.actions, again.host_key) == ([], key.public)
    changed = host.one(dict(vm, user_data={"password": "other"}))
    assert changed.actions == [f"write_seed footprint-test/{SEED}"]
    assert extracted(host.folder / SEED, tmp_path)["vendor-data"] == files["vendor-data"]


def test_a_machine_that_exists_gets_no_host_key(host: StorageHost, tmp_path: pathlib.Path) -> None:
    vm = dict(VM, disks=[{"size": "16 MiB"}])
    host.one(vm, state="present")
    later = host.one(vm, state="present", host_keys=host_keys("a"))
    assert (later.actions, later.host_key) == ([], None)
    own = dict(vm, id="b", user_data={"ssh_keys": {}})
    assert host.one(own, state="present", host_keys=host_keys("b")).host_key is None


OPERATOR = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs operator"


def test_a_machine_from_an_image_gets_a_seed_for_the_operators_key(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.image("base")
    vm = {"id": "a", "disks": [{"size": "16 MiB", "image": "base", "format": "qcow2"}]}
    made = host.one(vm, state="present", authorized_keys=[OPERATOR])
    assert f"write_seed footprint-test/{SEED}" in made.actions
    files = extracted(host.folder / SEED, tmp_path)
    assert files["user-data"] == "" and json.loads(files["vendor-data"].removeprefix("#cloud-config\n"))["ssh_authorized_keys"] == [OPERATOR]
    assert SEED in host.domain("a").XMLDesc()
    # it stays, whether the key is given again or not; another key does not reach a machine that exists
    for keys in ([OPERATOR], [f"{OPERATOR}2"], []):
        assert host.one(vm, state="present", authorized_keys=keys).actions == []
    # and is removed with the machine
    host.one(vm, state="absent", remove_disks=True)
    assert SEED not in host.volumes()


def test_machines_that_exist_or_have_no_image_get_no_seed(host: StorageHost) -> None:
    vm = {"id": "a", "disks": [{"size": "16 MiB"}]}
    host.one(vm, state="present", authorized_keys=[OPERATOR])
    assert host.one(vm, state="present", authorized_keys=[OPERATOR]).actions == [] and SEED not in host.volumes()


def test_a_new_container_accepts_the_operators_key(host: StorageHost) -> None:
    host.root_image()
    host.one({"id": "box", "disks": BOX["disks"]}, kind="lxc", state="present", authorized_keys=[OPERATOR])
    assert OPERATOR in (host.folder / "box-disk0/root/.ssh/authorized_keys").read_text().splitlines()


def test_a_host_key_for_a_vm_that_is_not_listed_is_refused(host: StorageHost) -> None:
    with pytest.raises(InputError, match=r"host_keys\.other: vms has no VM"):
        host.call(VM, host_keys=host_keys("other"))
