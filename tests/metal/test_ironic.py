# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenStack Ironic enrols, inspects, controls and deploys VMs behind the application of the role redfish_emulator, with the file that export_metal writes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t
from xml.etree import ElementTree

import agent
import bare
import libvirt
import netboot
import pytest
import service
import standalone
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_define

VMS: list[dict[str, t.Any]] = [
    {
        "id": "modern", "cpu": 3, "ram": 2, "hypervisor": "qemu", "boot_firmware": "efi",
        "nics": [{"bridge": "BRIDGE"}, {"bridge": "BRIDGE"}], "disks": [{"size": "12GiB"}],
    },
    {"id": "old", "cpu": 1, "ram": 1, "hypervisor": "qemu", "nics": [{"bridge": "BRIDGE"}], "disks": [{"size": "6GiB"}]},
]  # fmt: skip
PASSWORDS = {"operator": "first-secret", "tenant": "second-secret"}
NETWORK = f"198.18.{(os.getpid() + 1) % 256}"
#: Of the first card of each VM, whose MAC is in the file of export_metal.
ADDRESSES = {"modern": f"{NETWORK}.11", "old": f"{NETWORK}.12"}


class Site(t.NamedTuple):
    """The VMs, the file of export_metal, and Ironic with its nodes."""

    place: t.Any
    folder: pathlib.Path
    nodes: dict[str, t.Any]
    ironic: standalone.Ironic

    def document(self, name: str) -> str:
        """Return the definition of a VM that its next start uses."""
        return str(self.place.connection.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    def active(self, name: str) -> bool:
        """Whether a VM is on."""
        return bool(self.place.connection.lookupByName(name).isActive())

    def console(self, name: str) -> str:
        """The end of what a VM wrote to its console."""
        return str((self.place.folder / f"{name}.console").read_text("utf-8", "replace"))[-4000:]


def export(folder: pathlib.Path, vms: list[dict[str, t.Any]], running: service.Service) -> pathlib.Path:
    """Run the playbook; its file for Ironic."""
    accounts = [{"name": "operator", "vms": ["*"]}, {"name": "tenant", "vms": ["old"]}]
    server = {
        "ansible_host": "127.0.0.1", "roles": ["virt"], "vms": vms, "redfish_emulator_port": running.port,
        "redfish_emulator_accounts": accounts, "redfish_emulator_verify_ca": str(running.certificate),
    }  # fmt: skip
    inventory = {"plugin": "reduced.footprint.nodes", "cluster": "metal", "servers": {"host1": server}}
    (folder / "nodes.yml").write_text(yaml.safe_dump(inventory), "utf-8")
    for name, password in PASSWORDS.items():
        secret = folder / ".secrets" / "metal" / "redfish" / f"{name}.txt"
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text(f"{password}\n", "utf-8")
        secret.chmod(0o600)
    argv = [str(pathlib.Path(sys.executable).with_name("ansible-playbook")), "reduced.footprint.export_metal", "-i", "nodes.yml"]
    env = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(bare.ROOT / ".cache" / "collections"), "ANSIBLE_HOME": str(folder / "home")}
    argv += ["-e", "export_metal_formats=ironic"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    assert not done.returncode, done.stdout + done.stderr
    return folder / ".export" / "ironic.yaml"


@pytest.fixture(scope="module", name="site")
def fixture_site(place: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    vms = json.loads(json.dumps(VMS).replace("BRIDGE", place.bridge))
    request = run_define.DefineRequest(cluster="metal", vms=vms, uri=place.uri, pool="footprint-test", state="present", autostart=False)
    assert not [one.error for one in run_define.define_vms(request, check_mode=False).vms if one.error]
    (folder / "service").mkdir()
    (folder / "ironic").mkdir()
    for name in ADDRESSES:
        # what a VM writes to its console, for a test that fails
        document = place.connection.lookupByName(name).XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        place.connection.defineXML(document.replace("<serial type='pty'>", f"<serial type='pty'><log file='{place.folder}/{name}.console' append='on'/>"))
    subprocess.run(["ip", "address", "add", f"{NETWORK}.1/24", "dev", place.bridge], check=True)
    accounts = {"operator": (PASSWORDS["operator"], "*"), "tenant": (PASSWORDS["tenant"], "old")}
    with service.Service(place, folder / "service", accounts, [f"{NETWORK}.1"]) as running, standalone.Ironic(folder / "ironic", f"{NETWORK}.1") as ironic:
        written = export(folder, vms, running)
        ironic.run("create", str(written))
        nodes = {node["name"]: node for node in yaml.safe_load(written.read_text("utf-8"))["nodes"]}
        with dhcp(place, folder, nodes):
            site = Site(place, folder, nodes, ironic)
            yield site
            for name in filter(site.active, ADDRESSES):
                place.connection.lookupByName(name).destroy()


@contextlib.contextmanager
def dhcp(place: t.Any, folder: pathlib.Path, nodes: t.Mapping[str, t.Any]) -> t.Iterator[None]:
    """The addresses of the VMs."""
    argv = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--port=0", "--user=root", f"--interface={place.bridge}", "--bind-interfaces"]
    argv += [f"--dhcp-leasefile={folder}/leases", "--pid-file=", f"--dhcp-range={NETWORK}.50,{NETWORK}.99,12h"]
    argv += [f"--dhcp-host={nodes[name]['ports'][0]['address']},{address}" for name, address in ADDRESSES.items()]
    with (folder / "dhcp.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture(params=["modern", "old"], name="name")
def fixture_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_ironic_enrols_a_vm_and_reads_what_it_is(site: Site, name: str) -> None:
    vm, written = next(one for one in VMS if one["id"] == name), site.nodes[name]
    known = site.ironic.get(f"nodes/{name}")
    assert known["driver"] == "redfish" and known["properties"] == written["properties"] and known["provision_state"] == "enroll"
    valid = site.ironic.get(f"nodes/{name}/validate")
    assert all(valid[part]["result"] for part in ("power", "management", "inspect", "bios")), valid
    site.ironic.run("node", "manage", name)
    site.ironic.wait(name, provision_state="manageable", power_state="power off")
    # what was declared, to be overwritten
    site.ironic.run("node", "unset", name, *(part for key in ("cpus", "memory_mb", "local_gb", "capabilities") for part in ("--property", key)))
    site.ironic.run("node", "inspect", name)
    found = site.ironic.wait(name, provision_state="manageable", last_error=None)
    inventory = site.ironic.get(f"nodes/{name}/inventory")["inventory"]
    mode = "uefi" if vm.get("boot_firmware") else "bios"
    assert int(found["properties"]["memory_mb"]) == vm["ram"] * 1024 == inventory["memory"]["physical_mb"]
    assert inventory["cpu"]["count"] == vm["cpu"] and inventory["cpu"]["architecture"] == "x86_64"
    assert found["properties"]["local_gb"] == written["properties"]["local_gb"]
    assert inventory["boot"]["current_boot_mode"] == mode and found["properties"]["capabilities"] == f"boot_mode:{mode}"
    macs = {port["address"] for port in written["ports"]}
    assert {one["mac_address"] for one in inventory["interfaces"]} == macs and len(macs) == len(vm["nics"])
    ports = site.ironic.get(f"ports?node={name}")["ports"]
    assert {port["address"] for port in ports} == macs and all(f"<mac address='{mac}'/>" in site.document(name) for mac in macs)


def test_ironic_controls_power_and_boot_device(site: Site, name: str) -> None:
    site.ironic.run("node", "boot", "device", "set", "--persistent", name, "pxe")
    assert site.ironic.get(f"nodes/{name}/management/boot_device") == {"boot_device": "pxe", "persistent": True}
    site.ironic.run("node", "power", "on", name)
    site.ironic.wait(name, power_state="power on")
    domain = site.place.connection.lookupByName(name)
    assert domain.isActive()
    before = domain.ID()
    site.ironic.run("node", "reboot", name)
    site.ironic.wait(name, power_state="power on", target_power_state=None)
    assert site.active(name) and site.place.connection.lookupByName(name).ID() != before
    site.ironic.run("node", "power", "off", name)
    site.ironic.wait(name, power_state="power off")
    assert not site.active(name)
    site.ironic.run("node", "boot", "device", "set", "--persistent", name, "disk")
    assert site.ironic.get(f"nodes/{name}/management/boot_device")["boot_device"] == "disk"
    site.ironic.run("node", "provide", name)
    assert site.ironic.wait(name, provision_state="available")["last_error"] is None


def drives(site: Site, name: str) -> list[pathlib.Path]:
    """The images in the CD drives of a VM."""
    found = ElementTree.fromstring(site.document(name)).iterfind("devices/disk[@device='cdrom']/source")
    return [pathlib.Path(one.attrib["file"]) for one in found if "file" in one.attrib]


def test_ironic_inserts_and_ejects_a_medium(site: Site, name: str) -> None:
    content = os.urandom(1024 * 1024)
    (site.ironic.images / f"{name}.iso").write_bytes(content)
    before = drives(site, name)
    site.ironic.get(f"nodes/{name}/vmedia", "POST", {"device_type": "cdrom", "image_url": f"{site.ironic.http}/{name}.iso"})
    site.ironic.wait(name, reservation=None, last_error=None)
    until(lambda: len(drives(site, name)) > len(before))
    assert drives(site, name)[-1].read_bytes() == content
    site.ironic.run("node", "boot", "device", "set", "--persistent", name, "cdrom")
    assert site.ironic.get(f"nodes/{name}/management/boot_device")["boot_device"] == "cdrom"
    site.ironic.get(f"nodes/{name}/vmedia", "DELETE")
    until(lambda: drives(site, name) == before)
    site.ironic.wait(name, reservation=None, last_error=None)


def until(done: t.Callable[[], bool], timeout: float = 120, log: t.Callable[[], str] = str) -> None:
    """Wait for a condition, at most ``timeout`` seconds; ``log`` explains why it is missing."""
    end = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < end, log()
        time.sleep(0.5)


def ssh(name: str, *command: str) -> str:
    """Run a command on a deployed VM with the key of its config drive; its output, empty if it does not answer."""
    options = {"UserKnownHostsFile": "/dev/null", "StrictHostKeyChecking": "no", "BatchMode": "yes", "IdentitiesOnly": "yes", "ConnectTimeout": 60}
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    argv = ["ssh", "-F", "/dev/null", *words, "-i", str(netboot.key()), f"debian@{ADDRESSES[name]}", *command]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL).stdout
    except subprocess.TimeoutExpired:
        return ""


def test_ironic_deploys_an_image(site: Site, name: str) -> None:
    image = agent.files() / agent.IMAGE
    info = {"image_source": f"{site.ironic.http}/{agent.IMAGE}", "image_checksum": hashlib.sha256(image.read_bytes()).hexdigest()}
    site.ironic.run("node", "set", name, *(word for key, value in info.items() for word in ("--instance-info", f"{key}={value}")))
    key = netboot.key().with_suffix(".pub").read_text("utf-8").strip()
    drive = {"meta_data": {"name": f"{name}-tenant", "hostname": f"{name}-tenant", "public_keys": {"operator": key}}}
    site.ironic.run("node", "deploy", name, "--config-drive", json.dumps(drive))
    found = site.ironic.wait(name, timeout=2400, provision_state="active")
    assert found["last_error"] is None and found["power_state"] == "power on"
    # the medium is gone, and the VM starts from its disk
    assert not drives(site, name) and site.ironic.get(f"nodes/{name}/management/boot_device")["boot_device"] == "disk"
    until(lambda: ssh(name, "hostname") == f"{name}-tenant\n", 1800, lambda: site.console(name))


def table(disk: pathlib.Path) -> bytes:
    """The mark of a partition table on a disk."""
    with disk.open("rb") as stream:
        return stream.read(520)[512:]


def test_ironic_takes_a_vm_back_and_erases_the_partition_table(site: Site, name: str) -> None:
    disk = site.place.pool / f"{name}-disk0.img"
    assert table(disk) == b"EFI PART"
    site.ironic.run("node", "set", name, "--automated-clean")
    site.ironic.run("node", "undeploy", name)
    found = site.ironic.wait(name, timeout=2400, provision_state="available")
    assert found["last_error"] is None and not drives(site, name)
    assert table(disk) == bytes(8)


def test_wrong_credentials_and_vms_of_others_are_refused(site: Site) -> None:
    given = site.nodes["modern"]["driver_info"]
    cases = {
        "wrong-password": ({"redfish_password": "wrong"}, "401"),
        "other-account": ({"redfish_username": "tenant", "redfish_password": PASSWORDS["tenant"]}, "not found"),
        "unknown-authority": ({"redfish_verify_ca": True}, "certificate"),
    }
    for name, (change, words) in cases.items():
        info = [part for key, value in {**given, **change}.items() for part in ("--driver-info", f"{key}={value}")]
        site.ironic.run("node", "create", "--driver", "redfish", "--name", name, *info)
        site.ironic.run("node", "manage", name)
        found = site.ironic.wait(name, provision_state="enroll", target_provision_state=None)
        assert words in found["last_error"], (name, found["last_error"])
