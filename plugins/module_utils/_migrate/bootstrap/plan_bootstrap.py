# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bootstrap system of a migration with ``boot: pxe``: what is in it, how it is served, what it needs.

The new master's VM boots it over the network. It does one thing: it exports the disks of its
machine, on sockets that only ssh reaches, with one key and by one host key. No secret is served:
keys come on a disk of their own, so whoever reads the served files learns nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import ipaddress
import typing as t
import uuid

#: Kernel modules without which there are no disks or no network, and those that help where there are any.
MODULES = ("virtio_pci", "virtio_blk", "virtio_net")
HELPFUL = ("virtio_rng", "ipv6")
#: Programs of the host that go into it, by the name they have there; modules are loaded by kmod.
PROGRAMS = ("sh", "mount", "ip", "mkdir", "sleep", "kmod", "qemu-nbd", "sshd")
#: What the host needs beside them.
TOOLS = ("nbdfuse", "modprobe", "ldd", "nsenter", "ssh", "ssh-keygen", "systemd-run", *(each for each in PROGRAMS if each != "sh"))
SERVING_TOOLS = ("dnsmasq",)
KERNEL, INITRD, SCRIPT = "vmlinuz", "initrd.img", "boot.ipxe"
ARCHITECTURES = ("x86_64",)

#: A disk of the VM, by its number, and the disk with the keys: serial numbers.
DISK_SERIAL, SEED_SERIAL = "rf-disk-", "rf-seed"
#: Where the bootstrap system exports a disk.
SOCKET = "/run/disk-"
EXPORT = "disk"
_SEED_BYTES = 64 * 1024
# what the kernel says of itself goes to the serial console, where an emulated machine is slow
_KERNEL_LINE = "console=ttyS0 loglevel=4 panic=10"

_INIT = """\
#!/bin/sh
# The bootstrap system of a migration: it exports the disks of this machine through ssh, and nothing else.
export PATH=/bin LD_LIBRARY_PATH=@LIBRARIES@
umask 077
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# whoever copies for long needs no address of a router's
for conf in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do
    echo 0 >"$conf/accept_ra"
    echo 0 >"$conf/accept_dad"
done
while read -r module; do
    insmod "$module" || echo "bootstrap: $module is not to be had"
done </modules
seed=
for device in /sys/block/vd*; do
    serial=
    read -r serial <"$device/serial"
    name=${device##*/}
    case $serial in
    @DISK@*)
        read -r sectors <"$device/size"
        socket=@SOCKET@${serial#@DISK@}
        # one user at a time: what a killed one still had under way is written before the next one comes
        qemu-nbd --format=raw --persistent --shared=1 --cache=none --discard=unmap --export-name=@EXPORT@ "--socket=$socket" "/dev/$name" &
        until [ -S "$socket" ]; do sleep 0.1; done
        echo "disk ${serial#@DISK@} $((sectors * 512))" >>/run/ready
        ;;
    @SEED@) seed=/dev/$name ;;
    esac
done
while IFS= read -r line; do
    case $line in
    "host "*) echo "${line#host }" >>/run/host_key ;;
    "client "*) echo "${line#client }" >>/run/authorized_keys ;;
    end) break ;;
    esac
done <"$seed"
for conf in /proc/sys/net/ipv6/conf/*; do
    echo 0 >"$conf/accept_ra"
    echo 0 >"$conf/accept_dad"
done
for card in /sys/class/net/*; do
    ip link set dev "${card##*/}" up
done
echo "bootstrap: ready"
# left only when ssh ends; the machine then restarts and asks for its system anew
@SSHD@ -D -e -f /etc/ssh/sshd_config
echo "bootstrap: sshd ended"
"""
_READY = """\
#!/bin/sh
while read -r line; do echo "$line"; done </run/ready
"""
# sshd asks the permission for TCP also where a socket is meant; there is nothing else to reach from there
_SSHD_CONFIG = """\
AddressFamily inet6
HostKey /run/host_key
AuthorizedKeysFile /run/authorized_keys
AuthenticationMethods publickey
PermitRootLogin forced-commands-only
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
StrictModes no
PidFile none
AllowTcpForwarding local
AllowStreamLocalForwarding local
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PermitTTY no
MaxSessions 4
ClientAliveInterval 15
ClientAliveCountMax 8
"""
_PASSWD = "root:x:0:0::/:/bin/sh\nsshd:x:74:74::/run/sshd:/bin/false\n"
_GROUP = "root:x:0:\nsshd:x:74:\n"


@dataclasses.dataclass(frozen=True)
class Wire:
    """The network a bootstrap system is served and reached on: a card of a network namespace, on the VM's bridge.

    :arg inner: name of the card in the namespace; ``outer`` of its other end, which is a port of the bridge.
    :arg mac: of ``outer``: high, so that the bridge does not take it for its own.
    :arg server: IPv4 address of the server; ``client`` is the VM's while its firmware loads the system.
    """

    inner: str
    outer: str
    mac: str
    server: str
    client: str
    prefix: int


def wire(vm: str) -> Wire:
    """The names and addresses for a VM's UUID: of their own, and the same in every run.

    The addresses are link-local (169.254.0.0/16), so none of the admin network's has to be chosen.
    """
    mark = hashlib.sha256(vm.encode("ascii")).digest()
    # without the first and last 256 addresses, which are reserved, and the place of clouds' metadata (169.254.169.0/24)
    third = 1 + mark[0] % 253
    base = ipaddress.IPv4Address((169 << 24) | (254 << 16) | ((170 if third == 169 else third) << 8) | (mark[1] & 0xFC))
    name = mark.hex()[:8]
    outer = f"rfb{name}h"
    return Wire(f"rfb{name}", outer, "fe:" + ":".join(f"{each:02x}" for each in mark[2:7]), str(base + 1), str(base + 2), 30)


def link_local(mac: str) -> str:
    """The IPv6 address a card with this MAC gives itself (EUI-64)."""
    octets = [int(each, 16) for each in mac.split(":")]
    octets[0] ^= 2
    words = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    return str(ipaddress.IPv6Address(bytes([0xFE, 0x80, *([0] * 6), *words])))


def stand_in_name(name: str) -> str:
    """Name of the domain that runs the bootstrap system in the VM's place."""
    return f"{name}-bootstrap"


def stand_in_uuid(vm: str) -> str:
    """Its UUID: the same in every run, so that a leftover is found again."""
    return str(uuid.uuid5(uuid.UUID(vm), "bootstrap"))


def unit_name(name: str) -> str:
    """The systemd unit that holds the wire and serves on it."""
    return f"reduced-footprint-pxe-{name}.service"


def files(libraries: t.Iterable[str], modules: t.Iterable[str]) -> dict[str, tuple[int, str]]:
    """The bootstrap system's own files: path → (mode, text).

    :arg libraries: folders in which the programs' libraries lie.
    :arg modules: paths of the kernel modules, in the order they are loaded.
    """
    values = {"LIBRARIES": ":".join(libraries), "DISK": DISK_SERIAL, "SEED": SEED_SERIAL, "SOCKET": SOCKET, "EXPORT": EXPORT, "SSHD": "/usr/sbin/sshd"}
    init = _INIT
    for name, value in values.items():
        init = init.replace(f"@{name}@", value)
    return {
        "/init": (0o755, init),
        "/bin/ready": (0o755, _READY),
        "/modules": (0o644, "".join(f"{each}\n" for each in modules)),
        "/etc/passwd": (0o644, _PASSWD),
        "/etc/group": (0o644, _GROUP),
        "/etc/shadow": (0o600, "root:*:1::::::\nsshd:*:1::::::\n"),
        "/etc/nsswitch.conf": (0o644, "passwd: files\ngroup: files\nshadow: files\n"),
        "/etc/ssh/sshd_config": (0o600, _SSHD_CONFIG),
    }


def places(programs: t.Mapping[str, str]) -> dict[str, str]:
    """Where the host's programs go: path in the bootstrap system → path on the host."""
    found = {f"/bin/{name}": path for name, path in programs.items() if name not in ("sshd", "kmod")}
    # kmod does what it is called, and sshd starts itself anew by its whole name
    found["/bin/insmod"] = programs["kmod"]
    found["/usr/sbin/sshd"] = programs["sshd"]
    return found


def boot_script() -> str:
    """What the VM's firmware (iPXE) reads first."""
    return f"#!ipxe\nkernel {KERNEL} initrd={INITRD} {_KERNEL_LINE}\ninitrd {INITRD}\nboot\n"


def seed(host_key: str, client_key: str) -> bytes:
    """Content of the disk with the keys, padded.

    :arg host_key: private half of the bootstrap system's host key.
    :arg client_key: public half of the one key that may come in; it reaches the exported disks and nothing else.
    """
    lines = [f"host {line}" for line in host_key.strip().splitlines()]
    lines.append(f'client restrict,port-forwarding,command="/bin/ready" {client_key.strip()}')
    return ("\n".join([*lines, "end"]) + "\n").encode("ascii").ljust(_SEED_BYTES, b"\0")


def exported(said: str) -> dict[int, int]:
    """What the bootstrap system says it exports: number of the disk → bytes."""
    words = [line.split() for line in said.splitlines()]
    return {int(each[1]): int(each[2]) for each in words if len(each) == 3 and each[0] == "disk"}


def serve_argv(way: Wire, mac: str, folder: str) -> list[str]:
    """dnsmasq as a server of DHCP and TFTP for one card alone.

    Its offer says to iPXE that it comes before all others and that nobody else needs to be waited for
    (option 175: priority 127, no-pxedhcp), so a DHCP server of the admin network is no rival.
    """
    return [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--port=0", "--pid-file=", "--log-facility=-", "--log-dhcp",
        f"--interface={way.inner}", "--except-interface=lo", "--bind-dynamic", "--leasefile-ro", "--no-ping",
        f"--dhcp-range={way.client},static,{ipaddress.IPv4Network((way.client, way.prefix), strict=False).netmask},10m",
        f"--dhcp-host={mac},{way.client}", "--dhcp-ignore=tag:!known", "--dhcp-option=option:router", "--dhcp-option=option:dns-server",
        "--dhcp-option-force=175,01:01:7f:b0:01:01", f"--dhcp-boot={SCRIPT}", "--enable-tftp", f"--tftp-root={folder}",
    ]  # fmt: skip


def problems(host: t.Mapping[str, t.Any], *, serve: bool, bridge: str | None, vlan: int | None) -> list[tuple[str, str, str]]:
    """What the destination lacks, as message, hint and path.

    :arg host: ``bootstrap`` of the destination's facts: ``tools`` (name → path), ``kernel`` (version or ``None``),
        ``missing_modules``, ``fuse`` (the device), ``rom``, ``arch``.
    :arg bridge: the VM's first card is on it; ``vlan`` is what its details say.
    """
    found = []
    if host["arch"] not in ARCHITECTURES:
        found.append((f"VMs of {host['arch']} cannot be booted so.", "Use boot: image.", "boot"))
    tools = (*TOOLS, *(SERVING_TOOLS if serve else ()))
    missing = [each for each in tools if not host["tools"].get(each)]
    if missing:
        found.append((f"boot: pxe needs {', '.join(missing)} on the destination.", "Install them; the role master_migrate does.", _TOOLS_PATH))
    if not host["fuse"]:
        found.append(("The destination has no /dev/fuse.", "Load its kernel module fuse (modprobe fuse), or use boot: image.", "boot"))
    if host["kernel"] is None:
        hint = "Install its distribution's kernel package there; the role master_migrate does."
        found.append(("The destination has no kernel in /boot with its modules in /lib/modules, and the VM is to boot one.", hint, _TOOLS_PATH))
    elif host["missing_modules"]:
        lacks = ", ".join(host["missing_modules"])
        found.append((f"The destination's kernel {host['kernel']} has no {lacks}.", "Install its distribution's kernel for VMs there.", _TOOLS_PATH))
    if not host["rom"]:
        found.append(("The destination's QEMU has no network boot ROM for virtio cards.", "Install ipxe-qemu or ipxe-roms-qemu there.", _TOOLS_PATH))
    if not host["ipv6"]:
        found.append(("The destination's kernel has no IPv6, over which the bootstrap system is reached.", "Allow IPv6 there, or use boot: image.", "boot"))
    if not bridge:
        found.append(("boot: pxe needs a card on a bridge of the destination.", "Name the bridge of the admin network.", "vm.nics[0].bridge"))
    if vlan is not None and not serve:
        hint = "Leave pxe_serve at true, or let the network tag the frames and leave vlan out."
        found.append((f"A boot ROM does not tag frames, so what the source serves on VLAN {vlan} is not reached.", hint, "vm.nics[0].vlan"))
    return found


# where a problem stands that installing a package fixes
_TOOLS_PATH = "destination.tools"


def unreached(seconds: float, said: t.Sequence[str], *, serve: bool, unit: str, folder: str) -> tuple[str, str]:
    """Why nobody could come in, as message and hint.

    :arg said: the last lines of the VM's console.
    """
    words = f"Its console's last words: {' | '.join(said)}" if said else "Its console said nothing, so it found no boot image."
    if said:
        hint = "Raise boot_timeout where it is merely slow."
    elif serve:
        hint = f"Look at what was asked and answered: journalctl -u {unit}."
    else:
        hint = f"Let the source answer this VM's DHCP with the boot file {SCRIPT}, and serve {SCRIPT}, {KERNEL} and {INITRD} of {folder} by TFTP."
    return f"The bootstrap system did not answer in {seconds:.0f} s. {words}", hint
