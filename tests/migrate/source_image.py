# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An NVMe disk with a Debian on LVM that is started by UEFI firmware, as created by an installer.

This machine's kernel may have no device mapper, so a machine under QEMU installs it, from a root
made here. Made once, kept in the cache.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

# behind our own: it has a conftest too
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "network"))

from server_image import MASKED, ROOT, debian  # noqa: E402

sys.path.insert(0, str(ROOT / "lab"))

from rflab import files, images  # noqa: E402
from rflab.say import run  # noqa: E402

CACHE = ROOT / ".cache" / "migrate"
PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "procps", "openssh-server", "python3", "iproute2", "iputils-ping", "netbase", "rsync",
    "linux-image-cloud-amd64", "initramfs-tools", "lvm2", "xfsprogs", "dosfstools", "e2fsprogs", "fdisk", "grub-efi-amd64-bin", "grub2-common",
    "libcap2-bin", "qemu-guest-agent", "podman", "busybox-static",
)  # fmt: skip
# what the installing machine itself starts from
MODULES = "virtio_pci\nvirtio_blk\next4\n"
DISK = "4G"
UNITS = {
    # what the master serves: it writes all the time, and answers with what it wrote
    "etc/systemd/system/proof-writer.service": (
        "[Service]\nExecStart=/usr/bin/python3 /srv/proof/writer.py\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "srv/proof/writer.py": """\
import http.server, os, threading, time
PATH = "/var/lib/proof/numbers"
os.makedirs(os.path.dirname(PATH), exist_ok=True)
def write():
    number = len(open(PATH).read().split()) if os.path.exists(PATH) else 0
    while True:
        with open(PATH, "a") as stream:
            stream.write(f"{number}\\n")
            stream.flush()
            os.fsync(stream.fileno())
        number += 1
        time.sleep(0.5)
threading.Thread(target=write, daemon=True).start()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = open(PATH, "rb").read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *unused):
        pass
http.server.ThreadingHTTPServer(("", 8080), Answer).serve_forever()
""",
    # a database on a volume without a file system: it writes past the page cache, and continues after the highest number
    "etc/systemd/system/proof-raw.service": (
        "[Service]\nExecStart=/usr/bin/python3 /srv/proof/raw.py\nRestart=always\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "srv/proof/raw.py": """\
import mmap, os, time
SIZE = 4096
disk = os.open("/dev/vg0/raw", os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
slots = os.lseek(disk, 0, os.SEEK_END) // SIZE
block, last = mmap.mmap(-1, SIZE), 0
for slot in range(slots):
    os.preadv(disk, [block], slot * SIZE)
    last = max(last, int.from_bytes(block[:8], "big"))
while True:
    last += 1
    block[:] = last.to_bytes(8, "big") * (SIZE // 8)
    os.pwritev(disk, [block], last % slots * SIZE)
    time.sleep(0.5)
""",
    # a container with a volume; the network is that of the host, as there is none else in this image
    "srv/proof/container": """\
set -e
mkdir -p /tmp/image/bin /tmp/image/data
cp /bin/busybox /tmp/image/bin/
ln -s busybox /tmp/image/bin/sh
tar --create --directory=/tmp/image . | podman import --quiet - proof:1
podman run --detach --name counter --network host --volume counter:/data proof:1 /bin/sh -c '
trap exit TERM
n=$(busybox wc -l </data/numbers) || n=0
while :; do echo $n >>/data/numbers; busybox sync; n=$((n + 1)); busybox sleep 1; done'
""",
    # the network is not known when the image is created: the DMI data of the machine contain the address
    "etc/systemd/system/proof-address.service": (
        "[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\nBefore=systemd-networkd.service\n"
        "ConditionPathExists=!/etc/systemd/network/20-admin.network\n\n"
        "[Service]\nType=oneshot\nExecStart=/bin/sh /srv/proof/address\n\n[Install]\nWantedBy=multi-user.target\n"
    ),
    "srv/proof/address": """\
read -r net < /sys/class/dmi/id/product_serial
mac=$(cat /sys/class/net/en*/address)
cat > /etc/systemd/network/20-admin.network <<END
[Match]
MACAddress=$mac
Type=ether

[Network]
Address=$net.5/24
Address=$net.7/24
Address=2001:db8:5::5/64
Gateway=$net.1
END
""",
    # an emulated machine next to other work: its disks may appear after more than systemd's 90 s
    "etc/systemd/system.conf.d/slow.conf": "[Manager]\nDefaultDeviceTimeoutSec=600\nDefaultTimeoutStartSec=600\n",
    # a sensor's service: it would fail in a machine without that hardware
    "etc/systemd/system/smartd.service": "[Service]\nExecStart=/bin/true\nRemainAfterExit=yes\n\n[Install]\nWantedBy=multi-user.target\n",
    "etc/default/grub": (
        'GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\nGRUB_DISTRIBUTOR=Debian\nGRUB_CMDLINE_LINUX_DEFAULT="quiet mitigations=off"\n'
        'GRUB_CMDLINE_LINUX="console=ttyS0 resume=/dev/mapper/vg0-swap"\n'
    ),
}
INSTALL = """\
#!/bin/sh
set -eux
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
# the initial RAM disk hands over what it has mounted
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
mountpoint -q /dev || mount -t devtmpfs dev /dev
mountpoint -q /run || mount -t tmpfs tmp /run
mount -t tmpfs tmp /tmp
modprobe -a nvme xfs dm_mod vfat nls_cp437 nls_ascii
/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add
udevadm settle
sfdisk --quiet /dev/nvme0n1 <<END
label: gpt
size=64MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B
size=256MiB, type=0FC63DAF-8483-4772-8E79-3D69D8477DE4
type=E6D6D379-F507-44C2-A23C-238F2A3DF928
END
udevadm settle
vgcreate --quiet vg0 /dev/nvme0n1p3
lvcreate --quiet --yes --size 1900M --name root vg0
lvcreate --quiet --yes --size 1200M --name var vg0
lvcreate --quiet --yes --size 128M --name swap vg0
lvcreate --quiet --yes --size 40M --name raw vg0
udevadm settle
mkfs.vfat /dev/nvme0n1p1
mkfs.ext4 -q /dev/nvme0n1p2
mkfs.xfs -q /dev/vg0/root
mkfs.xfs -q /dev/vg0/var
mkswap -q /dev/vg0/swap
to=/mnt
mount /dev/vg0/root $to
mkdir $to/boot $to/var
mount /dev/nvme0n1p2 $to/boot
mkdir $to/boot/efi
mount /dev/nvme0n1p1 $to/boot/efi
mount /dev/vg0/var $to/var
udevadm trigger --action=change
udevadm settle
tar --create --one-file-system --xattrs --xattrs-include='*' --directory=/ --exclude=./mnt --exclude=./usr/local/sbin/install . |
    tar --extract --xattrs --xattrs-include='*' --directory=$to
mkdir -p $to/mnt
cat > $to/etc/fstab <<END
/dev/mapper/vg0-root / xfs defaults 0 0
UUID=$(blkid -s UUID -o value /dev/nvme0n1p2) /boot ext4 defaults 0 2
UUID=$(blkid -s UUID -o value /dev/nvme0n1p1) /boot/efi vfat umask=0077 0 1
/dev/mapper/vg0-var /var xfs defaults 0 0
/dev/mapper/vg0-swap none swap sw 0 0
END
for each in dev proc sys run; do mount --rbind /$each $to/$each; done
rm -f $to/etc/initramfs-tools/conf.d/driver-policy
echo "RESUME=/dev/mapper/vg0-swap" > $to/etc/initramfs-tools/conf.d/resume
# the drivers of this very machine and no others, as many a distribution has it
echo "MODULES=dep" > $to/etc/initramfs-tools/conf.d/dep
: > $to/etc/initramfs-tools/modules
chroot $to update-initramfs -c -k all
chroot $to grub-install --target=x86_64-efi --efi-directory=/boot/efi --no-nvram --removable
chroot $to grub-mkconfig -o /boot/grub/grub.cfg
chroot $to systemctl enable proof-address.service proof-writer.service proof-raw.service smartd.service systemd-networkd.service ssh.service
rm -f $to/etc/network/interfaces
sync
echo INSTALLED > /dev/ttyS0
umount -R $to || true
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


def build() -> pathlib.Path:
    """Return the disk from the cache; create it if it is missing."""
    key = images.fingerprint("source-1", repr((PACKAGES, MASKED, MODULES, DISK, UNITS, INSTALL, images.DPKG_OPTIONS)))
    target = CACHE / f"source-{key}.img"
    CACHE.mkdir(parents=True, exist_ok=True)
    with images._alone("migrate-source"):
        if not target.exists():
            for old in CACHE.iterdir():
                if re.match(r"source-[0-9a-f]{16}", old.name):
                    files.remove(old)
            _make(target)
    return target


def _make(target: pathlib.Path) -> None:
    work = CACHE / "part-source"
    files.remove(work)
    work.mkdir()
    root = work / "root"
    debian(root, PACKAGES, MODULES)
    for unit in MASKED:
        files.mask(root, unit)
    for name, text in UNITS.items():
        files.put(root, name, text)
    files.put(root, "usr/local/sbin/install", INSTALL, 0o755)
    files.put(root, "etc/hostname", "oldmaster\n")
    files.put(root, "etc/hosts", "127.0.0.1 localhost oldmaster\n")
    files.put(root, "etc/ssh/sshd_config.d/proof.conf", "UseDNS no\n")
    files.put(root, "root/.ssh/authorized_keys", images.public_key(), 0o600)
    os.chmod(root / "root/.ssh", 0o700)
    kernel, initrd = (sorted((root / "boot").glob(f"{name}-*"))[-1] for name in ("vmlinuz", "initrd.img"))
    for each, name in ((kernel, "vmlinuz"), (initrd, "initrd.img")):
        (work / name).write_bytes(each.read_bytes())
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-m", "1", "-d", str(root), str(work / "root.img"), "3G"])
    files.remove(root)
    run(["truncate", "--size", DISK, str(work / "disk.img")])
    argv = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-smp", "2", "-cpu", "max", "-m", "1024", "-nodefaults", "-no-user-config", "-display", "none",
        "-no-reboot", "-serial", f"file:{work / 'console.log'}", "-kernel", str(work / "vmlinuz"), "-initrd", str(work / "initrd.img"),
        "-append", "root=/dev/vda rw console=ttyS0 init=/usr/local/sbin/install mitigations=off panic=-1 quiet",
        "-drive", f"file={work / 'root.img'},format=raw,if=virtio,cache=unsafe",
        "-drive", f"file={work / 'disk.img'},format=raw,if=none,id=new,cache=unsafe", "-device", "nvme,serial=proof,drive=new",
    ]  # fmt: skip
    subprocess.run(["setpriv", "--pdeathsig", "KILL", *argv], check=True, timeout=1200, stdin=subprocess.DEVNULL)
    said = (work / "console.log").read_text(errors="replace")
    assert "INSTALLED" in said, said[-4000:]
    (work / "disk.img").rename(target)
    files.remove(work)
