# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bootstrap system of a migration with ``boot: pxe``: its content, its boot server and its requirements.

The new master's VM boots it over a network that only this host reaches. It exports the disks of its machine on sockets that are
reachable through ssh only, with one key and one host key. The served files contain no secrets:
the keys are on a separate disk.

What boots from a network that others reach cannot prove what it is. Therefore the system that the source's boot server delivers
runs in a machine without disks and keys.
"""

from __future__ import annotations

import hashlib
import ipaddress
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem

#: Kernel modules required for disks and network, and optional ones.
MODULES = ("virtio_pci", "virtio_blk", "virtio_net")
HELPFUL = ("virtio_rng", "ipv6")
#: Programs of the host that are included, by their name in the bootstrap system; kmod loads the modules.
PROGRAMS = ("sh", "mount", "ip", "mkdir", "sleep", "kmod", "qemu-nbd", "sshd")
#: Programs required on the host.
TOOLS = ("dnsmasq", "nbdfuse", "modprobe", "ldd", "nsenter", "ssh", "ssh-keygen", "systemd-run", *(each for each in PROGRAMS if each != "sh"))
KERNEL, INITRD, SCRIPT = "vmlinuz", "initrd.img", "boot.ipxe"
ARCHITECTURES = ("x86_64",)

#: Serial numbers: prefix for the VM's disks, followed by the disk's number, and the disk with the keys.
DISK_SERIAL, SEED_SERIAL = "rf-disk-", "rf-seed"
#: Where the bootstrap system exports a disk.
SOCKET = "/run/disk-"
EXPORT = "disk"
#: Addresses of the server, and of the VM while its firmware loads the bootstrap system, on a network without others.
SERVER, CLIENT = ipaddress.IPv4Interface("169.254.1.1/30"), ipaddress.IPv4Address("169.254.1.2")
#: What it writes to the console of a machine without keys.
NO_KEYS = "bootstrap: no keys"
_SEED_BYTES = 64 * 1024
# a low log level, because the serial console of an emulated machine is slow
_KERNEL_LINE = "console=ttyS0 loglevel=4 panic=10"

_INIT = """\
#!/bin/sh
# The bootstrap system of a migration: exports the disks of this machine through ssh.
export PATH=/bin LD_LIBRARY_PATH=@LIBRARIES@
umask 077
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# no addresses from router advertisements: they would only expire during a long copy
for conf in /proc/sys/net/ipv6/conf/all /proc/sys/net/ipv6/conf/default; do
    echo 0 >"$conf/accept_ra"
    echo 0 >"$conf/accept_dad"
done
while read -r module; do
    insmod "$module" || echo "bootstrap: cannot load $module"
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
        # one client at a time: pending writes of a killed client are completed before the next one connects
        qemu-nbd --format=raw --persistent --shared=1 --cache=none --discard=unmap --export-name=@EXPORT@ "--socket=$socket" "/dev/$name" &
        until [ -S "$socket" ]; do sleep 0.1; done
        echo "disk ${serial#@DISK@} $((sectors * 512))" >>/run/ready
        ;;
    @SEED@) seed=/dev/$name ;;
    esac
done
if [ -z "$seed" ]; then
    echo "@NO_KEYS@"
    while :; do sleep 60; done
fi
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
# when sshd ends, the machine restarts and boots over the network again
@SSHD@ -D -e -f /etc/ssh/sshd_config
echo "bootstrap: sshd ended"
"""
_READY = """\
#!/bin/sh
while read -r line; do echo "$line"; done </run/ready
"""
# sshd checks the TCP permission for sockets as well; no other service is reachable from there
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


def tap_name(vm: str) -> str:
    """Name of the host end of the machine's card, derived from the UUID of the VM: the same in every run."""
    return f"rfb{hashlib.sha256(vm.encode('ascii')).hexdigest()[:8]}"


def link_local(mac: str) -> str:
    """Return the IPv6 link-local address of a network card with this MAC (EUI-64)."""
    octets = [int(each, 16) for each in mac.split(":")]
    octets[0] ^= 2
    words = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    return str(ipaddress.IPv6Address(bytes([0xFE, 0x80, *([0] * 6), *words])))


def stand_in_name(name: str) -> str:
    """Name of the domain that runs the bootstrap system with the VM's disks."""
    return f"{name}-bootstrap"


def stand_in_uuid(vm: str) -> str:
    """UUID of that domain: the same in every run, so that a leftover is found again."""
    return str(uuid.uuid5(uuid.UUID(vm), "bootstrap"))


def unit_name(name: str) -> str:
    """The systemd unit that holds the network namespace and serves in it."""
    return f"reduced-footprint-pxe-{name}.service"


def files(libraries: t.Iterable[str], modules: t.Iterable[str]) -> dict[str, tuple[int, str]]:
    """Return the bootstrap system's own files: path → (mode, text).

    :arg modules: paths of the kernel modules, in loading order.
    """
    values = {"LIBRARIES": ":".join(libraries), "DISK": DISK_SERIAL, "SEED": SEED_SERIAL, "SOCKET": SOCKET, "EXPORT": EXPORT, "NO_KEYS": NO_KEYS}
    values["SSHD"] = "/usr/sbin/sshd"
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
    """Return the paths of programs: path in the bootstrap system → path on the host."""
    found = {f"/bin/{name}": path for name, path in programs.items() if name not in ("sshd", "kmod")}
    # kmod acts by the name it is called with, and sshd re-executes itself by its absolute path
    found["/bin/insmod"] = programs["kmod"]
    found["/usr/sbin/sshd"] = programs["sshd"]
    return found


def boot_script() -> str:
    """The iPXE script, which the VM's firmware loads first."""
    return f"#!ipxe\nkernel {KERNEL} initrd={INITRD} {_KERNEL_LINE}\ninitrd {INITRD}\nboot\n"


def seed(host_key: str, client_key: str) -> bytes:
    """Return the padded content of the disk with the keys.

    :arg host_key: private half of the bootstrap system's host key.
    :arg client_key: public half of the only accepted key, which reaches the exported disks only.
    """
    lines = [f"host {line}" for line in host_key.strip().splitlines()]
    lines.append(f'client restrict,port-forwarding,command="/bin/ready" {client_key.strip()}')
    return ("\n".join([*lines, "end"]) + "\n").encode("ascii").ljust(_SEED_BYTES, b"\0")


def exported(output: str) -> dict[int, int]:
    """Parse the exported disks that the bootstrap system reports: number of the disk → bytes."""
    words = [line.split() for line in output.splitlines()]
    return {int(each[1]): int(each[2]) for each in words if len(each) == 3 and each[0] == "disk"}


def serve_argv(tap: str, mac: str, folder: str) -> list[str]:
    """Return the command line of dnsmasq as DHCP and TFTP server for one network card; iPXE does not wait for others (option 175: no-pxedhcp)."""
    return [
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--port=0", "--pid-file=", "--log-facility=-", "--log-dhcp",
        f"--interface={tap}", "--except-interface=lo", "--bind-dynamic", "--leasefile-ro", "--no-ping",
        f"--dhcp-range={CLIENT},static,{SERVER.netmask},10m",
        f"--dhcp-host={mac},{CLIENT}", "--dhcp-ignore=tag:!known", "--dhcp-option=option:router", "--dhcp-option=option:dns-server",
        "--dhcp-option-force=175,b0:01:01", f"--dhcp-boot={SCRIPT}", "--enable-tftp", f"--tftp-root={folder}",
    ]  # fmt: skip


def problems(host: t.Mapping[str, t.Any], card: t.Any, *, from_source: bool) -> t.Iterator[Problem]:
    """Return unmet requirements of the destination.

    :arg host: ``bootstrap`` of the destination's facts: ``tools`` (name → path), ``kernel`` (version or ``None``),
        ``missing_modules``, ``fuse`` (the device), ``rom``, ``arch``.
    :arg card: the VM's first network card, with ``bridge`` and ``vlan``.
    :arg from_source: whether the source's boot server is used first.
    """
    if host["arch"] not in ARCHITECTURES:
        yield Problem(f"boot: pxe is not supported on {host['arch']}.", "Use boot: image.", "boot")
    missing = [each for each in TOOLS if not host["tools"].get(each)]
    if missing:
        yield Problem(f"boot: pxe requires {', '.join(missing)} on the destination.", "Install them; the role master_migrate does.", TOOLS_PATH)
    if not host["fuse"]:
        yield Problem("The destination has no /dev/fuse.", "Load its kernel module fuse (modprobe fuse), or use boot: image.", "boot")
    if host["kernel"] is None:
        hint = "Install its distribution's kernel package there; the role master_migrate does."
        yield Problem("The destination has no kernel in /boot with its modules in /lib/modules for the VM to boot.", hint, TOOLS_PATH)
    elif host["missing_modules"]:
        message = f"The destination's kernel {host['kernel']} has no module {', '.join(host['missing_modules'])}."
        yield Problem(message, "Install a kernel of its distribution with virtio modules there.", TOOLS_PATH)
    if not host["rom"]:
        yield Problem("The destination's QEMU has no network boot ROM for virtio cards.", "Install ipxe-qemu or ipxe-roms-qemu there.", TOOLS_PATH)
    if not host["ipv6"]:
        yield Problem("IPv6 is disabled on the destination; the bootstrap system is reached over IPv6.", "Enable IPv6 there, or use boot: image.", "boot")
    if from_source and not card.bridge:
        hint = "Name the bridge of the admin network."
        yield Problem("pxe_from_source requires a network card on a bridge of the destination.", hint, "vm.nics[0].bridge")
    if from_source and card.vlan is not None:
        hint = "Set pxe_from_source to false, or let the network tag the frames and remove vlan."
        yield Problem(f"A boot ROM does not tag frames, so a boot server on VLAN {card.vlan} cannot be reached.", hint, "vm.nics[0].vlan")


def unreached(seconds: float, lines: t.Sequence[str], *, from_source: bool, unit: str, folder: str) -> tuple[str, str]:
    """Return message and hint for a bootstrap system that does not answer.

    :arg lines: the last lines of the VM's console.
    :arg from_source: whether the source's boot server serves it.
    """
    console = f"Last lines of its console: {' | '.join(lines)}" if lines else "Its console is empty, so it found no boot image."
    if lines:
        hint = "Raise boot_timeout if the host is slow."
    elif not from_source:
        hint = f"Check the DHCP and TFTP requests: journalctl -u {unit}."
    else:
        hint = f"Let the DHCP server answer this VM with the boot file {SCRIPT}, and serve {SCRIPT}, {KERNEL} and {INITRD} of {folder} by TFTP."
    return f"The bootstrap system did not answer within {seconds:.0f} s. {console}", hint
