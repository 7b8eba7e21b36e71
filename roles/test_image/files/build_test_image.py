# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a test image for a cloud from Debian packages: a kernel, an initramfs with DHCP, metadata, ssh and HTTP, and an empty disk.

The packages are downloaded with apt from the sources of this host and only unpacked, not installed. The manifest is written last, so a build that was
interrupted is repeated.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import tempfile

PACKAGES = ("busybox-static", "dropbear-bin", "libtomcrypt1", "libtommath1", "libgmp10", "libcrypt1", "zlib1g", "libc6")
LIBRARIES = ("libtomcrypt.so.1", "libtommath.so.1", "libgmp.so.10", "libcrypt.so.1", "libz.so.1", "libc.so.6", "libm.so.6")
# in the order in which they are loaded; those that the kernel contains are left out
MODULES = (
    "virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk", "failover", "net_failover", "virtio_net",
)  # fmt: skip
FOLDERS = ("bin", "sbin", "proc", "sys", "dev", "etc/dropbear", "root/.ssh", "lib64", "lib/x86_64-linux-gnu", "tmp", "run", "www", "mod", "usr/sbin")


def run(*argv: str, cwd: pathlib.Path | None = None) -> str:
    return subprocess.run(argv, check=True, cwd=cwd, stdout=subprocess.PIPE, encoding="utf-8").stdout


def kernel_package() -> str:
    """Return the package of the kernel that the metapackage depends on."""
    for line in run("apt-cache", "depends", "linux-image-cloud-amd64").splitlines():
        words = line.split()
        if words[:1] == ["Depends:"] and words[1].startswith("linux-image-"):
            return words[1]
    raise SystemExit("no kernel: apt has no package linux-image-cloud-amd64")


def download(folder: pathlib.Path) -> list[str]:
    """Unpack the packages into ``folder/unpacked``; return their file names."""
    archives, unpacked = folder / "archives", folder / "unpacked"
    archives.mkdir()
    # apt drops its privileges for downloads, and reports it if it cannot
    run("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *PACKAGES, kernel_package(), cwd=archives)
    for archive in sorted(archives.glob("*.deb")):
        run("dpkg-deb", "--extract", str(archive), str(unpacked))
    return sorted(path.name for path in archives.glob("*.deb"))


def find(folder: pathlib.Path, name: str) -> pathlib.Path:
    found = sorted(path for path in folder.rglob(name) if path.is_file())
    if not found:
        raise SystemExit(f"no {name} in the packages")
    return found[0].resolve()


def root(folder: pathlib.Path, init: str) -> pathlib.Path:
    """Create the tree of the initramfs."""
    unpacked, top = folder / "unpacked", folder / "root"
    for name in FOLDERS:
        (top / name).mkdir(parents=True)
    shutil.copy(find(unpacked, "busybox"), top / "bin/busybox")
    for name in run(str(top / "bin/busybox"), "--list").split():
        if name != "busybox":
            os.symlink("busybox", top / "bin" / name)
    for name in ("dropbear", "dropbearkey"):
        shutil.copy(find(unpacked, name), top / "usr/sbin" / name)
    for name in LIBRARIES:
        shutil.copy(find(unpacked, name), top / "lib/x86_64-linux-gnu" / name)
    shutil.copy(find(unpacked, "ld-linux-x86-64.so.2"), top / "lib64/ld-linux-x86-64.so.2")
    for name in MODULES:
        for path in unpacked.rglob(f"{name}.ko*"):
            data = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
            (top / "mod" / f"{MODULES.index(name)}-{name}.ko").write_bytes(data)
    (top / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (top / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (top / "etc/group").write_text("root:x:0:\n")
    (top / "etc/shells").write_text("/bin/sh\n")
    (top / "etc/udhcpc.sh").write_text(DHCP)
    (top / "init").write_text(init)
    for name in ("init", "etc/udhcpc.sh", "bin/busybox"):
        (top / name).chmod(0o755)
    return top


def archive(top: pathlib.Path) -> bytes:
    """Return the tree as an archive in the format that kernels read, with fixed times and numbers."""
    parts = []
    paths = sorted(top.rglob("*"))
    for number, path in enumerate([*paths, None], 1):
        name = path.relative_to(top).as_posix() if path else "TRAILER!!!"
        status = path.lstat() if path else None
        data = b"" if not path or path.is_dir() else os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        fields = [number, status.st_mode if status else 0, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        header = ("070701" + "".join(f"{value:08X}" for value in fields) + name + "\0").encode()
        parts += [header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)]
    return b"".join(parts)


DHCP = """\
#!/bin/sh
case $1 in
deconfig) ip addr flush dev $interface; ip link set $interface up ;;
bound | renew)
    ip addr flush dev $interface
    ip addr add $ip/$mask dev $interface
    [ -z "$mtu" ] || ip link set $interface mtu $mtu
    set -- $staticroutes
    while [ $# -ge 2 ]; do
        if [ "$2" = 0.0.0.0 ]; then ip route add $1 dev $interface; else ip route add $1 via $2 dev $interface; fi
        shift 2
    done
    [ -z "$router" ] || ip route replace default via ${router%% *}
    for server in $dns; do echo nameserver $server; done >/etc/resolv.conf
    echo "test-image: address $ip/$mask"
    ;;
esac
"""
INIT = """\
#!/bin/sh
export PATH=/bin:/sbin:/usr/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/pts; mount -t devpts pts /dev/pts
for module in $(ls /mod | sort -n); do insmod /mod/$module; done
ip link set lo up
tries=0; while [ ! -e /sys/class/net/eth0 ] && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
ip link set eth0 up
udhcpc -i eth0 -s /etc/udhcpc.sh -O mtu -O staticroutes -t 8 -T 2 -A 3 -b -S
meta=http://169.254.169.254; tries=0
while [ $tries -lt ${metadata_tries:-15} ]; do
    timeout 5 wget -q -O /www/meta_data.json $meta/openstack/latest/meta_data.json && break
    tries=$((tries + 1)); sleep 1
done
: >/root/.ssh/authorized_keys
timeout 5 wget -q -O /root/.ssh/authorized_keys $meta/latest/meta-data/public-keys/0/openssh-key
name=$(sed -n 's/.*"hostname": "\\([^".]*\\).*/\\1/p' /www/meta_data.json); hostname ${name:-test-image}
chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys
echo "hello from $(hostname)" >/www/index.html; httpd -h /www
dropbearkey -t ed25519 -f /etc/dropbear/dropbear_ed25519_host_key >/dev/null 2>&1
# keys only, no passwords
dropbear -r /etc/dropbear/dropbear_ed25519_host_key -s
echo "test-image: $(hostname) ready at $(cut -d' ' -f1 /proc/uptime) s, key $(wc -c </root/.ssh/authorized_keys) bytes"
while :; do sleep 3600; done
"""


def without_boot_signature(kernel: bytes) -> bytes:
    """Return a kernel without the signature of a boot sector, which QEMU does not need.

    With it, Nova takes a kernel for a disk with an invalid partition table when it migrates an instance live, and refuses it.
    """
    return kernel[:510] + bytes(2) + kernel[512:] if kernel[510:512] == b"\x55\xaa" else kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=pathlib.Path, help="directory for the files")
    parser.add_argument("name", help="beginning of the names of the files")
    wanted = parser.parse_args()
    wanted.directory.mkdir(parents=True, exist_ok=True)
    os.environ["LC_ALL"] = "C"
    with tempfile.TemporaryDirectory(prefix=".build-", dir=wanted.directory) as place:
        folder = pathlib.Path(place)
        packages = download(folder)
        made = {
            "vmlinuz": without_boot_signature(find(folder / "unpacked", "vmlinuz-*").read_bytes()),
            "initrd": gzip.compress(archive(root(folder, INIT)), 6, mtime=0),
            # the servers boot from kernel and initramfs, but Nova requires a disk
            "raw": bytes(1 << 20),
        }
        manifest = {"packages": packages, "sha512": {end: hashlib.sha512(data).hexdigest() for end, data in made.items()}}
        for end, data in {**made, "json": (json.dumps(manifest, indent=2) + "\n").encode()}.items():
            (folder / end).write_bytes(data)
            # a power loss must not leave the manifest of files that were not written
            os.sync()
            os.replace(folder / end, wanted.directory / f"{wanted.name}.{end}")


if __name__ == "__main__":
    main()
