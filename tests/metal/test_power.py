# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Power and boot device: servers at a real Redfish service, VMs and containers in a real libvirt, and secrets that are not disclosed."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power, run_power
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_define
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import InfoRequest, read_vms

from tests.support.canary import Canaries

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN = {
    "bmc": None, "vm": None, "uri": None, "request_timeout": 60, "state": None, "boot_device": None, "boot_once": False, "boot_mode": None,
    "wait": True, "wait_timeout": 120,
}  # fmt: skip
CONTAINER = (
    "<domain type='lxc'><name>box</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>exe</type><init>/bin/busybox</init>"
    "<initarg>sleep</initarg><initarg>1000</initarg></os><devices><console type='pty'/>"
    "<filesystem type='mount'><source dir='{root}'/><target dir='/'/></filesystem>"
    "</devices></domain>"
)


def ensure(check_mode: bool = False, **given: t.Any) -> run_power.PowerResult:
    return run_power.ensure({**PLAIN, **given}, check_mode)


@pytest.fixture(name="target", params=["bmc", "vm"])
def fixture_target(request: pytest.FixtureRequest, place: t.Any) -> dict[str, t.Any]:
    """One UEFI machine, as a server at its controller and as a VM."""
    domain = place.machine("one", uefi=True)
    if domain.isActive():
        domain.destroy()
    if request.param == "bmc":
        return {"bmc": place.emulator.bmc(place.password, domain.UUIDString())}
    return {"vm": "one", "uri": place.uri}


def test_power_of_a_server_and_of_a_vm_is_one_interface(place: t.Any, target: dict[str, t.Any]) -> None:
    domain = place.connection.lookupByName("one")
    steps = (("off", False, False), ("on", True, True), ("on", True, False), ("cycle", True, True), ("off", False, True), ("soft", False, False))
    for wanted, active, changes in steps:
        before = place.connection.lookupByName("one").ID()
        planned = ensure(check_mode=True, state=wanted, **target)
        assert planned.changed is changes and place.connection.lookupByName("one").ID() == before
        done = ensure(state=wanted, **target)
        assert done.changed is changes and done.actions == planned.actions
        assert bool(domain.isActive()) is active and done.after.state == ("on" if active else "off")
        assert (wanted == "cycle") <= (place.connection.lookupByName("one").ID() != before)
    assert ensure(state="cycle", **target).actions == ("power on",)
    domain.destroy()


def test_a_boot_device_is_set_before_the_power(place: t.Any, target: dict[str, t.Any]) -> None:
    domain = place.connection.lookupByName("one")
    done = ensure(boot_device="pxe", state="on", **target)
    assert done.actions == ("boot from pxe continuously", "power on") and done.after.boot_device == "pxe"
    # the running machine was started with it
    assert "<boot dev='network'/>" in domain.XMLDesc(0) or domain.XMLDesc(0).index("<boot order='1'/>") > domain.XMLDesc(0).index("<interface")
    assert not ensure(boot_device="pxe", **target).changed
    assert ensure(boot_device="disk", **target).after.boot_device == "disk"
    with pytest.raises(RefusedError, match="unsupported|failed with HTTP") if "vm" in target else pytest.raises(BackendError):
        ensure(boot_device="cdrom", **target)
    domain.destroy()


def test_what_sushy_sets_is_what_we_read(place: t.Any) -> None:
    domain = place.machine("two")
    uuid = domain.UUIDString()
    place.emulator.client(
        f"s = system('{uuid}')\ns.set_system_boot_options(target=sushy.BOOT_SOURCE_TARGET_PXE, enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)\n"
        "s.reset_system(sushy.RESET_TYPE_ON)\n",
        place.password,
    )
    for found in ({"bmc": place.emulator.bmc(place.password, uuid)}, {"vm": "two", "uri": place.uri}):
        power = run_power.read({**PLAIN, **found})["power"]
        assert (power["state"], power["boot_device"]) == ("on", "pxe")
    ensure(state="off", bmc=place.emulator.bmc(place.password, "two"))
    assert "OFF" in place.emulator.client(f"print(system('{uuid}').power_state)", place.password)


def test_a_vm_has_no_boot_device_for_one_boot_and_keeps_its_firmware(place: t.Any) -> None:
    place.machine("one", uefi=True)
    for given, why in (({"boot_device": "pxe", "boot_once": True}, "next boot only"), ({"boot_mode": "bios"}, "part of its template")):
        with pytest.raises(model_power.UnsupportedError, match=why):
            ensure(vm="one", uri=place.uri, **given)
    assert not ensure(vm="one", uri=place.uri, boot_mode="uefi").changed


def test_a_container_has_power_and_no_firmware(place: t.Any) -> None:
    import libvirt  # pylint: disable=import-outside-toplevel

    root = place.folder / "box"
    (root / "bin").mkdir(parents=True, exist_ok=True)
    (root / "bin" / "busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin" / "busybox").chmod(0o755)
    connection = libvirt.open(place.lxc_uri)
    connection.defineXML(CONTAINER.format(root=root))
    try:
        for state in ("on", "cycle", "off"):
            assert ensure(vm="box", uri=place.lxc_uri, state=state).changed
        power = run_power.read({**PLAIN, "vm": "box", "uri": place.lxc_uri})["power"]
        assert power["supported"] == ["on", "off", "soft", "cycle"] and {each["reason"] for each in power["unsupported"]} == {"a container has no firmware"}
        for given in ({"boot_device": "pxe"}, {"boot_mode": "uefi"}):
            with pytest.raises(model_power.UnsupportedError, match="a container has no firmware"):
                ensure(vm="box", uri=place.lxc_uri, **given)
    finally:
        connection.lookupByName("box").undefine()
        connection.close()


def test_invalid_input_ends_before_anything_is_changed(place: t.Any) -> None:
    uuid = place.machine("one", uefi=True).UUIDString()
    bmc = place.emulator.bmc(place.password, uuid)
    cases: list[tuple[dict[str, t.Any], str, type[Exception]]] = [
        ({"verify_ca": "true"}, "certificate of the BMC is not trusted", RefusedError),
        ({"verify_ca": "/nowhere.pem"}, "not a file", InputError),
        ({"system": "none-such"}, "no such system", InputError),
        ({"server_address": "127.0.0.1"}, "the server itself", RefusedError),
        ({"server_address": "localhost"}, "the server itself", RefusedError),
        ({"address": "127.0.0.1:1"}, "does not answer", BackendError),
        ({"address": "https://127.0.0.1"}, "is not an address", InputError),
    ]
    for change, words, kind in cases:
        with pytest.raises(kind, match=words) as raised:
            ensure(state="on", bmc={**bmc, **change})
        assert raised.value.path and raised.value.hint  # type: ignore[attr-defined]
    assert not place.connection.lookupByUUIDString(uuid).isActive()
    result = run_power.read({**PLAIN, "bmc": {**bmc, "verify_ca": "false"}})
    assert result["warnings"] == (run_power.UNTRUSTED,)
    with pytest.raises(InputError, match="no VM named missing"):
        ensure(vm="missing", uri=place.uri, state="on")


def test_wrong_credentials_are_tried_once(place: t.Any) -> None:
    uuid = place.machine("one", uefi=True).UUIDString()
    before = place.emulator.log.read_text(errors="replace").count(" 401 ")
    with pytest.raises(RefusedError, match="HTTP 401"):
        ensure(state="on", bmc=place.emulator.bmc("wrong", uuid))
    time.sleep(1)
    assert place.emulator.log.read_text(errors="replace").count(" 401 ") == before + 1


def test_a_client_that_asks_for_a_state_waits_for_it(place: t.Any) -> None:
    uuid = place.machine("one", uefi=True).UUIDString()
    bmc = place.emulator.bmc(place.password, uuid)
    ensure(state="on", bmc=bmc)
    # no operating system that reacts
    with pytest.raises(BackendError, match="is not off after 4 s: it is on"):
        ensure(state="soft", bmc=bmc, wait_timeout=4)
    assert ensure(state="off", bmc=bmc).after.state == "off"


PLAY = """
- hosts: metal1
  gather_facts: false
  tasks:
    - name: Control the power
      reduced.footprint.server_power:
        bmc: "{{ lookup('reduced.footprint.bmc', inventory_hostname) | combine(more | default({})) }}"
        state: "{{ wanted }}"
      delegate_to: localhost
      register: done
    - name: Read the power
      reduced.footprint.server_power_info:
        bmc: "{{ lookup('reduced.footprint.bmc', inventory_hostname) }}"
      delegate_to: localhost
    - name: Show the result
      ansible.builtin.debug:
        var: done
"""


def test_address_user_and_password_are_shown_nowhere(place: t.Any, tmp_path: pathlib.Path) -> None:
    """The password, and the user, which an operator may take for one; the address is looked for in what the controller's tasks show."""
    uuid = place.machine("one", uefi=True).UUIDString()
    canaries = Canaries()
    wrong = canaries("password")
    bmc = place.emulator.bmc(place.password, uuid)
    entry = {"address": bmc["address"], "user": bmc["user"], "secret": "bmc/metal1", "verify_ca": bmc["verify_ca"], "system": uuid}
    inventory = {"plugin": "reduced.footprint.nodes", "cluster": "metal", "servers": {"metal1": {"ansible_host": "192.0.2.11", "bmc": entry}}}
    (tmp_path / "metal.yml").write_text(json.dumps(inventory), "utf-8")
    (tmp_path / "play.yml").write_text(PLAY, "utf-8")
    secret = tmp_path / ".secrets" / "metal" / "bmc" / "metal1.txt"
    secret.parent.mkdir(parents=True, mode=0o700)
    shown = ""
    runs = (("off", True, 0), ("on", True, 0), ("on", False, 0), ("off", False, 0), ("on", False, 2))
    for number, (wanted, check, code) in enumerate(runs):
        secret.write_text(wrong if code else place.password, "utf-8")
        secret.chmod(0o600)
        argv = [str(pathlib.Path(sys.executable).parent / "ansible-playbook"), "-vvv", "--diff", "-i", str(tmp_path / "metal.yml"), str(tmp_path / "play.yml")]
        argv += ["-e", f"wanted={wanted}", "-e", f"ansible_python_interpreter={sys.executable}", *(["--check"] if check else [])]
        environment = {
            **os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_LOG_PATH": str(tmp_path / f"log{number}"),
            "ANSIBLE_CACHE_PLUGIN": "jsonfile", "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"), "ANSIBLE_LOCALHOST_WARNING": "false",
        }  # fmt: skip
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
        shown += done.stdout + done.stderr + (tmp_path / f"log{number}").read_text("utf-8")
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-1000:]
    assert '"state": "on"' in shown and "HTTP 401" in shown and "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" in shown
    assert place.password not in shown and bmc["address"] not in shown and not canaries.in_text(shown, "output")
    assert f'"{bmc["user"]}"' not in shown
    assert not [path for path in (tmp_path / "facts").rglob("*") if path.is_file() and bmc["address"] in path.read_text("utf-8")]


def test_what_a_client_sets_is_left_alone_by_vm_define(place: t.Any) -> None:
    vm = {"id": "kept", "cpu": 1, "memory_mb": 1024, "hypervisor": "qemu", "nics": [{"bridge": place.bridge}], "disks": [{"size": "1GiB"}]}
    request = run_define.DefineRequest(cluster="metal", vms=[vm], uri=place.uri, pool="footprint-test", state="present", autostart=False)
    (made,) = run_define.define_vms(request, check_mode=False).vms
    assert made.error is None
    uuid = place.connection.lookupByName("kept").UUIDString()
    place.emulator.client(
        f"s = system('{uuid}')\ns.set_system_boot_options(target=sushy.BOOT_SOURCE_TARGET_PXE, enabled=sushy.BOOT_SOURCE_ENABLED_CONTINUOUS)\n",
        place.password,
    )
    (again,) = run_define.define_vms(request, check_mode=False).vms
    assert again.error is None and not again.changed
    found = read_vms(InfoRequest(uri=place.uri, names=["kept"], drift=True))[0]
    assert not found["drift"] and any("boot" in path for path in found["kept"])
    assert run_power.read({**PLAIN, "bmc": place.emulator.bmc(place.password, uuid)})["power"]["boot_device"] == "pxe"
