# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs without a change of the input change nothing: ten runs and check mode with a mixed population, with restarts of libvirtd and guests."""

from __future__ import annotations

import contextlib
import signal
import typing as t

import pytest
from harden_host import Host, guest

AddRow = t.Callable[[str, str, str], None]

BRACES = """<domain type='kvm'>
  <name>{id}</name>
  <memory unit='MiB'>{memory_mb}</memory>
  <vcpu placement='static'>{cpu}</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices>
    <disk type='file' device='disk'><source file='{disk0_path}'/><target dev='vda' bus='virtio'/></disk>
  </devices>
</domain>
"""

# elements that libvirt drops, normalizes, extends or moves
ODD = """<domain type='{{ hypervisor }}'>
  <!-- a comment --><?odd processing?>
  <vcpu>{{ cpu }}</vcpu>
  <name>{{ name }}</name>
  <teapot short='yes'>and stout</teapot>
  <memory unit='b'>{{ (memory_mb or 32) * 1048576 + 1 }}</memory>
  <currentMemory unit='KB'>30000</currentMemory>
  <metadata><o:odd xmlns:o='urn:odd' b='2' a='1'> spaces  kept </o:odd></metadata>
  <description>two
lines &amp; an entity, ä, \u2028 and 'quotes'</description>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <input type='tablet' bus='usb'/>
    <controller type='usb' index='0' model='qemu-xhci'/>
    <serial type='null'/>
    <watchdog model='i6300esb' action='poweroff'/>
    <sound model='ac97'/>
    <memballoon model='virtio' autodeflate='on'><stats period='5'/></memballoon>
    <graphics type='vnc' autoport='yes' port='-1' passwd='secret'/>
    <video><model type='cirrus' vram='16384' heads='1'/></video>
    <disk type='file' device='cdrom'><target dev='hdc' bus='ide'/><readonly/></disk>
{% for disk in disks %}
    <disk device='disk' type='file'>
      <target bus='{{ disk.bus }}' dev='{{ disk.target }}'/>
      <source file='{{ disk.path }}'/>
      <driver type='{{ disk.format }}' name='qemu' io='threads' nonsense='1'/>
      <boot order='{{ loop.index }}'/>
    </disk>
{% endfor %}
{% for nic in nics %}
    <interface type='network'>
      <model type='rtl8139'/>
      <mac address='{{ nic.mac | upper }}'/>
      <source network='{{ nic.network }}'/>
      <mtu size='1400'/>
      <link state='up'/>
    </interface>
{% endfor %}
  </devices>
  <os><type machine='pc'>hvm</type><bios useserial='yes'/><smbios mode='sysinfo'/></os>
  <sysinfo type='smbios'><system><entry name='manufacturer'> odd </entry></system></sysinfo>
  <features><pae/><apic/><acpi/><hyperv><relaxed state='off'/></hyperv></features>
  <cpu mode='custom' match='exact'><model>qemu64</model><feature name='svm' policy='disable'/></cpu>
  <clock offset='variable' adjustment='0' basis='utc'/>
  <cputune><shares>512</shares></cputune>
  <on_crash>preserve</on_crash>
</domain>
"""


def _population(host: Host) -> list[tuple[list[dict[str, t.Any]], dict[str, t.Any]]]:
    """Return the calls that create the population: their VMs and parameters."""
    disk, layer = {"size": "2 MiB", "serial": "S 1"}, {"image": "base", "format": "qcow2", "backing": True}
    nic = {"network": "torture"}
    machines = [
        guest("bios", disks=[disk, layer], nics=[nic, dict(nic, model="e1000")], serial="x"),
        guest("sata", disks=[dict(disk, bus="sata"), dict(disk, bus="scsi"), dict(layer, bus="usb")], autostart=False),
        guest("bare", None, memory_mb=None, ram="0.04 GiB"),
        guest("seed", disks=[layer], user_data={"hostname": "x"}),
        guest("efi", 64, boot_firmware="efi", disks=[disk]),
        guest("secure", 64, boot_firmware="efi", secure_boot=True, machine="q35"),
        guest("boots", boot=["network", "hd"], disks=[disk], protected=True),
    ]
    return [
        (machines, {}),
        ([guest("brace", disks=[disk])], {"template": BRACES}),
        ([guest("odd", disks=[disk, disk], nics=[nic, nic])], {"template": ODD}),
        ([{"id": "box", "cpu": 1, "memory_mb": 64, "hypervisor": "lxc", "disks": [{"image": "root"}, {"mount": "/srv"}], "nics": [nic]}], {"uri": host.lxc}),
        ([guest("off", disks=[disk])], {"state": "present"}),
    ]


def _nothing(host: Host, calls: t.Sequence[tuple[t.Any, t.Any]], runs: int) -> int:
    """Run the calls, which must not change anything; return the number of runs."""
    number = 0
    for turn in range(runs):
        for vms, params in calls:
            for check in (False, True) if turn == 0 else (False,):
                outcome = host.done(*vms, check=check, **params)
                number += 1
                reported = outcome.result["vms"]
                found = [(vm["name"], vm["actions"], vm["changes"], vm["drift"]) for vm in reported if vm["actions"] or vm["changed"] or vm["drift"]]
                assert not outcome.result["changed"] and not found and not outcome.result["diff"], (found, outcome.result["diff"])
                assert not any(vm["restart_required"] for vm in outcome.result["vms"]), outcome.output
    return number


@pytest.fixture(name="population")
def fixture_population(host: Host, network: str) -> t.Iterator[list[tuple[t.Any, t.Any]]]:
    """Create the population."""
    assert network
    host.image("base")
    host.root("root")
    calls = _population(host)
    for vms, params in calls:
        host.done(*vms, **params)
    yield calls


def test_population_is_not_changed(host: Host, population: list[tuple[t.Any, t.Any]], add_row: AddRow, whole: bool) -> None:
    count = sum(len(vms) for vms, unused in population)
    runs = _nothing(host, population, 10 if whole else 2)

    for number in (signal.SIGTERM, signal.SIGKILL):
        host.end_daemon(number)
        host.start_daemon()
        runs += _nothing(host, population, 1)

    with host.libvirt() as there:
        active = there.connection.listAllDomains(1)
        for domain in active:
            domain.reset(0)
            with contextlib.suppress(Exception):
                domain.reboot(0)
    runs += _nothing(host, population, 1)

    # another client powers all guests off and on; create() raises an error if a guest does not start
    for uri in (host.uri, host.lxc):
        with host.libvirt(uri) as there:
            for domain in there.connection.listAllDomains(1):
                domain.destroy()
                domain.create()
    runs += _nothing(host, population, 1)

    # pause and resume
    with host.libvirt() as there:
        for domain in there.connection.listAllDomains(1):
            domain.suspend()
            domain.resume()
    runs += _nothing(host, population, 1)
    add_row(
        f"no change for {count} VMs: BIOS, UEFI, secure boot, containers, seeds, both syntaxes, a template libvirt alters",
        f"{runs} runs, some in check mode; after libvirtd stopped, killed; guests reset, rebooted, powered off and on, paused",
        "0 changes, 0 drift, no restart required",
    )
