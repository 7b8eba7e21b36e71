# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One small guest on a real libvirt, defined from a template; others change it behind the collection's back."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import typing as t

import libvirt
from lxml import etree

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import Comparison, compare, echo_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_merge import merge
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms

CLUSTER = "drift"

MACHINE = """
<domain type='qemu'>
  <title>A guest</title>
  <description>as the template says</description>
  <metadata><o:rack xmlns:o='urn:template'><o:row>7</o:row></o:rack></metadata>
  <memory unit='MiB'>32</memory>
  <vcpu placement='static' current='1'>2</vcpu>
  <os>
    <type machine='pc'>hvm</type>
    <loader type='rom'>/usr/share/seabios/bios.bin</loader>
    <boot dev='network'/>
    <boot dev='hd'/>
    <bootmenu enable='no'/>
    <teapot>unknown to libvirt</teapot>
  </os>
  <features><acpi/><apic/><pae/></features>
  <cpu mode='custom' match='exact'>
    <model fallback='forbid'>qemu64</model>
    <feature policy='disable' name='svm'/>
  </cpu>
  <clock offset='utc'>
    <timer name='rtc' tickpolicy='catchup'/>
    <timer name='hpet' present='no'/>
  </clock>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>restart</on_crash>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap'/>
      <source file='POOL/NAME-a.img'/>
      <target dev='vda' bus='virtio'/>
      <serial>SERIAL-A</serial>
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='POOL/NAME-b.img'/>
      <target dev='vdb' bus='virtio'/>
    </disk>
    <disk type='file' device='cdrom'>
      <driver name='qemu' type='raw'/>
      <source file='POOL/one.iso'/>
      <target dev='sda' bus='sata'/>
      <readonly/>
    </disk>
    <controller type='virtio-serial' index='0' ports='16'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x0a' function='0x0'/>
    </controller>
    <interface type='network'>
      <source network='drift-a'/>
      <model type='virtio'/>
      <link state='up'/>
    </interface>
    <interface type='bridge'>
      <source bridge='BRIDGE'/>
      <model type='e1000'/>
    </interface>
    <serial type='pty'><target port='0'/></serial>
    <console type='pty'><target type='serial' port='0'/></console>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>
    <video><model type='vga'/></video>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""

CONTAINER = """
<domain type='lxc'>
  <title>A container</title>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os>
    <type>exe</type>
    <init>/bin/sleep</init>
    <initarg>60</initarg>
  </os>
  <features><privnet/></features>
  <clock offset='utc'/>
  <on_crash>destroy</on_crash>
  <devices>
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='POOL/NAME-root'/>
      <target dir='/'/>
    </filesystem>
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='POOL/NAME-srv'/>
      <target dir='/srv'/>
    </filesystem>
    <interface type='network'>
      <source network='drift-a'/>
    </interface>
    <console type='pty'/>
  </devices>
</domain>
"""


def document(text: str) -> t.Any:
    """Text of libvirt as the collection reads it."""
    return xml_domain.parse(text)


@dataclasses.dataclass
class Host:
    """A libvirt of the tests' own: its connections, pool folder and the bridge of its network."""

    qemu: libvirt.virConnect
    lxc: libvirt.virConnect
    pool: pathlib.Path
    bridge: str
    uris: t.Mapping[str, str]

    def fill(self, template: str, name: str) -> str:
        """A template with this host's places."""
        return template.replace("POOL", str(self.pool)).replace("NAME", name).replace("BRIDGE", self.bridge)


class Guest:
    """A domain and the five documents about it."""

    def __init__(self, host: Host, name: str, template: str, hypervisor: str) -> None:
        self.host = host
        self.name = name
        self.hypervisor = hypervisor
        self.connection = host.lxc if hypervisor == "lxc" else host.qemu
        for part in ("a.img", "b.img", "c.img"):
            (host.pool / f"{name}-{part}").write_bytes(bytes(65536))
        for part in ("one.iso", "two.iso"):
            (host.pool / part).write_bytes(bytes(65536))
        for part in ("root", "srv", "other"):
            (host.pool / f"{name}-{part}").mkdir(exist_ok=True)
        (self.vm,) = parse_vms([{"id": name, "hypervisor": hypervisor, "nics": [{"bridge": host.bridge}] * 2}], cluster=CLUSTER)
        self.applied = self.rendered(template)
        self.make(template)
        self.echo = echo_of(self.applied, self.config())
        self.live_applied: t.Any | None = None
        self.first = self.config()
        self._edited: t.Any | None = None
        self._batch = False

    def make(self, template: str) -> None:
        """Define it, with nothing but the functions that compare and merge."""
        self.domain = self.connection.defineXML(xml_domain.text_of(self.applied))

    def rendered(self, template: str) -> t.Any:
        """What is wanted by a template, finished as the collection does it."""
        found = document(self.host.fill(template, self.name))
        xml_domain.finish(found, self.vm, CLUSTER, self.hypervisor)
        return document(xml_domain.canonical(found))

    @staticmethod
    def rendered_text(wanted: t.Any) -> str:
        """A document for libvirt."""
        return xml_domain.text_of(wanted)

    def start(self) -> None:
        """Switch it on with what was applied."""
        self.domain.create()
        self.live_applied = self.applied

    def config(self) -> t.Any:
        """What it will be after its next start."""
        return document(self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))

    def live(self) -> t.Any | None:
        """What runs."""
        return document(self.domain.XMLDesc(0)) if self.domain.isActive() else None

    def edit(self, change: t.Callable[[t.Any], t.Any]) -> None:
        """Edit the definition outside the collection."""
        if self._edited is None:
            self._edited = self.config()
        change(self._edited)
        if not self._batch:
            self._define_edited()

    @contextlib.contextmanager
    def at_once(self) -> t.Iterator[None]:
        """Several edits, one definition."""
        self._batch = True
        yield
        self._batch = False
        self._define_edited()

    def _define_edited(self) -> None:
        if self._edited is not None:
            self.connection.defineXML(etree.tostring(self._edited, encoding="unicode"))
            self._edited = None

    def compare(self, wanted: t.Any) -> Comparison:
        """What the collection finds."""
        return compare(wanted, self.applied, self.config(), self.live(), self.live_applied, self.echo)

    def correct(self, wanted: t.Any) -> None:
        """What the collection does about the definition."""
        merged = merge(self.config(), wanted, self.applied, self.echo)
        self.connection.defineXML(xml_domain.text_of(merged))
        self.applied, self.echo = wanted, echo_of(wanted, self.config())

    def addresses(self) -> dict[str, str]:
        """Device → its address on its bus; NIC → its MAC is part of the path."""
        return {path: value for path, value in flatten(self.config()).items() if "/address/@" in path}

    def remove(self) -> None:
        """Away with it."""
        if self.domain.isActive():
            self.domain.destroy()
        self.domain.undefine()
