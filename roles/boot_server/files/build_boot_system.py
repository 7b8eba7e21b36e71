# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a small Debian that runs in memory: a kernel, and the whole system as its initial RAM disk.

It is installed from distribution packages and contains the public keys of the operators, no secret and no host key: each boot generates its own.
The manifest is written last, so a build that was interrupted is repeated.
"""

from __future__ import annotations

import argparse
import fcntl
import fnmatch
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "procps", "netbase", "openssh-server", "python3", "python3-apt", "linux-image-amd64",
    "dmidecode", "pciutils", "efibootmgr", "lldpd", "lvm2", "mdadm", "fdisk", "gdisk", "parted", "dosfstools", "e2fsprogs", "qemu-utils", "zstd",
)  # fmt: skip
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
#: Parts of the kernel that a server does not need to be inspected and installed.
UNUSED = (
    "sound", "lib/test_*", "fs/9p", "fs/afs", "fs/befs", "fs/bfs", "fs/btrfs", "fs/ceph", "fs/coda", "fs/dlm", "fs/erofs", "fs/exfat", "fs/f2fs",
    "fs/gfs2", "fs/hfs*", "fs/jffs2", "fs/jfs", "fs/ksmbd", "fs/lockd", "fs/minix", "fs/nfs*", "fs/nilfs2", "fs/ntfs*", "fs/ocfs2", "fs/orangefs",
    "fs/reiserfs", "fs/smb", "fs/squashfs", "fs/sysv", "fs/ubifs", "fs/udf", "fs/ufs", "fs/zonefs", "net/6lowpan", "net/ax25", "net/batman-adv",
    "net/bluetooth", "net/can", "net/ceph", "net/dccp", "net/ieee802154", "net/l2tp", "net/mac80211", "net/mac802154", "net/netfilter", "net/netrom",
    "net/nfc", "net/openvswitch", "net/rds", "net/rose", "net/rxrpc", "net/sched", "net/sctp", "net/smc", "net/sunrpc", "net/tipc", "net/wireless",
    "net/xfrm", "drivers/accessibility", "drivers/bluetooth", "drivers/comedi", "drivers/crypto", "drivers/extcon", "drivers/firewire",
    "drivers/gnss", "drivers/gpu", "drivers/hid", "drivers/hwmon", "drivers/iio", "drivers/infiniband", "drivers/input", "drivers/isdn",
    "drivers/leds", "drivers/media", "drivers/memstick", "drivers/mmc", "drivers/mtd", "drivers/net/can", "drivers/net/ieee802154",
    "drivers/net/wireless", "drivers/net/wwan", "drivers/nfc", "drivers/parport", "drivers/pcmcia", "drivers/platform", "drivers/power",
    "drivers/staging", "drivers/target", "drivers/usb/gadget", "drivers/usb/misc", "drivers/usb/serial", "drivers/video",
)  # fmt: skip
REMOVED = (
    "boot", "usr/lib/firmware/amdgpu", "usr/lib/firmware/i915", "usr/share/bash-completion", "usr/share/zoneinfo", "usr/share/perl", "usr/lib/udev/hwdb.d",
    "usr/lib/udev/hwdb.bin", "usr/share/misc/pci.ids", "usr/share/i18n", "var/cache/apt", "var/lib/apt/lists", "var/cache/debconf", "var/log",
    "usr/lib/x86_64-linux-gnu/perl",
)  # fmt: skip
#: Units that an inspection does not need; some of them wait for what a system in memory does not have.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
    "systemd-firstboot.service", "systemd-networkd-wait-online.service", "systemd-pcrphase.service", "systemd-update-utmp.service",
    "mdadm-shutdown.service", "mdcheck_start.timer", "mdcheck_continue.timer", "mdmonitor-oneshot.timer",
)  # fmt: skip
MARK = "etc/reduced.footprint/boot-system.json"
NIC = """\
[Unit]
Description=Use DHCP on the network card that booted
DefaultDependencies=no
After=systemd-remount-fs.service
Before=systemd-networkd.service

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /usr/lib/reduced.footprint/boot-nic

[Install]
WantedBy=sysinit.target
"""
BOOT_NIC = """\
import pathlib, re

found = re.search(r"\\bfootprint\\.mac=([0-9a-f:]{17})", pathlib.Path("/proc/cmdline").read_text().lower())
target = pathlib.Path("/run/systemd/network/10-boot.network")
target.parent.mkdir(parents=True, exist_ok=True)
which = f"PermanentMACAddress={found[1]}" if found else "Type=ether"
target.write_text(f"[Match]\\n{which}\\n\\n[Network]\\nDHCP=ipv4\\n\\n[DHCPv4]\\nClientIdentifier=mac\\n")
"""
#: A link is reported only of a card that is up.
OTHER_NICS = "[Match]\nType=ether\n\n[Network]\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
SSHD = "PasswordAuthentication no\nUseDNS no\n"
KEYS = "[Service]\nExecStartPre=\nExecStartPre=/usr/bin/ssh-keygen -A\nExecStartPre=/usr/sbin/sshd -t\n"


def put(root: pathlib.Path, name: str, text: str, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(mode)


def install(root: pathlib.Path, work: pathlib.Path, wanted: argparse.Namespace) -> None:
    """Install the packages into ``root``."""
    early = work / "early"
    # the initial RAM disk of the package would take minutes, and is not used
    put(early, "initramfs-tools/update-initramfs.conf", "update_initramfs=no\n")
    argv = ["mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", f"--components={wanted.components}"]
    argv += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"']
    argv += [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    argv += ["--dpkgopt=force-unsafe-io", "--dpkgopt=force-confold", f"--essential-hook=copy-in {early}/initramfs-tools /etc"]
    argv += [f"--include={','.join([*PACKAGES, *wanted.package])}", wanted.release, str(root), *wanted.source]
    # its mounts and processes end with it, also if it is killed
    apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*apart, *argv], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment)


def unused(needs: dict[str, list[str]]) -> set[str]:
    """Return the modules of ``UNUSED`` that no other module needs.

    :arg needs: module → all modules that it needs, directly or not.
    """
    gone = {name for name in needs if any(fnmatch.fnmatchcase(name, f"kernel/{pattern}{end}") for pattern in UNUSED for end in ("", "/*"))}
    return gone - {each for name in needs if name not in gone for each in needs[name]}


def strip(root: pathlib.Path) -> None:
    """Remove what is not needed, and everything that must not be the same on all servers."""
    for modules in (root / "usr/lib/modules").iterdir():
        lines = (line.partition(":") for line in (modules / "modules.dep").read_text("utf-8").splitlines())
        for name in unused({name: rest.split() for name, _colon, rest in lines}):
            (modules / name).unlink()
        subprocess.run(["depmod", "--basedir", str(root), modules.name], check=True)
    for name in REMOVED:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
            # empty: services expect them
            path.mkdir()
        elif path.exists():
            path.unlink()
    for path in [*root.glob("etc/ssh/ssh_host_*"), *root.glob("var/lib/dbus/machine-id"), *root.glob("etc/resolv.conf")]:
        path.unlink()


def configure(root: pathlib.Path, wanted: argparse.Namespace) -> None:
    """Write the configuration of the system."""
    put(root, "etc/machine-id", "")
    put(root, "etc/hostname", "discovery\n")
    put(root, "etc/hosts", "127.0.0.1 localhost\n127.0.1.1 discovery\n")
    put(root, "etc/fstab", "")
    put(root, "etc/ssh/sshd_config.d/boot-system.conf", SSHD)
    put(root, "etc/systemd/system/ssh.service.d/keys.conf", KEYS)
    put(root, "etc/systemd/system/footprint-boot-nic.service", NIC)
    put(root, "usr/lib/reduced.footprint/boot-nic", BOOT_NIC)
    put(root, "etc/systemd/network/90-other.network", OTHER_NICS)
    put(root, "etc/lvm/lvmlocal.conf", "activation {\n    auto_activation_volume_list = []\n}\n")
    put(root, "etc/mdadm/mdadm.conf", "AUTO -all\n")
    (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    put(root, "root/.ssh/authorized_keys", "".join(f"{key}\n" for key in wanted.key), 0o600)
    for unit in MASKED:
        (root / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    subprocess.run(["systemctl", "--root", str(root), "enable", "systemd-networkd.service", "footprint-boot-nic.service", "lldpd.service", "ssh.service"],
                   check=True, stdin=subprocess.DEVNULL, capture_output=True)  # fmt: skip
    put(root, MARK, json.dumps({"release": wanted.release}) + "\n")
    if not (root / "init").is_symlink():
        (root / "init").symlink_to("usr/lib/systemd/systemd")


def pack(root: pathlib.Path, target: pathlib.Path) -> None:
    """Write the tree as an archive in the format that kernels read."""
    with target.open("wb") as out, subprocess.Popen(["find", ".", "-print0"], cwd=root, stdout=subprocess.PIPE) as names:
        archive = ["cpio", "--null", "--create", "--format=newc", "--quiet", "--reproducible"]
        with subprocess.Popen(archive, cwd=root, stdin=names.stdout, stdout=subprocess.PIPE) as packed:
            subprocess.run(["zstd", "--quiet", "-12", "--threads=0", "--stdout"], stdin=packed.stdout, stdout=out, check=True)
        if packed.returncode:
            raise SystemExit(f"cpio ended with exit code {packed.returncode}")


def digest(path: pathlib.Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def build(wanted: argparse.Namespace) -> None:
    """Build the system beside the directory, which is served, and move its files there."""
    for left in wanted.directory.parent.glob(".build-*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=wanted.directory.parent) as place:
        work = pathlib.Path(place)
        work.chmod(0o755)
        root = work / "root"
        install(root, work, wanted)
        kernel = sorted((root / "boot").glob("vmlinuz-*"))[-1]
        shutil.copyfile(kernel, work / "vmlinuz")
        release = kernel.name.partition("-")[2]
        strip(root)
        configure(root, wanted)
        unpacked = sum(path.lstat().st_blocks * 512 for path in root.rglob("*"))
        pack(root, work / "initrd")
        made = {name: {"sha256": digest(work / name), "size": (work / name).stat().st_size} for name in ("vmlinuz", "initrd")}
        record = f"manifest-{wanted.inputs}.json"
        (work / record).write_text(json.dumps({"kernel": release, "unpacked": unpacked, "files": made}, indent=2) + "\n", "utf-8")
        # a power loss must not leave the manifest of files that were not written
        os.sync()
        for old in wanted.directory.glob("manifest-*.json"):
            old.unlink()
        for name in ("vmlinuz", "initrd", record):
            (work / name).chmod(0o644)
            os.replace(work / name, wanted.directory / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path, help="directory for the files vmlinuz, initrd and manifest-INPUTS.json")
    parser.add_argument("--release", required=True, help="release of Debian")
    parser.add_argument("--components", default="main", help="components of the archive, separated by commas")
    parser.add_argument("--source", action="append", default=[], help="line of sources.list; default is the archive of Debian")
    parser.add_argument("--package", action="append", default=[], help="additional package")
    parser.add_argument("--key", action="append", required=True, help="public ssh key of an operator")
    parser.add_argument("--inputs", required=True, help="hash of what the system is built from")
    wanted = parser.parse_args()
    wanted.directory.mkdir(parents=True, exist_ok=True)
    # a build whose caller was killed may still be running
    with (wanted.directory.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (wanted.directory / f"manifest-{wanted.inputs}.json").exists():
            build(wanted)


if __name__ == "__main__":
    main()
