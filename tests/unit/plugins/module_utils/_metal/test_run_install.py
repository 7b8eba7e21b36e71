# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The installation as a whole, on a server that exists in this test only: what is read, written, refused and confirmed."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install, plan_install_files, run_install

GIB = 1 << 30
HOST_KEY = io_certificates.make_ssh_key()
OPERATOR = f"ssh-ed25519 AAAA{'B' * 64} operator"
STARTED, COMPLETE = (plan_install.label("metal1", "SER1", complete) for complete in (False, True))
ROOT_JSON = json.dumps({"sha256": "a" * 64, "unpacked": GIB})


class Server:
    """A server with disks; it records what is done to it."""

    def __init__(self) -> None:
        self.disks: dict[str, dict[str, t.Any]] = {}
        self.add("/dev/sda", "SER1")
        self.add("/dev/sdb", "SER2", {"/dev/sdb": ["gpt"], "/dev/sdb1": ["LVM2_member"]})
        self.small, self.is_uefi, self.root, self.line, self.finished = True, True, ROOT_JSON, "quiet footprint.server=http://192.0.2.5:8070 x", ""
        self.installed: str | None = None
        self.volumes: list[dict[str, str]] = [{"pv_name": "/dev/sdb1", "vg_name": "data"}]
        self.calls: list[str] = []
        self.files: dict[str, tuple[str, int]] = {}
        self.mounted: dict[str, str] = {}
        self.fails = ""

    def add(self, path: str, serial: str, content: dict[str, list[str]] | None = None, size: int = 20 * GIB, **more: t.Any) -> None:
        """Add a disk, or replace it."""
        self.disks[path] = {"serial": serial, "size": size, "content": content or {}, "label": "", "points": {}, **more}

    def require_root(self) -> None:
        """It is root."""

    def lock(self) -> t.ContextManager[None]:
        """Not locked."""
        return contextlib.nullcontext()

    def in_boot_system(self) -> bool:
        """Whether it is the small system."""
        return self.small

    def uefi(self) -> bool:
        """The firmware."""
        return self.is_uefi

    def command_line(self) -> str:
        """Of the kernel."""
        return self.line

    def lsblk(self) -> str:
        """The disks."""
        found = []
        for path, disk in self.disks.items():
            children = [
                {"name": each[5:], "path": each, "type": "part", "size": 1, "mountpoints": disk["points"].get(each, [None])}
                for each in disk["content"] if each != path
            ]  # fmt: skip
            found.append(
                {"name": path[5:], "path": path, "type": "disk", "size": disk["size"], "serial": disk["serial"], "ro": disk.get("ro", False),
                 "mountpoints": disk["points"].get(path, [None]), "children": children}
            )  # fmt: skip
        found.append({"name": "sr0", "path": "/dev/sr0", "type": "rom", "size": 1, "serial": "SER1"})
        return json.dumps({"blockdevices": found})

    def label(self, device: str) -> str:
        """Of a table."""
        return str(self.disks[device]["label"]).upper()

    def signatures(self, device: str) -> str:
        """Of a device."""
        kinds = next((disk["content"].get(device, []) for disk in self.disks.values() if device in disk["content"]), [])
        return json.dumps({"signatures": [{"device": device, "offset": "0x1fe", "type": kind} for kind in kinds]}) if kinds else ""

    def has_bytes(self, device: str) -> bool:
        """Whether it begins with anything but zeros."""
        return bool(self.disks[device].get("raw"))

    def last_mounted(self, device: str) -> str:
        """Of a file system; of a volume only after its activation."""
        return self.mounted.get(device, "") if any(device in disk["content"] for disk in self.disks.values()) else ""

    def activate(self, device: str, group: str) -> None:
        """Activate the volume of the group."""
        if self.fails == "activate":
            raise CommandError(["vgchange"], 5, "a device is missing")
        next(disk for disk in self.disks.values() if device in disk["content"])["content"][f"/dev/mapper/{group}-root"] = ["ext4"]

    def groups(self) -> str:
        """Volume groups."""
        return json.dumps({"report": [{"pv": self.volumes}]})

    def mark(self, path: str) -> str | None:
        """Of the installed system."""
        assert path == plan_install_files.MARK
        return self.installed

    def fetch(self, url: str) -> str:
        """The description of the archive."""
        assert url == "http://192.0.2.5:8070"
        return self.root

    def done(self, request: str) -> bool:
        """Whether this boot has completed it."""
        return self.finished == request

    def set_done(self, request: str | None) -> None:
        """It has, or not."""
        self.finished = request or ""

    def partition(self, device: str, parts: t.Sequence[str], table: str) -> list[str]:
        """Write the table."""
        self._call("partition", device, *parts)
        self.disks[device]["label"] = table.split("label-id: ")[1].splitlines()[0]
        self.disks[device]["content"] = {device: ["gpt"], f"{device}1": [], f"{device}2": []}
        return [f"{device}1", f"{device}2"]

    def make_volume(self, device: str, group: str, size: int) -> str:
        """Create the group."""
        self._call("make_volume", device, group, size)
        return f"/dev/{group}/root"

    def put(self, path: str, text: str, mode: int) -> None:
        """Write a file."""
        self.files[path] = (text, mode)

    def set_label(self, device: str, wanted: str) -> None:
        """Replace the label."""
        self._call("set_label", device)
        self.disks[device]["label"] = wanted

    def __getattr__(self, name: str) -> t.Any:
        return lambda *values: self._call(name, *values)

    def _call(self, name: str, *values: t.Any) -> None:
        if name == self.fails:
            raise BackendError(f"{name} failed")
        self.calls.append(" ".join([name, *map(str, values)]))


@pytest.fixture(name="server")
def fixture_server() -> Server:
    return Server()


def run(server: Server, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
    network = {"prefix": 24, "gateway": "192.0.2.1", "dns": ["192.0.2.2", "192.0.2.3"], "mac": "52:54:00:00:00:01"}
    params = {
        "name": "metal1", "state": "present", "disk": "SER1", "erase": [], "lvm": None, "hostname": None, "address": "192.0.2.11", "network": network,
        "authorized_keys": [OPERATOR], "host_private_key": HOST_KEY, **more,
    }  # fmt: skip
    return run_install.apply(params, check, server).as_result()


@pytest.mark.parametrize("lvm", [None, {"group": "vms", "root": "6 GiB"}])
@pytest.mark.parametrize("uefi", [True, False])
def test_an_empty_disk_is_written(server: Server, uefi: bool, lvm: t.Any) -> None:
    server.is_uefi = uefi
    result = run(server, lvm=lvm)
    assert result["changed"] and result["installation"]["state"] == "write" and result["installation"]["device"] == "/dev/sda"
    assert result["actions"][0] == "install Debian on /dev/sda (SER1)" and result["host_key"].startswith("ssh-ed25519 AAAA")
    text = "\n".join(server.calls)
    assert "sdb" not in text and HOST_KEY not in json.dumps(result)
    root = "/dev/vms/root" if lvm else "/dev/sda2"
    names = [call.partition(" ")[0] for call in server.calls]
    assert names == [
        "release", "partition", *(["make_volume"] if lvm else []), "make_root", "mount", *(["make_esp", "mount"] if uefi else []), "unpack", "boot_loader",
        "finish",
    ]  # fmt: skip
    assert f"make_root {root} " in text and f"mount {root} " in text and f"boot_loader /dev/sda {uefi}" in text
    fstab = server.files["etc/fstab"][0]
    assert ("/boot/efi vfat" in fstab) == uefi and fstab.count("UUID=") == 1 + uefi
    # it is not complete before the installed system has answered
    assert server.disks["/dev/sda"]["label"] == STARTED
    again = run(server, lvm=lvm)
    assert again["installation"]["state"] == "continue" and [call.partition(" ")[0] for call in server.calls] == names, "this boot has already written it"


def test_the_files_of_a_server(server: Server) -> None:
    run(server, hostname="m1.example.com")
    texts = {path: text for path, (text, _mode) in server.files.items()}
    assert texts["etc/hostname"] == "m1.example.com\n" and "192.0.2.11 m1.example.com m1\n" in texts["etc/hosts"]
    network = texts["etc/systemd/network/10-admin.network"]
    assert "PermanentMACAddress=52:54:00:00:00:01\n" in network and "Address=192.0.2.11/24\nGateway=192.0.2.1\nDNS=192.0.2.2\nDNS=192.0.2.3\n" in network
    assert texts["etc/resolv.conf"] == "nameserver 192.0.2.2\nnameserver 192.0.2.3\n"
    assert texts["root/.ssh/authorized_keys"] == f"{OPERATOR}\n" and "PasswordAuthentication no" in texts["etc/ssh/sshd_config.d/10-keys-only.conf"]
    assert server.files["etc/ssh/ssh_host_ed25519_key"] == (HOST_KEY, 0o600) and server.files["root/.ssh/authorized_keys"][1] == 0o600
    assert len(texts["etc/machine-id"]) == 33 and json.loads(texts[plan_install_files.MARK]) == {"name": "metal1", "disk": "SER1", "schema": 1}
    # a file of networkd that sorts before those of virt_network would be refused by it
    assert min(name for name in texts if name.startswith("etc/systemd/network/")) > "etc/systemd/network/00-reduced-footprint"


def test_check_mode_writes_nothing(server: Server) -> None:
    result = run(server, check=True, lvm={"group": "vms", "root": "6 GiB"})
    assert result["changed"] and server.calls == [] and not server.files
    assert result["actions"] == [
        "install Debian on /dev/sda (SER1)", "create partition 1: 512 MiB, vfat at /boot/efi", "create partition 2: 19.5 GiB, lvm",
        "create volume vms/root: 6 GiB, ext4 at /",
    ]  # fmt: skip


def test_data_without_a_signature_is_refused(server: Server) -> None:
    server.add("/dev/sda", "SER1", raw=True)
    with pytest.raises(RefusedError, match="contains data: data without a known signature on /dev/sda"):
        run(server)
    assert server.calls == []
    assert run(server, erase=["SER1"])["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_foreign_data_is_refused_and_erased_by_its_serial_number_only(server: Server, check: bool) -> None:
    server.add("/dev/sda", "SER1", {"/dev/sda": ["gpt"], "/dev/sda1": ["ext4"]})
    for erase in ([], ["SER2"], ["sda"]):
        with pytest.raises(RefusedError, match="contains data: gpt on /dev/sda, ext4 on /dev/sda1") as caught:
            run(server, check, erase=erase)
        assert caught.value.path == "servers.metal1.install.disk" and server.calls == []
    result = run(server, check, erase=["SER1"])
    assert result["actions"][0] == "erase gpt on /dev/sda, ext4 on /dev/sda1"
    assert bool(server.calls) != check and (check or "partition /dev/sda /dev/sda1" in server.calls)


@pytest.mark.parametrize("step", ["partition", "make_root", "make_esp", "make_volume", "mount", "unpack", "boot_loader", "finish"])
def test_an_interrupted_installation_is_repeated_without_the_serial_number(server: Server, step: str) -> None:
    server.fails = step
    lvm = {"group": "vms", "root": "6 GiB"}
    with pytest.raises(BackendError):
        run(server, lvm=lvm)
    server.fails = ""
    # its volume group is not a conflict
    if step != "partition":
        server.volumes.append({"pv_name": "/dev/sda2", "vg_name": "vms"})
    result = run(server, lvm=lvm)
    assert result["changed"] and result["installation"]["state"] == ("write" if step == "partition" else "continue") and server.calls[-1].startswith("finish")


@pytest.mark.parametrize("lvm", [None, {"group": "vms", "root": "6 GiB"}])
def test_an_installation_that_was_started_but_not_confirmed_is_data(server: Server, lvm: t.Any) -> None:
    """Someone may have used it since; what the installation itself has mounted does not count."""
    run(server, lvm=lvm)
    server.volumes += [{"pv_name": "/dev/sda2", "vg_name": "vms"}] if lvm else []
    root = "/dev/mapper/vms-root" if lvm else "/dev/sda2"
    server.mounted[root] = "/mnt/footprint-install"
    server.finished, server.calls = "", []
    assert run(server, check=True, lvm=lvm)["installation"]["state"] == "continue"
    server.mounted[root] = "/"
    for check in (True, False):
        with pytest.raises(RefusedError, match="was started since, but was never confirmed") as caught:
            run(server, check, lvm=lvm)
        assert "install_server_erase: [SER1]" in str(caught.value.hint)
    assert server.calls == []
    result = run(server, lvm=lvm, erase=["SER1"])
    assert result["installation"]["state"] == "write" and server.calls[-1].startswith("finish")
    # the volume of the group is removed before the disk is written
    assert not lvm or server.calls[0] == "release ['/dev/mapper/vms-root']"


def test_a_volume_group_that_cannot_be_activated_is_data(server: Server) -> None:
    lvm = {"group": "vms", "root": "6 GiB"}
    run(server, lvm=lvm)
    server.volumes.append({"pv_name": "/dev/sda2", "vg_name": "vms"})
    server.finished, server.calls, server.fails = "", [], "activate"
    problem(server, RefusedError, "may contain data", lvm=lvm)


def test_a_complete_installation_is_not_written(server: Server) -> None:
    server.add("/dev/sda", "SER1", {"/dev/sda": ["gpt"], "/dev/sda2": ["ext4"]}, label=COMPLETE)
    result = run(server, erase=["SER1"])
    assert not result["changed"] and result["installation"]["state"] == "complete" and server.calls == [] and result["host_key"]


def test_what_is_mounted_is_refused_except_by_an_interrupted_run(server: Server) -> None:
    server.add("/dev/sda", "SER1", {"/dev/sda": ["gpt"], "/dev/sda1": ["ext4"]}, label=STARTED, points={"/dev/sda1": ["/srv"]})
    with pytest.raises(RefusedError, match="in use: /dev/sda1 at /srv"):
        run(server)
    server.disks["/dev/sda"]["points"] = {"/dev/sda1": ["/mnt/footprint-install/boot/efi"]}
    assert run(server)["changed"]


def problem(server: Server, error: type[FootprintError], words: str, **more: t.Any) -> None:
    with pytest.raises(error, match=words):
        run(server, **more)
    assert server.calls == []


def test_refusals_before_anything_is_written(server: Server) -> None:
    problem(server, InputError, "has no disk SER9; its disks are /dev/sda .SER1., /dev/sdb .SER2.", disk="SER9")
    problem(server, InputError, "host_private_key: is not a private key", host_private_key="hello")
    problem(server, RefusedError, "/dev/sdb1 have a volume group data", lvm={"group": "data", "root": "6 GiB"})
    server.root = "{}"
    problem(server, BackendError, "root.json cannot be parsed")
    server.root = "<html>"
    problem(server, BackendError, "root.json cannot be parsed")
    server.root = json.dumps({"sha256": "x", "unpacked": 1})
    problem(server, BackendError, "root.json cannot be parsed")
    server.root = ROOT_JSON
    server.line = "quiet"
    problem(server, BackendError, "has no boot server")
    server.small = False
    problem(server, RefusedError, "not the system that servers boot over the network")
    server.small, server.line = True, "footprint.server=http://192.0.2.5:8070"
    server.add("/dev/sda", "SER1", size=4 * GIB)
    problem(server, RefusedError, "4.5. GiB are required")
    server.add("/dev/sda", "SER1", ro=True)
    problem(server, RefusedError, "is read-only")
    server.add("/dev/sda", "SER1")
    server.add("/dev/sdc", "SER1")
    problem(server, RefusedError, "have the same serial number SER1")


def confirm(server: Server, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
    return run(server, check, state="confirmed", host_private_key=None, **more)


def test_the_installed_system_is_confirmed_once(server: Server) -> None:
    server.installed = json.dumps({"name": "metal1", "disk": "SER1", "schema": 1})
    server.add("/dev/sda", "SER1", {"/dev/sda": ["gpt"], "/dev/sda2": ["ext4"]}, label=STARTED, points={"/dev/sda2": ["/"]})
    assert confirm(server, check=True)["changed"] and server.calls == []
    result = confirm(server)
    assert result["changed"] and server.disks["/dev/sda"]["label"] == COMPLETE and result["host_key"] is None
    assert not confirm(server)["changed"] and server.calls == ["set_label /dev/sda"]


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        (None, "did not install"),
        ("x", "cannot be parsed"),
        (json.dumps({"name": "metal2", "disk": "SER1"}), "installed as metal2 on the disk SER1, not as metal1 on SER1"),
        (json.dumps({"name": "metal1", "disk": "SER2"}), "installed as metal1 on the disk SER2, not as metal1 on SER1"),
        (json.dumps({"name": "metal1", "disk": "SER1", "schema": 99}), "schema 99"),
        (json.dumps({"name": "metal1", "disk": "SER1"}), "does not have the partition table"),
    ],
)
def test_another_system_is_not_confirmed(server: Server, installed: str | None, words: str) -> None:
    server.installed = installed
    server.add("/dev/sda", "SER1", {"/dev/sda": ["gpt"]}, label="1234")
    with pytest.raises(FootprintError, match=words):
        confirm(server)
    assert server.calls == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a footprint.server=http://192.0.2.5:8070 b", "http://192.0.2.5:8070"),
        ("footprint.server=http://192.0.2.5:8070", "http://192.0.2.5:8070"),
        ("xfootprint.server=http://192.0.2.5:8070", None),
        ("footprint.server=file:///etc", None),
        ("footprint.server=http://192.0.2.5:8070/x", None),
        ("", None),
    ],
)
def test_the_boot_server_is_on_the_command_line(line: str, found: str | None) -> None:
    assert plan_install_files.server(line) == found


def test_mapped_devices_are_removed_from_the_top() -> None:
    volume = {"path": "/dev/mapper/vms-root", "children": [{"path": "/dev/mapper/secret"}]}
    text = json.dumps({"blockdevices": [{"path": "/dev/sda", "children": [{"path": "/dev/sda1"}, {"path": "/dev/sda2", "children": [volume]}]}]})
    assert plan_install_files.mapped(text, "/dev/sda") == ["/dev/mapper/secret", "/dev/mapper/vms-root"]
    assert plan_install_files.mapped(text, "/dev/sdb") == []
