# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packaged templates by name, composed of shared parts.

They are Python strings, because Ansible copies nothing else to the host. Users can replace them by
template files; ``docs/templates.md`` describes all variables.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

_HEAD = """\
<domain type='{{ hypervisor }}'>
  <name>{{ name }}</name>
  <uuid>{{ uuid }}</uuid>
  <memory unit='MiB'>{{ memory_mb }}</memory>
  <vcpu placement='static'>{{ cpu }}</vcpu>
"""

# with a seed not from the network: if the disk does not boot, the system of another host would read the secrets of the seed
_BOOT = """\
{% for device in ([boot] if boot is string else boot) or (['hd'] if seed else ['hd', 'network']) %}
    <boot dev='{{ device }}'/>
{% endfor %}
  </os>
"""

_CPU = """\
  <cpu mode='{{ 'host-passthrough' if hypervisor == 'kvm' else 'maximum' }}'/>
"""

_BIOS = f"""\
  <os>
    <type{{% if machine %}} machine='{{{{ machine }}}}'{{% endif %}}>hvm</type>
{_BOOT}\
  <features>
    <acpi/>
    <apic/>
  </features>
{_CPU}"""

# libvirt selects a firmware with these features; secure boot requires the system management mode
_UEFI = f"""\
  <os firmware='efi'>
    <type machine='{{{{ machine or 'q35' }}}}'>hvm</type>
    <firmware>
{{% if secure_boot %}}
      <feature enabled='yes' name='enrolled-keys'/>
{{% endif %}}
      <feature enabled='{{{{ 'yes' if secure_boot else 'no' }}}}' name='secure-boot'/>
    </firmware>
{{% if secure_boot %}}
    <loader secure='yes'/>
{{% endif %}}
{_BOOT}\
  <features>
    <acpi/>
    <apic/>
{{% if secure_boot %}}
    <smm state='on'/>
{{% endif %}}
  </features>
{_CPU}"""

_CONTAINER = """\
  <os>
    <type>exe</type>
    <init>/sbin/init</init>
  </os>
  <features>
    <privnet/>
  </features>
"""

_LIFE = """\
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>restart</on_crash>
  <devices>
"""

_DISK = """\
    <disk type='{{ disk.type }}' device='disk'>
      <driver name='qemu' type='{{ disk.format }}'{% if disk.cache %} cache='{{ disk.cache }}'{% endif %} discard='unmap'/>
      <source {{ 'dev' if disk.type == 'block' else 'file' }}='{{ disk.path }}'/>
      <target dev='{{ disk.target }}' bus='{{ disk.bus }}'/>
{% if disk.shareable %}
      <shareable/>
{% endif %}
{% if disk.serial %}
      <serial>{{ disk.serial }}</serial>
{% endif %}
    </disk>
"""

_FOLDER = """\
    <filesystem type='mount' accessmode='passthrough'>
      <source dir='{{ disk.path }}'/>
      <target dir='{{ disk.mount }}'/>
    </filesystem>
"""

_SEED = """\
{% if seed %}
    <disk type='{{ seed.type }}' device='disk'>
      <driver name='qemu' type='{{ seed.format }}'/>
      <source file='{{ seed.path }}'/>
      <target dev='{{ seed.target }}' bus='{{ seed.bus }}'/>
      <readonly/>
    </disk>
{% endif %}
"""

_NIC = """\
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
"""

_MODEL = """\
      <model type='{{ nic.model }}'/>
"""

_NIC_END = """\
    </interface>
"""

# on q35, hot-plugging a device requires a free root port
_PORTS = """\
{% for port in range(1, (root_ports or 14) | int + 1) %}
    <controller type='pci' index='{{ port }}' model='pcie-root-port'/>
{% endfor %}
"""

# the screen is a socket of libvirt's, in a folder of the guest: every user of the host could connect to a port on 127.0.0.1
_CONSOLE = """\
    <serial type='pty'>
      <target port='0'/>
    </serial>
    <console type='pty'>
      <target type='serial' port='0'/>
    </console>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
    </channel>
    <graphics type='vnc'>
      <listen type='socket'/>
    </graphics>
    <video>
      <model type='vga'/>
    </video>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
    </rng>
"""

_CONTAINER_CONSOLE = """\
    <console type='pty'/>
"""

_END = """\
  </devices>
</domain>
"""


def _each(variable: str, part: str) -> str:
    return f"{{% for {variable} in {variable}s or [] %}}\n{part}{{% endfor %}}\n"


def _either(container: str, machine: str) -> str:
    return f"{{% if hypervisor == 'lxc' %}}\n{container}{{% else %}}\n{machine}{{% endif %}}\n"


def _machine(system: str, ports: str = "") -> str:
    return _HEAD + system + _LIFE + ports + _each("disk", _DISK) + _SEED + _each("nic", _NIC + _MODEL + _NIC_END) + _CONSOLE + _END


def _default() -> str:
    system = f"{{% if hypervisor == 'lxc' %}}\n{_CONTAINER}{{% elif boot_firmware == 'efi' %}}\n{_UEFI}{{% else %}}\n{_BIOS}{{% endif %}}\n"
    ports = f"{{% if hypervisor != 'lxc' and boot_firmware == 'efi' %}}\n{_PORTS}{{% endif %}}\n"
    model = f"{{% if hypervisor != 'lxc' %}}\n{_MODEL}{{% endif %}}\n"
    return (
        _HEAD
        + system
        + _LIFE
        + ports
        + _each("disk", _either(_FOLDER, _DISK))
        + _SEED
        + _each("nic", _NIC + model + _NIC_END)
        + _either(_CONTAINER_CONSOLE, _CONSOLE)
        + _END
    )


PACKAGED: t.Mapping[str, str] = {
    "bios": _machine(_BIOS),
    "default": _default(),
    "lxc": _HEAD + _CONTAINER + _LIFE + _each("disk", _FOLDER) + _each("nic", _NIC + _NIC_END) + _CONTAINER_CONSOLE + _END,
    "uefi": _machine(_UEFI, _PORTS),
}


def packaged(name: str) -> str:
    """Return the text of a packaged template."""
    if name not in PACKAGED:
        raise model_errors.InputError(f"{model_errors.shown(name)} is not a packaged template.", hint=f"Use one of {', '.join(sorted(PACKAGED))}.")
    return PACKAGED[name]


def template_source(template: str) -> str:
    """Return the text of a template that is given as text or by the name of a packaged template."""
    if template in PACKAGED:
        return PACKAGED[template]
    if "<" not in template:
        raise model_errors.InputError(
            f"{model_errors.shown(template)} is neither a libvirt XML template nor the name of a packaged template.",
            "template",
            f"Pass the content of the template file, or one of {', '.join(sorted(PACKAGED))}.",
        )
    return template
