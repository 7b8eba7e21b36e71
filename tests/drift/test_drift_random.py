# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From any template to any other on real libvirt: what libvirt takes as a new domain it also takes as an edited one."""

from __future__ import annotations

import random
import typing as t

import pytest
from drift_guest import Guest, Host

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten


def template(dice: random.Random) -> str:
    """A random template as a user could write it."""
    pick = dice.choice
    machine = pick(("pc", "q35"))
    bus, first = pick((("virtio", "vd"), ("sata", "sd"), ("scsi", "sd")))
    disks = "".join(
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'{pick(('', chr(32) + 'cache=' + repr('none')))}/>"
        f"<source file='POOL/NAME-{name}.img'/><target dev='{first}{name}' bus='{bus}'/>{pick(('', '<serial>S</serial>'))}</disk>"
        for name in dice.sample("abc", dice.randint(0, 3))
    )
    drive = pick(("", "<source file='POOL/one.iso'/>", "<source file='POOL/two.iso'/>"))
    nics = "".join(
        f"<interface type='{kind}'><mac address='52:54:00:00:01:0{number}'/><source {kind}='{name}'/>"
        f"<model type='{pick(('virtio', 'e1000', 'rtl8139'))}'/></interface>"
        for number, (kind, name) in enumerate(dice.choices((("bridge", "BRIDGE"), ("network", "drift-a"), ("network", "drift-b")), k=dice.randint(0, 3)))
    )
    graphics = pick(
        (
            "",
            "<graphics type='vnc' port='-1'/>",
            "<graphics type='vnc' port='5999' listen='127.0.0.1'/>",
            "<graphics type='vnc' autoport='yes'><listen type='address' address='127.0.0.2'/></graphics>",
            "<graphics type='vnc'><listen type='socket'/></graphics>",
            "<graphics type='vnc' socket='/run/a.sock'/>",
            "<graphics type='vnc'><listen type='socket' socket='/run/b.sock'/></graphics>",
        )
    )
    cpus = (
        "",
        "<cpu mode='maximum'/>",
        "<cpu mode='custom' match='exact'><model fallback='forbid'>qemu64</model></cpu>",
        "<cpu><topology sockets='2' cores='2' threads='1'/></cpu>",
    )
    boots = ("", "<boot dev='hd'/>", "<boot dev='network'/><bootmenu enable='no'/>")
    parts = [
        f"<memory unit='MiB'>{pick((32, 48, 1024))}</memory>",
        pick(("<vcpu>4</vcpu>", "<vcpu current='2'>4</vcpu>")),
        f"<os><type machine='{machine}'>hvm</type>{pick(boots)}</os>",
        pick(("<features><acpi/></features>", "<features><acpi/><pae/></features>")),
        pick(cpus),
        pick(
            ("<clock offset='utc'/>", "<clock offset='variable' adjustment='10' basis='utc'/>", "<clock offset='utc'><timer name='hpet' present='no'/></clock>")
        ),
        pick(("", "<title>t</title>", "<title>u</title><description>d</description>")),
        pick(("", "<on_reboot>destroy</on_reboot>")),
        pick(("", "<memoryBacking><nosharepages/></memoryBacking>")),
    ]
    devices = [
        disks,
        f"<disk type='file' device='cdrom'>{drive}<target dev='sdx' bus='sata'/><readonly/></disk>" if pick((True, False)) else "",
        nics,
        graphics,
        pick(("", "<video><model type='vga'/></video>", "<video><model type='virtio'/></video>", "<video><model type='qxl'/></video>")),
        pick(("", "<serial type='pty'><target port='0'/></serial>", "<serial type='file'><source path='/tmp/x'/></serial>")),
        pick(("", "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>")),
        pick(
            (
                "",
                "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>",
                "<rng model='virtio'><rate bytes='9'/><backend model='random'/></rng>",
            )
        ),
        pick(("", "<controller type='scsi' index='0' model='virtio-scsi'/>", "<controller type='scsi' index='0' model='lsilogic'/>")),
        pick(("", "<watchdog model='i6300esb' action='reset'/>", "<memballoon model='none'/>", "<sound model='ich6'/>", "<input type='tablet' bus='usb'/>")),
    ]
    dice.shuffle(parts)
    dice.shuffle(devices)
    return f"<domain type='qemu'>{''.join(parts)}<devices>{''.join(devices)}</devices></domain>"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.whole) for seed in range(1, 12))])
def test_from_any_template_to_any_other(host: Host, seed: int, whole: bool) -> None:
    dice = random.Random(seed)
    guest = Guest(host, f"r{seed}", template(dice), "qemu")
    try:
        for unused in range(25 if whole else 8):
            wanted = guest.rendered(template(dice))
            fresh = defined_fresh(guest, wanted)
            guest.correct(wanted)
            assert guest.compare(wanted).differences == ()
            found = flatten(guest.config())
            said = {path: value for path, value in flatten(wanted).items() if not path.startswith(("os/boot", "devices/disk[sdx]"))}
            # as if it had been defined just now, wherever the template speaks
            assert {path: found.get(path) for path in said} == {path: fresh.get(path) for path in said}
    finally:
        guest.remove()


def defined_fresh(guest: Guest, wanted: t.Any) -> dict[str, str]:
    """What libvirt makes of a template without a history."""
    other = Guest(guest.host, f"{guest.name}-new", "<domain type='qemu'/>", "qemu")
    try:
        text = guest.rendered_text(wanted).replace(guest.vm.uuid, other.vm.uuid).replace(f"<name>{guest.name}</name>", f"<name>{other.name}</name>")
        other.connection.defineXML(text)
        return {path: guest.vm.uuid if path == "uuid" else guest.name if path == "name" else value for path, value in flatten(other.config()).items()}
    finally:
        other.remove()
