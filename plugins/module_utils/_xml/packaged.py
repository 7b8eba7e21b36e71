# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The templates that come with the collection, by name.

Text in Python, because Ansible ships nothing else to the host. A user replaces one by a file of
his own (F3); every variable is described in the documentation of ``vm_define``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError

DEFAULT = """\
<domain type='{{ hypervisor }}'>
  <name>{{ name }}</name>
  <uuid>{{ uuid }}</uuid>
  <memory unit='MiB'>{{ memory_mb }}</memory>
  <vcpu placement='static'>{{ cpu }}</vcpu>
{% if hypervisor == 'lxc' %}
  <os>
    <type>exe</type>
    <init>/sbin/init</init>
  </os>
  <features>
    <privnet/>
  </features>
{% else %}
  <os>
    <type{% if machine %} machine='{{ machine }}'{% endif %}>hvm</type>
{% for device in boot or ['network', 'hd'] %}
    <boot dev='{{ device }}'/>
{% endfor %}
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <cpu mode='{{ 'host-passthrough' if hypervisor == 'kvm' else 'maximum' }}'/>
{% endif %}
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>restart</on_crash>
  <devices>
{% for disk in disks or [] %}
{% if hypervisor == 'lxc' %}
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='{{ disk.path }}'/>
      <target dir='{{ disk.mount }}'/>
    </filesystem>
{% else %}
    <disk type='{{ disk.type }}' device='disk'>
      <driver name='qemu' type='{{ disk.format }}'{% if disk.cache %} cache='{{ disk.cache }}'{% endif %} discard='unmap'/>
      <source {{ 'dev' if disk.type == 'block' else 'file' }}='{{ disk.path }}'/>
      <target dev='{{ disk.target }}' bus='{{ disk.bus }}'/>
{% if disk.serial %}
      <serial>{{ disk.serial }}</serial>
{% endif %}
    </disk>
{% endif %}
{% endfor %}
{% for nic in nics or [] %}
    <interface type='{{ 'bridge' if nic.bridge else 'network' }}'>
      <mac address='{{ nic.mac }}'/>
{% if nic.bridge %}
      <source bridge='{{ nic.bridge }}'/>
{% else %}
      <source network='{{ nic.network }}'/>
{% endif %}
{% if nic.vlan %}
      <vlan>
        <tag id='{{ nic.vlan }}'/>
      </vlan>
{% endif %}
{% if nic.virtualport %}
      <virtualport type='{{ nic.virtualport }}'/>
{% endif %}
{% if hypervisor != 'lxc' %}
      <model type='{{ nic.model }}'/>
{% endif %}
    </interface>
{% endfor %}
{% if hypervisor == 'lxc' %}
    <console type='pty'/>
{% else %}
    <serial type='pty'>
      <target port='0'/>
    </serial>
    <console type='pty'>
      <target type='serial' port='0'/>
    </console>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
    <graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'>
      <listen type='address' address='127.0.0.1'/>
    </graphics>
    <video>
      <model type='vga'/>
    </video>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
{% endif %}
  </devices>
</domain>
"""

PACKAGED: t.Mapping[str, str] = {"default": DEFAULT}


def template_source(template: str) -> str:
    """The text of a template given as itself or by the name of a packaged one.

    :raises InputError: neither XML nor the name of a packaged template.
    """
    if template in PACKAGED:
        return PACKAGED[template]
    if "<" not in template:
        raise InputError(
            f"{template[:60]!r} is neither a libvirt XML template nor the name of a packaged one.",
            "template",
            f"Give the content of the template file, or one of {', '.join(sorted(PACKAGED))}.",
        )
    return template
