# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Debian server with all network managers installed and none enabled; created once, kept in the cache."""

from __future__ import annotations

import os
import pathlib
import re
import sys
import tempfile
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "network"
sys.path.insert(0, str(ROOT / "lab"))

from rflab import files, images  # noqa: E402
from rflab.say import run  # noqa: E402
from rflab.settings import RELEASES  # noqa: E402

RELEASE = RELEASES[0]

PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "procps", "openssh-server", "python3", "iproute2", "iputils-ping", "netbase",
    "linux-image-cloud-amd64", "initramfs-tools", "qemu-guest-agent",
    "network-manager", "netplan.io", "ifupdown", "ifenslave", "vlan", "bridge-utils", "isc-dhcp-client",
)  # fmt: skip
#: Units that time out during the first minute of an emulated machine.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
    "ModemManager.service", "wpa_supplicant.service", "systemd-timesyncd.service", "getty@tty1.service",
)  # fmt: skip
#: Extracts the seed, a tar archive on the second disk, to the root at the first boot; later boots keep the changes of the server.
FIRST = """\
#!/bin/sh
if [ ! -e /var/lib/seeded ]; then
    tar --extract --file=/dev/vdb --directory=/ --no-overwrite-dir
    touch /var/lib/seeded
fi
exec /usr/lib/systemd/systemd
"""
INITRAMFS = "virtio_pci\nvirtio_blk\next4\n"


class Image:
    """Disk, kernel and initial RAM disk."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.disk = folder / "root.img"
        self.kernel = folder / "vmlinuz"
        self.initrd = folder / "initrd.img"


def build(kind: str = "server", packages: t.Sequence[str] = PACKAGES) -> Image:
    """Return the image of a kind of server from the cache; create it if it is missing."""
    key = images.fingerprint(f"{kind}-1", repr((tuple(packages), MASKED, FIRST, INITRAMFS, images.DPKG_OPTIONS)))
    target = CACHE / f"{kind}-{key}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with images._alone(f"network-{kind}"):
        if not target.exists():
            for old in CACHE.iterdir():
                if re.match(rf"{kind}-[0-9a-f]{{16}}", old.name):
                    files.remove(old)
            _make(target, kind, packages)
    return Image(target)


def _make(target: pathlib.Path, kind: str, packages: t.Sequence[str]) -> None:
    work = CACHE / f"part-{kind}"
    files.remove(work)
    work.mkdir()
    root = work / "root"
    debian(root, packages, INITRAMFS)
    for unit in MASKED:
        files.mask(root, unit)
    files.put(root, "usr/local/sbin/first", FIRST, 0o755)
    files.put(root, "etc/fstab", "/dev/vda / ext4 errors=remount-ro 0 1\n")
    files.put(root, "etc/hostname", "server\n")
    files.put(root, "etc/hosts", "127.0.0.1 localhost server\n")
    # the interface file of the distribution contains the NICs of the installer
    files.put(root, "etc/network/interfaces", "source /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n")
    files.put(root, "etc/ssh/sshd_config.d/proof.conf", "UseDNS no\nUsePAM no\n")
    for name in ("vmlinuz", "initrd.img"):
        found = sorted((root / "boot").glob(f"{name}-*"))[-1]
        os.rename(found, work / name)
    run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "server", "-m", "1", "-d", str(root), str(work / "root.img"), "3G"])
    files.remove(root)
    work.rename(target)


def debian(root: pathlib.Path, packages: t.Sequence[str], modules: str) -> None:
    """Create a Debian root with ``packages``, whose initial RAM disk has ``modules``."""
    main, security = images.sources()
    signed = f"[signed-by={images.KEYRING}] " if os.path.exists(images.KEYRING) else ""
    with tempfile.TemporaryDirectory() as folder:
        early = pathlib.Path(folder, "initramfs-tools")
        files.put(early, "conf.d/driver-policy", "MODULES=list\n")
        files.put(early, "modules", modules)
        argv = [*images.APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
                '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"', "--aptopt=Acquire::Retries \"3\"",
                f"--essential-hook=copy-in {early} /etc", "--include=" + ",".join(packages)]  # fmt: skip
        argv += [f"--dpkgopt={option}" for option in images.DPKG_OPTIONS]
        argv += [RELEASE, str(root), f"deb {signed}{main} {RELEASE} main", f"deb {signed}{main} {RELEASE}-updates main",
                 f"deb {signed}{security} {RELEASE}-security main"]  # fmt: skip
        run(argv, env=dict(os.environ, LC_ALL="C", DEBIAN_FRONTEND="noninteractive"))
    for path in (root / "etc/machine-id", root / "var/lib/dbus/machine-id", root / "etc/resolv.conf"):
        files.remove(path)
    # constant in every run: some managers derive their DHCP identity from it
    files.put(root, "etc/machine-id", "5f0d3a2b9c1e4f768a9b0c1d2e3f4a5b\n")
    files.put(root, "etc/resolv.conf", "")
