# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Broken templates, each with the line of the error."""

from __future__ import annotations

import dataclasses

JINJA2 = """\
{# a machine with two disks and two cards #}
<domain type='{{ hypervisor }}'>
  <name>{{ name }}</name>
  <memory unit='MiB'>{{ memory_mb }}</memory>
  <vcpu>{{ cpu }}</vcpu>
  <os>
    <type machine='q35'>hvm</type>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
  </features>
  <cpu mode='maximum'/>
  <clock offset='utc'/>
  <on_crash>restart</on_crash>
  <devices>
{% for disk in disks %}
    <disk type='{{ disk.type }}' device='disk'>
      <driver name='qemu' type='{{ disk.format }}'/>
      <source file='{{ disk.path }}'/>
      <target dev='{{ disk.target }}' bus='{{ disk.bus }}'/>
    </disk>
{% endfor %}
{% if seed %}
    <!-- nothing -->
{% endif %}
    <controller type='usb' model='qemu-xhci'/>
{% for nic in nics %}
    <interface type='network'>
      <source network='{{ nic.network }}'/>
      <model type='{{ nic.model }}'/>
    </interface>
{% endfor %}
    <serial type='pty'/>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'/>
    <video>
      <model type='vga'/>
    </video>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
  </devices>
</domain>
"""

BRACES = """\
<domain type='{hypervisor}'>
  <name>{name}</name>
  <description>{note}</description>
  <memory unit='MiB'>{memory_mb}</memory>
  <vcpu>{cpu}</vcpu>
  <os>
    <type machine='q35'>hvm</type>
    <boot dev='hd'/>
  </os>
  <devices>
    <disk type='{disk0_type}' device='disk'>
      <driver name='qemu' type='{disk0_format}'/>
      <source file='{disk0_path}'/>
      <target dev='{disk0_target}' bus='{disk0_bus}'/>
    </disk>
    <interface type='network'>
      <source network='{nic0_network}'/>
      <model type='{nic0_model}'/>
    </interface>
    <video>
      <model type='vga'/>
    </video>
  </devices>
</domain>
"""


@dataclasses.dataclass(frozen=True)
class Broken:
    """A template with one error: ``old`` is replaced by ``new``.

    ``line`` is the template's line to be named: the one where ``at`` (by default ``new``) begins; the
    message has ``says``.
    """

    name: str
    old: str
    new: str
    at: str | None = None
    says: str = ""
    source: str = JINJA2

    @property
    def template(self) -> str:
        """The complete template."""
        assert self.source.count(self.old) == 1, self.name
        return self.source.replace(self.old, self.new)

    @property
    def line(self) -> int:
        """The line of the error."""
        text = self.template
        return text[: text.index(self.at or self.new)].count("\n") + 1


NIC_MODEL = "      <model type='{{ nic.model }}'/>"

# what Jinja2 or XML refuses
SYNTAX = (
    Broken("Jinja2: a tag that does not exist", "{% if seed %}", "{% iff seed %}"),
    Broken("Jinja2: a loop without its end", "{% endfor %}\n{% if", "{% if", "{% for disk in disks"),
    Broken("Jinja2: division by zero", "{{ cpu }}", "{{ cpu / 0 }}"),
    Broken("Jinja2: a forbidden attribute", "{{ cpu }}", "{{ cpu.__class__.__mro__ }}"),
    Broken("XML: a tag closed by another", "<vcpu>{{ cpu }}</vcpu>", "<vcpu>{{ cpu }}</cpu>"),
    Broken("XML: a quote is missing, after a loop", "<model type='vga'/>", "<model type='vga/>", "    </video>"),
    Broken("XML: an attribute twice", "type='vnc' port='-1'", "type='vnc' type='x'"),
    Broken("XML: an unknown entity", "<serial type='pty'/>", "<serial type='&pty;'/>"),
    Broken("braces: a tag closed by another", "{cpu}</vcpu>", "{cpu}</cpu>", "  <vcpu>", source=BRACES),
)

# what libvirt refuses
REFUSED = (
    Broken("memory that is not a number", "{{ memory_mb }}</memory>", "much</memory>"),
    Broken("an unknown unit", "<memory unit='MiB'>", "<memory unit='elephants'>"),
    Broken("CPUs that are not a number", "{{ cpu }}</vcpu>", "many</vcpu>"),
    Broken("more CPUs now than there can be", "<vcpu>{{ cpu }}</vcpu>", "<vcpu current='9'>{{ cpu }}</vcpu>"),
    Broken("an unknown operating system type", "hvm</type>", "hwm</type>"),
    Broken("a machine this QEMU does not have", "machine='q35'", "machine='q36'"),
    Broken("an unknown architecture", "<type machine='q35'>", "<type arch='x87' machine='q35'>"),
    Broken("a boot device that is none", "<boot dev='hd'/>", "<boot dev='disk'/>"),
    Broken("a CPU mode that is none", "<cpu mode='maximum'/>", "<cpu mode='fastest'/>"),
    Broken("a clock offset that is none", "<clock offset='utc'/>", "<clock offset='moon'/>"),
    Broken("a lifecycle action that is none", "<on_crash>restart", "<on_crash>cry"),
    Broken("a disk on a bus that is none, in a loop", "bus='{{ disk.bus }}'", "bus='omni'"),
    Broken("two disks with one target, in a loop", "<target dev='{{ disk.target }}'", "<target dev='vda'"),
    Broken("a disk without a target, in a loop", "      <target dev='{{ disk.target }}' bus='{{ disk.bus }}'/>\n", "", "<disk type="),
    Broken("a disk device that is none", "device='disk'", "device='disc'"),
    Broken("a disk type that is none", "<disk type='{{ disk.type }}'", "<disk type='paper'"),
    Broken("a disk format that is none", "type='{{ disk.format }}'/>", "type='qcow3'/>"),
    Broken("a cache mode that is none", "type='{{ disk.format }}'/>", "type='{{ disk.format }}' cache='warm'/>"),
    Broken("a USB controller that is none", "model='qemu-xhci'", "model='qemu-xxx'"),
    Broken("a controller type that is none", "<controller type='usb' model='qemu-xhci'/>", "<controller type='bus'/>"),
    Broken("an interface type that is none", "<interface type='network'>", "<interface type='netwerk'>"),
    Broken("a multicast MAC", NIC_MODEL, f"      <mac address='01:00:5e:00:00:01'/>\n{NIC_MODEL}", "      <mac "),
    Broken("a MAC that is none", NIC_MODEL, f"      <mac address='nonsense'/>\n{NIC_MODEL}", "      <mac "),
    Broken("a network card without a source", "      <source network='{{ nic.network }}'/>\n", "", "<interface type"),
    Broken("an unknown virtual port", "<model type='{{ nic.model }}'/>", "<virtualport type='openswitch'/>"),
    Broken("an unknown type of graphics", "<graphics type='vnc' port='-1'", "<graphics type='vpn' port='-1'"),
    Broken("a port that is not a number", "port='-1'", "port='first'"),
    Broken("an unknown video model", "<model type='vga'/>", "<model type='vgaa'/>"),
    Broken("an unknown rng backend", "<backend model='random'>", "<backend model='dice'>"),
    Broken("an unknown rng model", "<rng model='virtio'>", "<rng model='virtia'>"),
    Broken("an unknown serial device", "<serial type='pty'/>", "<serial type='ptty'/>"),
    Broken("an unknown feature", "<acpi/>", "<acpi/>\n    <turbo/>", "<turbo/>"),
    Broken("a feature with an unknown state", "<acpi/>", "<acpi/><smm state='maybe'/>"),
    Broken("firmware and loader that contradict", "<boot dev='hd'/>", "<loader type='pflash' readonly='yes'/>"),
    Broken("a PCI address in use twice", "<serial type='pty'/>", "<memballoon model='virtio'><address type='pci' slot='0x1f'/></memballoon>\n", "<memballoon"),
    Broken("braces: a bus that is none", "bus='{disk0_bus}'", "bus='omni'", source=BRACES),
    Broken("braces: a video model that is none, after a value of several lines", "<model type='vga'/>", "<model type='vgaa'/>", source=BRACES),
    Broken("braces: a machine this QEMU does not have", "machine='q35'", "machine='q36'", source=BRACES),
)

# refused only by strict: libvirt drops it silently
SILENT = (
    Broken("an unknown element", "<boot dev='hd'/>", "<boot dev='hd'/>\n    <boots/>", "<boots/>", "<boots> in <os>"),
    Broken("an unknown device", "<serial type='pty'/>", "<cereal type='pty'/>", says="<cereal> in <devices>"),
    Broken("an unknown attribute", "<rng model='virtio'>", "<rng model='virtio' speed='high'>", says="the attribute speed of <rng>"),
    Broken(
        "an element in the wrong place, in a loop",
        "<model type='{{ nic.model }}'/>",
        "<model type='{{ nic.model }}'/>\n      <vcpu>2</vcpu>",
        "<vcpu>2",
        "<vcpu> in <interface>",
    ),
    Broken("a name with a capital", "<serial type='pty'/>", "<Serial type='pty'/>", says="<Serial> in <devices>"),
    Broken("an element beside the devices", "</domain>", "<disks/></domain>", says="<disks> in <domain>"),
    Broken("braces: an unknown attribute", "<disk type=", "<disk color='blue' type=", says="the attribute color of <disk>", source=BRACES),
)
