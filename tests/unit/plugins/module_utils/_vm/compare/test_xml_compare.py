# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tables of what is a difference and what is none; the corpus of tests/drift asks real libvirt."""

from __future__ import annotations

import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import Comparison, Difference, compare, echo_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

NIC = "<interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/></interface>"
NIC_AT = "devices/interface[52:54:00:00:00:01]"
DISK = "<disk type='file' device='disk'><source file='/p/a'/><target dev='vda' bus='virtio'/></disk>"
DRIVE = "<disk type='file' device='cdrom'><source file='/p/1.iso'/><target dev='sda' bus='sata'/></disk>"


def domain(inner: str = "", devices: str = "") -> t.Any:
    """A document."""
    return parse(f"<domain type='kvm'><memory unit='MiB'>64</memory><vcpu>2</vcpu>{inner}<devices>{devices}</devices></domain>")


def letters(found: Comparison) -> dict[str, str]:
    """Path → o(utside), c(onfig), l(ive)."""
    return {each.path: "o" * each.outside + "c" * each.config_differs + "l" * each.live_differs for each in found.differences}


@pytest.mark.parametrize(
    ("wanted", "config"),
    [
        ("<currentMemory unit='MiB'>64</currentMemory>", "<currentMemory unit='KiB'>65536</currentMemory>"),
        ("<title/>", ""),
        ("<uuid>0000000000004000800000000000000A</uuid>", "<uuid>00000000-0000-4000-8000-00000000000a</uuid>"),
        ("<os><boot dev='hd'/></os>", "<os><boot dev='network'/></os>"),
        ("<description> x </description>", "<description>x</description>"),
        ("<memtune><hard_limit unit='MiB'>1</hard_limit></memtune>", "<memtune><hard_limit unit='KiB'>1024</hard_limit></memtune>"),
        (
            "<memoryBacking><hugepages><page size='2' unit='M'/></hugepages></memoryBacking>",
            "<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>",
        ),
    ],
)
def test_the_same_in_other_words(wanted: str, config: str) -> None:
    said = domain(wanted)
    for other in (domain(wanted), domain(config)):
        assert compare(said, said, other, echo={}).differences == ()


@pytest.mark.parametrize(
    ("wanted", "config", "path"),
    [
        (DISK, DISK.replace("/p/a", "/p/b"), "devices/disk[vda]/source/@file"),
        (NIC, NIC.replace("br0", "br1"), f"{NIC_AT}/source/@bridge"),
        (NIC, "", NIC_AT),
        ("<graphics type='vnc' port='5901'/>", "<graphics type='vnc' port='-1' autoport='yes'/>", "devices/graphics[vnc]/@autoport"),
        ("<rng model='virtio'/>", "", "devices/rng"),
        ("<serial type='pty'/><serial type='pty'/>", "<serial type='pty'/>", "devices/serial[2]"),
    ],
)
def test_devices_others_changed(wanted: str, config: str, path: str) -> None:
    said = domain("", wanted)
    found = compare(said, said, domain("", config), echo={})
    assert "oc" in letters(found)[path]


def test_a_whole_device_is_one_line() -> None:
    said = domain("", NIC)
    (found,) = compare(said, said, domain(), domain("", NIC), said, {}).differences
    line = '<interface type="bridge"><mac address="52:54:00:00:00:01"/><source bridge="br0"/></interface>'
    assert found == Difference(NIC_AT, line, line, None, line, True, True, False)


def test_sizes_are_shown_in_one_unit() -> None:
    said = parse("<domain><memory unit='GiB'>4</memory></domain>")
    found = compare(said, said, parse("<domain><memory>1048576</memory></domain>"), echo={}).differences
    assert [(each.path, each.wanted, each.config) for each in found] == [
        ("currentMemory", "4194304 KiB", "1048576 KiB"),
        ("memory", "4194304 KiB", "1048576 KiB"),
    ]


def test_unnamed_devices() -> None:
    said, more = domain("", NIC), domain("", NIC + NIC.replace(":01", ":02") + DISK + DRIVE)
    extra = {"devices/interface[52:54:00:00:00:02]": "oc"}
    # a template without disks says nothing about disks, and drives belong to a BMC emulator
    assert letters(compare(said, said, more, echo={})) == extra
    # unknown what existed when it was defined, or it was adopted with them
    assert letters(compare(said, said, more, echo=None)) == {}
    assert letters(compare(said, None, more, echo={})) == {}
    assert letters(compare(said, said, more, echo=echo_of(said, more))) == {}
    assert letters(compare(said, said, said, more, said, {})) == {"devices/interface[52:54:00:00:00:02]": "ol"}


def test_what_a_bmc_emulator_owns() -> None:
    said = domain("<os><loader>/a</loader><boot dev='hd'/></os>", DRIVE + DISK)
    found = domain("<os><loader>/b</loader></os>", DRIVE.replace("1.iso", "2.iso") + DISK.replace("</disk>", "<boot order='1'/></disk>"))
    assert compare(said, said, found, found, said, {}) == Comparison((), ("devices/disk[sda]/source", "os/boot", "os/loader"))
    other = domain("<os><loader>/c</loader><boot dev='cdrom'/></os>", DRIVE.replace("1.iso", "3.iso") + DISK)
    assert letters(compare(other, said, found, found, said, {})) == {"devices/disk[sda]/source/@file": "ocl", "os/boot": "ocl", "os/loader": "ocl"}
    assert compare(other, said, found, echo={}).kept == ()


def test_firmware_that_waits_for_a_restart() -> None:
    old, new, none = (domain(f"<os>{loader}</os>", DRIVE) for loader in ("<loader>/a</loader>", "<loader>/b</loader>", ""))
    assert letters(compare(new, old, old, old, old, {})) == {"os/loader": "cl"}
    assert letters(compare(new, new, new, old, old, {})) == {"os/loader": "l"}
    assert letters(compare(none, none, none, old, old, {})) == {"os/loader": "l"}
    assert letters(compare(new, new, new, new, old, {})) == {}
    # a BMC emulator had its way since
    assert compare(old, old, new, new, old, {}) == Comparison((), ("os/loader",))


def test_a_drive_that_got_a_medium() -> None:
    empty = DRIVE.replace("<source file='/p/1.iso'/>", "")
    said = domain("", empty)
    assert compare(said, said, domain("", DRIVE), domain("", DRIVE), said, {}) == Comparison((), ("devices/disk[sda]/source",))
    filled = domain("", DRIVE)
    assert letters(compare(said, filled, filled, filled, filled, {})) == {"devices/disk[sda]/source": "cl"}


def test_an_echo_stands_for_what_was_applied() -> None:
    said, found = domain("<os><type machine='pc'>hvm</type><x/></os>"), domain("<os><type machine='pc-i440fx-7.2'>hvm</type></os>")
    echo = echo_of(said, found)
    assert echo == {"os/type/@machine": "pc-i440fx-7.2", "os/x": None}
    assert compare(said, said, found, echo=echo).differences == ()
    # the alias itself is as good
    assert compare(said, said, said, echo=echo).differences == ()
    assert letters(compare(said, said, domain("<os><type machine='pc-i440fx-6.2'>hvm</type></os>"), echo=echo)) == {"os/type/@machine": "oc"}
    # the echo of an old document says nothing about a new one
    new = domain("<os><type machine='q35'>hvm</type></os>")
    assert letters(compare(new, said, found, echo=echo)) == {"os/type/@machine": "c"}


def test_a_machine_is_not_renewed_by_the_way() -> None:
    said, old, other = (domain(f"<os><type machine='{name}'>hvm</type></os>") for name in ("pc", "pc-i440fx-6.2", "pc-q35-6.2"))
    for applied, echo in ((None, None), (said, None), (old, {}), (other, {})):
        assert letters(compare(said, applied, old, old, None, echo)) == {}
    assert letters(compare(said, None, other, other)) == {"os/type/@machine": "cl"}
    assert letters(compare(old, said, said, echo={})) == {"os/type/@machine": "c"}


def test_what_waits_for_a_restart() -> None:
    old, new = domain("<on_reboot>restart</on_reboot>"), domain("<on_reboot>destroy</on_reboot>")
    assert letters(compare(new, old, old, old, old, {})) == {"on_reboot": "cl"}
    assert letters(compare(new, new, new, old, old, {})) == {"on_reboot": "l"}
    # what it was started with is not known
    assert letters(compare(new, new, new, old, None, {})) == {"on_reboot": "l"}
    # reverted before it was restarted
    assert letters(compare(old, new, new, old, old, {})) == {"on_reboot": "c"}
    # the template says nothing any more, and libvirt takes for granted what runs
    silent = domain()
    assert letters(compare(silent, silent, old, old, old, {})) == {}
    assert letters(compare(silent, silent, silent, new, new, {})) == {"on_reboot": "l"}


def test_what_a_running_domain_shows_otherwise() -> None:
    wanted = domain(
        "<cpu mode='host-model'/>",
        "<graphics type='vnc' port='-1'/><interface type='network'><mac address='52:54:00:00:00:01'/><source network='n'/></interface><serial type='pty'/>",
    )
    live = domain(
        "<currentMemory unit='KiB'>65536</currentMemory><cpu mode='custom' match='exact'><model>Skylake</model></cpu>",
        "<graphics type='vnc' port='5900' autoport='yes'/><interface type='bridge'><mac address='52:54:00:00:00:01'/>"
        "<source network='n' bridge='virbr0'/><target dev='vnet0'/></interface><serial type='pty'><source path='/dev/pts/1'/></serial>",
    )
    for started in (wanted, None):
        assert compare(wanted, wanted, wanted, live, started, {}).differences == ()


ADDRESS = "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>"
SOCKET = "<graphics type='vnc'><listen type='socket'/></graphics>"
# as libvirt shows a path, its own while the domain runs, or the template's
PATH = "<graphics type='vnc' socket='/run/a.sock'><listen type='socket' socket='/run/a.sock'/></graphics>"


def test_the_path_that_libvirt_gives_a_socket_is_no_difference() -> None:
    said, runs = domain("", SOCKET), domain("", PATH)
    for started in (said, None):
        assert compare(said, said, domain("", SOCKET), runs, started, {}).differences == ()


@pytest.mark.parametrize("wanted", [PATH, "<graphics type='vnc'><listen type='socket' socket='/run/a.sock'/></graphics>"])
def test_the_path_of_a_template_is_compared(wanted: str) -> None:
    said = domain("", wanted)
    assert compare(said, said, domain("", PATH), domain("", PATH), said, {}).differences == ()
    for other in (PATH.replace("/run/a", "/run/b"), SOCKET):
        assert letters(compare(said, said, domain("", other), echo={}))["devices/graphics[vnc]/listen/@socket"] == "oc"


def test_an_address_instead_of_a_socket() -> None:
    old, new = domain("", ADDRESS), domain("", SOCKET)
    assert letters(compare(new, new, domain("", ADDRESS), new, new, {})) == {"devices/graphics[vnc]/listen/@type": "oc"}
    left = "devices/graphics[vnc]/"
    gone = {left + "@autoport": "cl", left + "@listen": "cl", left + "listen/@address": "cl", left + "listen/@type": "cl"}
    # the template changed, and the guest runs on with what it was started with
    assert letters(compare(new, old, old, old, old, {})) == gone
    assert letters(compare(new, new, new, old, old, {})) == dict.fromkeys(gone, "l")
    assert letters(compare(new, new, new, domain("", PATH), new, {})) == {}


def test_memory_qemu_rounds() -> None:
    said = parse("<domain><memory>40000</memory></domain>")
    live = parse("<domain><memory>40960</memory><currentMemory>40960</currentMemory></domain>")
    assert compare(said, said, said, live, said, {}).differences == ()


def test_outside_changes_were_never_applied() -> None:
    old, new, other = (parse(f"<domain><memory>65536</memory><vcpu>{count}</vcpu></domain>") for count in (1, 2, 3))
    assert letters(compare(new, old, other, echo={})) == {"vcpu": "oc", "vcpu/@current": "oc"}
    # the wanted value was already set outside
    assert letters(compare(new, old, new, echo={})) == {}
    # nothing was applied yet
    assert letters(compare(new, None, other)) == {"vcpu": "c", "vcpu/@current": "c"}


def test_metadata_of_the_template() -> None:
    one, two = (domain(f"<metadata><a:x xmlns:a='urn:a'>{number}</a:x></metadata>") for number in (1, 2))
    ours = domain("<metadata><a:x xmlns:a='urn:a'>1</a:x><f:vm xmlns:f='https://reduced.footprint/xmlns/domain/1'/></metadata>")
    assert letters(compare(one, one, ours, ours, one, {})) == {}
    # it changes nothing about what runs
    assert letters(compare(two, one, ours, ours, one, {})) == {"metadata/{urn:a}x": "c"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<metadata><a:x xmlns:a='urn:a'>1</a:x></metadata>", ""),
        ("<metadata><a:x xmlns:a='urn:a'>1</a:x></metadata>", "<metadata><b:y xmlns:b='urn:b'/></metadata>"),
        ("<metadata><a:x xmlns:a='urn:a'><a:y/><a:z/></a:x></metadata>", "<metadata><a:x xmlns:a='urn:a'><a:y/></a:x></metadata>"),
        ("<metadata><a:x xmlns:a='urn:a' n='1'/></metadata>", "<metadata><a:x xmlns:a='urn:a'/></metadata>"),
    ],
    ids=["all of it", "another instead", "a part", "an attribute"],
)
def test_metadata_the_template_dropped_wait_for_no_restart(before: str, after: str) -> None:
    old, new = domain(before), domain(after)
    assert set(letters(compare(new, old, old, old, old, {})).values()) == {"c"}
    # the running domain keeps the element until it ends, and nothing in it depends on that
    for started in (old, None):
        assert letters(compare(new, new, new, old, started, {})) == {}


@pytest.mark.parametrize(
    ("inner", "devices", "path"),
    [
        ("<currentMemory>512M</currentMemory>", "", "currentMemory"),
        ("<currentMemory/>", "", "currentMemory"),
        ("", NIC.replace("</interface>", "<boot order='first'/></interface>"), "os/boot"),
        ("", NIC.replace("</interface>", "<boot order=''/></interface>"), "os/boot"),
    ],
)
def test_what_libvirt_will_refuse_is_a_difference_and_no_failure(inner: str, devices: str, path: str) -> None:
    before = domain(devices=NIC)
    assert path in letters(compare(domain(inner, devices or NIC), before, before, before, before, {}))


def test_it_is_quick() -> None:
    text = "".join(NIC.replace(":01", f":{number:02x}") + DISK.replace("vda", f"vd{chr(97 + number)}") for number in range(12))
    said, found, live = (domain("<currentMemory>65536</currentMemory>", text) for unused in range(3))
    best = min(_seconds(lambda: compare(said, said, found, live, said, {})) for unused in range(20))
    # 150 values; a busy machine gets ten times what it needs
    assert best < 0.01


def _seconds(call: t.Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
