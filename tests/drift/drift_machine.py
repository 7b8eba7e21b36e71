# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a machine: memory, CPUs, firmware, clock, names, and of what no template mentions."""

from __future__ import annotations

import libvirt
from drift_case import APPLIED, BOTH, CONFIG, LEFT, LIVE, Case, add, all_of, drop, put, swap

TITLE, DESCRIPTION = libvirt.VIR_DOMAIN_METADATA_TITLE, libvirt.VIR_DOMAIN_METADATA_DESCRIPTION

CASES = (
    Case("no change", running=True),
    Case("memory, definition", put("memory", text="65536"), found={"memory": "oc"}, running=True),
    Case("currentMemory, definition", lambda guest: guest.domain.setMemoryFlags(16384, CONFIG), found={"currentMemory": "oc"}, running=True),
    Case("vcpu, definition", put("vcpu", text="4"), found={"vcpu": "oc"}, running=True),
    Case("vcpu current, definition", lambda guest: guest.domain.setVcpusFlags(2, CONFIG), found={"vcpu/@current": "oc"}, running=True),
    Case("vcpu current, running", lambda guest: guest.domain.setVcpusFlags(2, LIVE), found={"vcpu/@current": "ol"}, running=True, live_only=True),
    Case("vcpu current, both", lambda guest: guest.domain.setVcpusFlags(2, BOTH), found={"vcpu/@current": "ocl"}, running=True),
    Case("vcpu pinned to CPUs of the host", put("vcpu", cpuset="0"), fate=LEFT),
    Case("title, definition", put("title", text="Mine"), found={"title": "oc"}),
    Case("title, both", lambda guest: guest.domain.setMetadata(TITLE, "Mine", None, None, BOTH), found={"title": "ocl"}, running=True),
    Case(
        "description, running",
        lambda guest: guest.domain.setMetadata(DESCRIPTION, "x", None, None, LIVE),
        found={"description": "ol"},
        running=True,
        live_only=True,
    ),
    Case("description removed", drop("description"), found={"description": "oc"}),
    Case("machine, another version", put("os/type", machine="pc-i440fx-6.2"), found={"os/type/@machine": "oc"}),
    Case("boot menu", put("os/bootmenu", enable="yes"), found={"os/bootmenu/@enable": "oc"}),
    Case("features removed", drop("features/pae"), found={"features/pae": "oc"}),
    Case("features, all removed", drop("features"), found={"features": "oc"}),
    Case("features added", add("features", "<vmport state='off'/>"), fate=LEFT),
    Case("cpu model", put("cpu/model", text="Nehalem"), found={"cpu/model": "oc"}),
    Case(
        "cpu mode",
        all_of(drop("cpu"), add(".", "<cpu mode='maximum'/>")),
        found={"cpu/@mode": "oc", "cpu/@match": "oc", "cpu/model": "oc", "cpu/feature[svm]": "oc"},
    ),
    Case("cpu feature, policy", put("cpu/feature", policy="require"), found={"cpu/feature[svm]/@policy": "oc"}),
    Case("cpu feature added", add("cpu", "<feature policy='disable' name='x2apic'/>"), fate=LEFT),
    Case("cpu topology added", add("cpu", "<topology sockets='1' cores='2' threads='1'/>"), fate=LEFT),
    Case("clock offset", put("clock", offset="localtime"), found={"clock/@offset": "oc"}),
    Case("timer, policy", put("clock/timer", tickpolicy="delay"), found={"clock/timer[rtc]/@tickpolicy": "oc"}),
    Case("timer removed", drop("clock/timer[@name='hpet']"), found={"clock/timer[hpet]": "oc"}),
    Case("timer added", add("clock", "<timer name='pit' tickpolicy='delay'/>", first=True), fate=LEFT),
    Case("on_reboot", put("on_reboot", text="destroy"), found={"on_reboot": "oc"}),
    Case("on_crash", put("on_crash", text="preserve"), found={"on_crash": "oc"}),
    Case("block weight, memory limits", add(".", "<memtune><hard_limit unit='KiB'>900000</hard_limit></memtune>"), fate=LEFT),
    Case("I/O threads", add(".", "<iothreads>2</iothreads>"), fate=LEFT),
    Case("security label", add(".", "<seclabel type='none' model='dac'/>"), fate=LEFT),
    Case("metadata of another program", add("metadata", "<o:p xmlns:o='urn:other'>1</o:p>"), fate=LEFT),
    Case(
        "arguments of QEMU",
        add(".", "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:env name='A' value='1'/></q:commandline>"),
        fate=LEFT,
    ),
    Case("boot order as virtualbmc sets it", all_of(drop("os/boot"), add("os", "<boot dev='cdrom'/>")), kept=("os/boot",), fate=LEFT),
    Case(
        "boot order as sushy-tools sets it",
        all_of(drop("os/boot"), add("devices/disk", "<boot order='1'/>"), add("devices/interface", "<boot order='2'/>")),
        kept=("os/boot",),
        fate=LEFT,
        running=True,
    ),
    Case("loader by a BMC emulator", put("os/loader", text="/usr/share/seabios/bios-256k.bin"), kept=("os/loader",), fate=LEFT),
    Case(
        "loader and nvram by a BMC emulator",
        all_of(
            drop("os/loader"),
            add("os", "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"),
            add("os", "<nvram template='/usr/share/OVMF/OVMF_VARS_4M.fd'>POOL/NAME_VARS.fd</nvram>"),
        ),
        kept=("os/loader",),
        fate=LEFT,
    ),
    Case("template: the same in other units", template=swap("<memory unit='MiB'>32<", "<memory unit='KiB'>32768<"), fate=APPLIED, running=True),
    Case("template: the same in bytes", template=swap("<memory unit='MiB'>32<", "<memory unit='b'>33554432<"), fate=APPLIED),
    Case("template: current memory, the default of libvirt", template=swap("<vcpu p", "<currentMemory>32768</currentMemory><vcpu p"), fate=APPLIED),
    Case(
        "template: other order of elements and attributes",
        template=lambda text: swap("<acpi/><apic/><pae/>", "<pae/><acpi/><apic/>")(
            swap("placement='static' current='1'", "current='1' placement='static'")(
                swap("<timer name='hpet' present='no'/>", "")(
                    swap("<timer name='rtc' t", "<timer present='no' name='hpet'/><timer name='rtc' t")(swap("<on_reboot>restart</on_reboot>", "")(text))
                )
            )
        ).replace("<title>", "<on_reboot>restart</on_reboot><title>"),
        fate=APPLIED,
        running=True,
    ),
    Case("template: decimal instead of hexadecimal", template=swap("slot='0x0a'", "slot='10'"), fate=APPLIED),
    Case("template: more unknown elements", template=swap("</os>", "<kettle/></os>"), found={"os/kettle": "c"}, fate=APPLIED),
    Case("template: memory", template=swap("'MiB'>32<", "'MiB'>48<"), found={"memory": "cl", "currentMemory": "cl"}, fate=APPLIED, running=True),
    Case("template: less memory", template=swap("'MiB'>32<", "'MiB'>24<"), found={"memory": "cl", "currentMemory": "cl"}, fate=APPLIED, running=True),
    Case("template: vcpu current", template=swap("current='1'", "current='2'"), found={"vcpu/@current": "cl"}, fate=APPLIED, running=True),
    Case(
        "template and another tool: memory",
        put("memory", text="65536"),
        swap("'MiB'>32<", "'MiB'>48<"),
        found={"memory": "oc", "currentMemory": "c"},
        fate=APPLIED,
    ),
    Case("template: the same change as another tool", put("on_reboot", text="destroy"), swap("<on_reboot>restart", "<on_reboot>destroy"), fate=APPLIED),
    Case("template: title removed", template=swap("<title>A guest</title>", ""), found={"title": "cl"}, fate=APPLIED, running=True),
    Case(
        "template: its metadata removed",
        template=swap("<metadata><o:rack xmlns:o='urn:template'><o:row>7</o:row></o:rack></metadata>", ""),
        found={"metadata/{urn:template}rack": "c"},
        fate=APPLIED,
        running=True,
    ),
    Case(
        "template: a part of its metadata removed",
        template=swap("<o:row>7</o:row>", ""),
        found={"metadata/{urn:template}rack/{urn:template}row": "c"},
        fate=APPLIED,
        running=True,
    ),
    Case("template: a feature removed", template=swap("<pae/>", ""), found={"features/pae": "cl"}, fate=APPLIED, running=True),
    Case(
        "template: a default removed",
        template=swap("<on_reboot>restart</on_reboot>", ""),
        found={"on_reboot": "cl"},
        fate=APPLIED,
        running=True,
        same_default=True,
    ),
    Case(
        "template: cpu",
        template=lambda text: text[: text.index("<cpu")] + "<cpu mode='maximum'/>" + text[text.index("</cpu>") + 6 :],
        found={"cpu/@mode": "cl", "cpu/@match": "cl", "cpu/model": "cl", "cpu/feature[svm]": "cl"},
        fate=APPLIED,
        running=True,
    ),
    Case(
        "template: boot order over a BMC emulator's",
        all_of(drop("os/boot"), add("devices/disk", "<boot order='1'/>")),
        swap("<boot dev='network'/>", ""),
        found={"os/boot": "oc"},
        fate=APPLIED,
    ),
    Case(
        "template: loader over a BMC emulator's",
        put("os/loader", text="/usr/share/seabios/bios-256k.bin"),
        lambda text: text[: text.index("<loader")] + text[text.index("</loader>") + 9 :],
        found={"os/loader": "oc"},
        fate=APPLIED,
    ),
    Case("template: the loader", template=swap("bios.bin", "bios-256k.bin"), found={"os/loader": "cl"}, fate=APPLIED, running=True),
    Case("template: another machine", template=swap("machine='pc'", "machine='q35'"), found={"os/type/@machine": "c"}, fate=APPLIED, moves=True),
)
