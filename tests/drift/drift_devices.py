# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changes of a machine's devices, by others and by its template; drives a BMC emulator fills."""

from __future__ import annotations

from drift_case import APPLIED, BOTH, CONFIG, LEFT, LIVE, Case, add, all_of, attach, drop, put, swap, update

NIC = "<interface type='network'><mac address='52:54:00:00:00:99'/><source network='drift-b'/><model type='virtio'/></interface>"
THEIR_NIC = "devices/interface[52:54:00:00:00:99]"
NIC0, NIC1 = "devices/interface[MAC0]", "devices/interface[MAC1]"
DISK = "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='POOL/NAME-c.img'/><target dev='vdc' bus='virtio'/></disk>"
CDROM = "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='POOL/two.iso'/><target dev='sdb' bus='sata'/><readonly/></disk>"
# where the template has the screen of the guest; libvirt writes an address in two places
SCREEN = tuple(f"devices/graphics[vnc]/{part}" for part in ("@autoport", "@listen", "listen/@address", "listen/@type"))
ADDRESS = "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>"
TEMPLATE_NIC = "<interface type='network'><mac address='52:54:00:00:00:55'/><source network='drift-b'/><model type='virtio'/></interface>"
TEMPLATE_DISK = DISK.replace("vdc", "vdd")

CASES = (
    Case("NIC: other network, definition", put("devices/interface/source", network="drift-b"), found={f"{NIC0}/source/@network": "oc"}, running=True),
    Case(
        "NIC: other network, running",
        update("devices/interface", LIVE, lambda nic: nic.find("source").set("network", "drift-b")),
        found={f"{NIC0}/source/@network": "ol"},
        running=True,
        live_only=True,
    ),
    Case("NIC: bridge", put("devices/interface[2]/source", bridge="br-none"), found={f"{NIC1}/source/@bridge": "oc"}, running=True),
    Case(
        "NIC: network instead of a bridge",
        all_of(put("devices/interface[2]", type="network"), put("devices/interface[2]/source", bridge=None, network="drift-b")),
        found={f"{NIC1}/@type": "oc", f"{NIC1}/source/@bridge": "oc"},
    ),
    Case("NIC: model", put("devices/interface/model", type="e1000"), found={f"{NIC0}/model/@type": "oc"}, running=True),
    Case(
        "NIC: link down, running",
        update("devices/interface", LIVE, lambda nic: nic.find("link").set("state", "down")),
        found={f"{NIC0}/link/@state": "ol"},
        running=True,
        live_only=True,
    ),
    Case("NIC: link that the template does not set", add("devices/interface[2]", "<link state='down'/>"), fate=LEFT),
    Case("NIC: bandwidth", add("devices/interface", "<bandwidth><inbound average='1000'/></bandwidth>"), fate=LEFT),
    Case("NIC: other MAC", put("devices/interface/mac", address="52:54:00:00:00:98"), found={NIC0: "oc", "devices/interface[52:54:00:00:00:98]": "oc"}),
    Case("NIC removed, definition", drop("devices/interface[1]"), found={NIC0: "oc"}, running=True, moves=True),
    Case("NIC added, definition", attach(NIC, CONFIG), found={THEIR_NIC: "oc"}, running=True),
    Case("NIC added, running", attach(NIC, LIVE), found={THEIR_NIC: "ol"}, running=True, live_only=True),
    Case("NIC added, both", attach(NIC, BOTH), found={THEIR_NIC: "ocl"}, running=True),
    Case("NIC at another PCI address", put("devices/interface/address", slot="0x1f"), fate=LEFT),
    Case("disk added, definition", attach(DISK, CONFIG), found={"devices/disk[vdc]": "oc"}, running=True),
    Case("disk added, running", attach(DISK, LIVE), found={"devices/disk[vdc]": "ol"}, running=True, live_only=True),
    Case("disk added, both", attach(DISK, BOTH), found={"devices/disk[vdc]": "ocl"}, running=True),
    Case("disk removed, definition", drop("devices/disk[2]"), found={"devices/disk[vdb]": "oc"}, running=True, moves=True),
    Case(
        "disk: other file",
        lambda guest: put("devices/disk/source", file=f"{guest.host.pool}/{guest.name}-c.img")(guest),
        found={"devices/disk[vda]/source/@file": "oc"},
        running=True,
    ),
    Case("disk: other target", put("devices/disk[2]/target", dev="vdx"), found={"devices/disk[vdb]": "oc", "devices/disk[vdx]": "oc"}),
    Case("disk: other format", put("devices/disk[2]/driver", type="qcow2"), found={"devices/disk[vdb]/driver/@type": "oc"}),
    Case("disk: cache mode", put("devices/disk/driver", cache="writeback"), found={"devices/disk[vda]/driver/@cache": "oc"}),
    Case("disk: cache mode that the template does not set", put("devices/disk[2]/driver", cache="writeback"), fate=LEFT),
    Case("disk: serial number", put("devices/disk/serial", text="OTHER"), found={"devices/disk[vda]/serial": "oc"}),
    Case("disk: limits", add("devices/disk", "<iotune><read_iops_sec>100</read_iops_sec></iotune>"), fate=LEFT),
    Case("disk: read-only", add("devices/disk[2]", "<readonly/>"), fate=LEFT),
    Case("alias of a device", add("devices/disk", "<alias name='ua-root'/>"), fate=LEFT),
    Case(
        "medium changed by a BMC emulator, definition",
        lambda guest: put("devices/disk[3]/source", file=f"{guest.host.pool}/two.iso")(guest),
        kept=("devices/disk[sda]/source",),
        fate=LEFT,
        running=True,
    ),
    Case(
        "medium changed by a BMC emulator, both",
        all_of(
            *(
                update(
                    "devices/disk[@device='cdrom']", flags, lambda disk: disk.find("source").set("file", disk.find("source").get("file").replace("one", "two"))
                )
                for flags in (CONFIG, LIVE)
            )
        ),
        kept=("devices/disk[sda]/source",),
        fate=LEFT,
        running=True,
    ),
    Case("medium removed by a BMC emulator", drop("devices/disk[3]/source"), kept=("devices/disk[sda]/source",), fate=LEFT),
    Case("drive added by a BMC emulator", add("devices", CDROM), fate=LEFT, running=True),
    Case("drive removed", drop("devices/disk[3]"), found={"devices/disk[sda]": "oc"}),
    Case("controller added", add("devices", "<controller type='scsi' model='virtio-scsi'/>"), fate=LEFT),
    Case("controller: ports", put("devices/controller[@type='virtio-serial']", ports="8"), found={"devices/controller[virtio-serial:0]/@ports": "oc"}),
    Case(
        "address that the template sets",
        put("devices/controller[@type='virtio-serial']/address", slot="0x1e"),
        found={"devices/controller[virtio-serial:0]/address/@slot": "oc"},
    ),
    Case(
        "serial port to a file",
        all_of(put("devices/serial", type="file"), add("devices/serial", "<source path='/tmp/x'/>")),
        found={"devices/serial/@type": "oc", "devices/console/@type": "oc"},
        running=True,
    ),
    Case("guest agent removed", drop("devices/channel"), found={"devices/channel[org.qemu.guest_agent.0]": "oc"}, moves=True),
    Case("another channel", add("devices", "<channel type='unix'><target type='virtio' name='org.other.0'/></channel>", first=True), fate=LEFT),
    Case(
        "graphics on another address",
        all_of(put("devices/graphics", listen="0.0.0.0"), put("devices/graphics/listen", address="0.0.0.0")),
        found={"devices/graphics[vnc]/@listen": "oc", "devices/graphics[vnc]/listen/@address": "oc"},
        running=True,
    ),
    Case("graphics on a fixed port", put("devices/graphics", autoport="no", port="5999"), found={"devices/graphics[vnc]/@autoport": "oc"}),
    Case(
        "graphics on a socket",
        all_of(
            put("devices/graphics", socket="/run/other.sock", listen=None, autoport=None, port=None),
            put("devices/graphics/listen", type="socket", socket="/run/other.sock", address=None),
        ),
        found=dict.fromkeys(SCREEN, "oc"),
        running=True,
    ),
    Case("graphics removed", drop("devices/graphics"), found={"devices/graphics[vnc]": "oc"}),
    Case("graphics: keyboard", put("devices/graphics", keymap="de"), fate=LEFT),
    Case("video model", put("devices/video/model", type="cirrus"), found={"devices/video/model/@type": "oc"}),
    Case("another source of entropy", put("devices/rng/backend", text="/dev/random"), found={"devices/rng/backend": "oc"}),
    Case("watchdog added", add("devices", "<watchdog model='i6300esb' action='reset'/>"), fate=LEFT),
    Case("sound and tablet added", all_of(add("devices", "<sound model='ich6'/>"), add("devices", "<input type='tablet' bus='usb'/>", first=True)), fate=LEFT),
    Case("balloon: statistics", add("devices/memballoon", "<stats period='5'/>"), fate=LEFT),
    Case(
        "template: NIC added",
        template=swap("<serial type='pty'>", f"{TEMPLATE_NIC}<serial type='pty'>"),
        found={"devices/interface[52:54:00:00:00:55]": "cl"},
        fate=APPLIED,
        running=True,
    ),
    Case(
        "template: NIC removed",
        template=lambda text: text[: text.index("<interface type='bridge'>")] + text[text.index("<serial type='pty'>") :],
        found={NIC1: "cl"},
        fate=APPLIED,
        running=True,
    ),
    Case("template: NIC's network", template=swap("drift-a", "drift-b"), found={f"{NIC0}/source/@network": "cl"}, fate=APPLIED, running=True),
    Case("template: NIC's model", template=swap("e1000", "virtio"), found={f"{NIC1}/model/@type": "cl"}, fate=APPLIED, running=True),
    Case("template: disk added", template=swap("<controller", f"{TEMPLATE_DISK}<controller"), found={"devices/disk[vdd]": "cl"}, fate=APPLIED, running=True),
    Case(
        "template: disk on another bus",
        template=swap("<target dev='vdb' bus='virtio'/>", "<target dev='sdb' bus='sata'/>"),
        found={"devices/disk[vdb]": "cl", "devices/disk[sdb]": "cl"},
        fate=APPLIED,
        running=True,
        moves=True,
    ),
    Case("template: the medium", template=swap("one.iso", "two.iso"), found={"devices/disk[sda]/source/@file": "cl"}, fate=APPLIED, running=True),
    Case(
        "template: the medium over a BMC emulator's",
        drop("devices/disk[3]/source"),
        swap("one.iso", "two.iso"),
        found={"devices/disk[sda]/source": "oc"},
        fate=APPLIED,
    ),
    Case(
        "template: video", template=swap("<model type='vga'/>", "<model type='virtio'/>"), found={"devices/video/model/@type": "cl"}, fate=APPLIED, running=True
    ),
    Case(
        "template: graphics on a socket",
        template=swap(ADDRESS, "<graphics type='vnc'><listen type='socket'/></graphics>"),
        found=dict.fromkeys(SCREEN, "cl"),
        fate=APPLIED,
        running=True,
    ),
    Case("template: the disk that another tool added", attach(DISK, CONFIG), swap("<controller", f"{DISK}<controller"), fate=APPLIED),
)
