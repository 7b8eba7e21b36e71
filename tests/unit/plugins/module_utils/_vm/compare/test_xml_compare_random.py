# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What holds of any three documents of a domain: comparing and merging belong together."""

from __future__ import annotations

import os
import random
import typing as t

from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import compare, echo_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_merge import merge

ALIENS = ("<iothreads>2</iothreads>", "<resource><partition>/machine</partition></resource>", "<seclabel type='dynamic' model='dac'/>")
ALIEN_DEVICES = (
    "<controller type='usb' index='0' model='piix3-uhci'/>",
    "<memballoon model='virtio'/>",
    "<input type='mouse' bus='ps2'/>",
    "<disk type='file' device='floppy'><target dev='fda' bus='fdc'/></disk>",
)
# documents are large: fewer of them than of other values
FEW = settings(max_examples=min(1500, int(os.environ.get("HYPOTHESIS_MAX_EXAMPLES", min(30, settings.default.max_examples)))))
words = st.sampled_from(("a", "b", "ü &amp; &lt;c&gt;"))


def one(element: str) -> st.SearchStrategy[str]:
    """An element or nothing."""
    return st.sampled_from(("", element))


def some(*elements: str) -> st.SearchStrategy[str]:
    """Any of these in any order."""
    return st.lists(st.sampled_from(elements), unique=True).map("".join)


@st.composite
def disks(draw: st.DrawFn) -> str:
    """Disks and a drive."""
    text = ""
    for target in draw(st.lists(st.sampled_from(("vda", "vdb", "vdc")), unique=True)):
        kind, name, path = draw(st.sampled_from((("file", "file", "/p/a"), ("file", "file", "/p/b"), ("block", "dev", "/dev/x"))))
        cache = draw(st.sampled_from(("", " cache='none'", " cache='writeback'")))
        bus = draw(st.sampled_from(("virtio", "scsi")))
        serial = draw(one("<serial>S</serial>"))
        text += f"<disk type='{kind}' device='disk'><driver name='qemu' type='raw'{cache}/><source {name}='{path}'/>"
        text += f"<target dev='{target}' bus='{bus}'/>{serial}</disk>"
    medium = draw(st.sampled_from((None, "", "<source file='/p/1.iso'/>", "<source file='/p/2.iso'/>")))
    if medium is not None:
        text += f"<disk type='file' device='cdrom'>{medium}<target dev='sda' bus='sata'/><readonly/></disk>"
    return text


@st.composite
def nics(draw: st.DrawFn) -> str:
    """NICs on bridges and networks."""
    text = ""
    for number in draw(st.lists(st.integers(1, 3), unique=True)):
        kind = draw(st.sampled_from(("bridge", "network")))
        link = draw(one("<link state='down'/>"))
        model = draw(st.sampled_from(("", "<model type='virtio'/>", "<model type='e1000'/>")))
        vlan = draw(one("<vlan><tag id='7'/></vlan>"))
        source = f"<source {kind}='{draw(words)}'/>"
        text += f"<interface type='{kind}'><mac address='52:54:00:00:00:0{number}'/>{source}{model}{link}{vlan}</interface>"
    return text


@st.composite
def domains(draw: st.DrawFn) -> str:
    """A document within what templates say."""
    unit, amount = draw(st.sampled_from((("MiB", 32), ("KiB", 32768), ("GiB", 1), ("MiB", 1024), ("KiB", 40000))))
    current = draw(st.sampled_from(("", "<currentMemory unit='MiB'>16</currentMemory>")))
    vcpu = draw(st.sampled_from(("<vcpu>2</vcpu>", "<vcpu current='1'>2</vcpu>", "<vcpu placement='static' current='4'>4</vcpu>")))
    boot = "".join(f"<boot dev='{name}'/>" for name in draw(st.lists(st.sampled_from(("hd", "network", "cdrom")), unique=True)))
    loader = draw(st.sampled_from(("", "<loader type='rom'>/a</loader>", "<loader type='pflash' readonly='yes'>/b</loader><nvram>/n</nvram>")))
    system = (
        f"<os><type machine='{draw(st.sampled_from(('pc', 'q35')))}'>hvm</type>{loader}{boot}{draw(one(chr(60) + 'bootmenu enable=' + repr('no') + '/>'))}</os>"
    )
    cpu = draw(
        st.sampled_from(
            (
                "",
                "<cpu mode='maximum'/>",
                "<cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model><feature policy='disable' name='svm'/></cpu>",
            )
        )
    )
    timers = draw(some("<timer name='rtc' tickpolicy='catchup'/>", "<timer name='hpet' present='no'/>", "<timer name='pit'/>"))
    parts = [
        draw(st.sampled_from(("", "<title>x</title>", "<title>ü &amp; y</title>"))),
        draw(one("<description>two\nlines</description>")),
        f"<memory unit='{unit}'>{amount}</memory>",
        current,
        vcpu,
        system,
        draw(st.sampled_from(("", "<features><acpi/></features>", "<features><pae/><acpi/></features>"))),
        cpu,
        f"<clock offset='{draw(st.sampled_from(('utc', 'localtime')))}'>{timers}</clock>",
        draw(st.sampled_from(("", "<on_reboot>restart</on_reboot>", "<on_reboot>destroy</on_reboot>"))),
    ]
    graphics = draw(
        st.sampled_from(
            (
                "",
                "<graphics type='vnc' port='-1' autoport='yes'/>",
                "<graphics type='vnc' port='5901' listen='10.0.0.1'><listen type='address' address='10.0.0.1'/></graphics>",
                "<graphics type='vnc'><listen type='socket'/></graphics>",
                "<graphics type='vnc' socket='/s'><listen type='socket' socket='/s'/></graphics>",
            )
        )
    )
    serials = draw(
        st.sampled_from(("", "<serial type='pty'><target port='0'/></serial>", "<serial type='pty'/><serial type='file'><source path='/x'/></serial>"))
    )
    devices = [
        draw(disks()),
        draw(nics()),
        graphics,
        serials,
        draw(some("<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>", "<watchdog model='i6300esb'/>")),
    ]
    dice = draw(st.randoms(use_true_random=False))
    dice.shuffle(parts)
    dice.shuffle(devices)
    return f"<domain type='qemu'><name>n</name>{''.join(parts)}<devices>{''.join(devices)}</devices></domain>"


@st.composite
def defined(draw: st.DrawFn) -> str:
    """A document as libvirt might have it: with parts that no template contains."""
    text = draw(domains())
    text = text.replace("</domain>", draw(some(*ALIENS)) + "</domain>")
    return text.replace("</devices>", draw(some(*ALIEN_DEVICES)) + "</devices>")


def parse(text: str) -> t.Any:
    """A document."""
    return xml_domain.parse(text)


def shuffled(element: t.Any, dice: random.Random) -> t.Any:
    """The same with other order of attributes, and of elements where order says nothing."""
    attributes = list(element.attrib.items())
    dice.shuffle(attributes)
    copy = element.makeelement(element.tag, dict(attributes))
    copy.text = element.text
    children = [shuffled(child, dice) for child in element]
    ordered = {tag for tag in ("boot", "serial", "rng") if sum(child.tag == tag for child in children) > 1}
    free = [child for child in children if child.tag not in ordered]
    dice.shuffle(free)
    copy.extend(free + [child for child in children if child.tag in ordered])
    return copy


@FEW
@given(domains())
def test_a_document_is_like_itself(text: str) -> None:
    for echo in ({}, None):
        assert compare(parse(text), parse(text), parse(text), parse(text), parse(text), echo).differences == ()
        same = parse(text)
        assert compare(same, same, parse(text), parse(text), same, echo) == compare(parse(text), parse(text), parse(text))
        assert compare(same, same, parse(text)).kept == ()
    assert echo_of(parse(text), parse(text)) == {}


@FEW
@given(domains(), st.randoms(use_true_random=False))
def test_order_is_no_difference(text: str, dice: random.Random) -> None:
    wanted, other = parse(text), shuffled(parse(text), dice)
    assert compare(wanted, wanted, other, other, wanted, {}).differences == ()
    assert compare(other, wanted, wanted, echo={}).differences == ()
    assert flatten(wanted) == flatten(other)


@FEW
@given(domains(), st.one_of(st.none(), domains()), defined(), st.sampled_from(({}, None)))
def test_what_is_merged_is_as_wanted(wanted: str, applied: str | None, config: str, echo: dict[str, str | None] | None) -> None:
    said, before, found = parse(wanted), None if applied is None else parse(applied), parse(config)
    text = etree.tostring(found)
    merged = merge(found, said, before, echo)
    assert etree.tostring(found) == text
    # of serial ports, which have no names, the second one is the first when that is gone
    assert [each for each in compare(said, before, merged, echo=echo).differences if not each.path.startswith("devices/serial")] == []
    # from now on it is what was applied: nothing is left over that the new comparison would not see
    left = compare(said, said, merged, echo=echo).differences
    assert [each for each in left if not each.outside or each.wanted is not None] == []
    assert etree.tostring(merge(merged, said, said if before is not None else None, echo)) == etree.tostring(merged)


@FEW
@given(domains(), domains(), defined())
def test_unspecified_parts_are_kept(wanted: str, applied: str, config: str) -> None:
    said, before, found = parse(wanted), parse(applied), parse(config)
    spoken = {path.partition("/@")[0] for document in (said, before) for path in flatten(document)}
    aliens = (
        "iothreads",
        "resource/partition",
        "seclabel/@model",
        "devices/memballoon/@model",
        "devices/controller[usb:0]/@model",
        "devices/disk[fda]/@device",
    )
    flat, merged = flatten(found), flatten(merge(found, said, before, {}))
    for path in aliens:
        assert path.partition("/@")[0] not in spoken
        # another machine has other controllers
        if path in flat and "controller" not in path:
            assert merged[path] == flat[path]


@FEW
@given(domains(), defined())
def test_an_echo_settles_a_definition(wanted: str, config: str) -> None:
    said, found = parse(wanted), parse(config)
    assert compare(said, said, found, echo=echo_of(said, found)).differences == ()
