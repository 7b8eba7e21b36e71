# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Package pool, roots and images, created once and kept in the cache.

Everything is built from one pool of .debs, which the lab's mirror also serves: the machines use exactly the downloaded packages and
have no access to the internet.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import typing as t
from contextlib import contextmanager

from . import files
from .say import LabError, run, step
from .settings import CACHE, FILES, LAB_DIR, RELEASES, Lab

# Name of the guests' LXC root on the mirror.
ROOT_IMAGE = "debian-root.tar"
DEFAULT_MIRROR = "http://deb.debian.org/debian"
DEFAULT_SECURITY = "http://deb.debian.org/debian-security"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# No documentation and translations in the machines: smaller and faster.
DPKG_OPTIONS = ("force-unsafe-io", "path-exclude=/usr/share/man/*", "path-exclude=/usr/share/doc/*",
                "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/info/*")
# Mounts and processes of a build end with it, also if it is killed.
APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")


def packages(release: str) -> dict[str, list[str]]:
    """Return ``packages.txt`` by section; ``[mirror trixie]`` belongs to ``mirror`` of this release only."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in (LAB_DIR / "packages.txt").read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            section, _space, only = line.strip("[]").partition(" ")
            section = "" if only and only != release else section
        elif line and section:
            found.setdefault(section, []).append(line)
    return found


def sources() -> tuple[str, str]:
    """Return the addresses of Debian and its security archive that this machine uses."""
    main, security = DEFAULT_MIRROR, DEFAULT_SECURITY
    homes = [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]
    for home in homes:
        if home.suffix not in (".list", ".sources") or not home.is_file():
            continue
        text = re.sub(r"(?m)^\s*#.*$", "", home.read_text(errors="replace"))
        for uri in re.findall(r"(?:https?|file|copy)://[^\s\]]+", text):
            uri = uri.rstrip("/")
            if re.search(r"/debian$", uri):
                main = uri
            elif re.search(r"/debian-security$", uri):
                security = uri
    return main, security


def fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _tree_text(*names: str) -> str:
    texts = []
    for name in names:
        for path in sorted((FILES / name).rglob("*")):
            if path.is_file():
                texts.append(f"{path.relative_to(FILES)}\n{path.read_text()}")
    return "\n".join(texts)


class Cache:
    """Paths in the cache for one release of Debian; a path exists only when it is complete."""

    def __init__(self, release: str) -> None:
        listed = packages(release)
        self.release = release
        pool_key = fingerprint("pool-1", release, repr(sorted(listed.items())))
        self.pool = CACHE / f"debs-{pool_key}"
        base_key = fingerprint(pool_key, "base-1", repr(DPKG_OPTIONS))
        self.base = CACHE / f"base-{base_key}"
        self.laptop = CACHE / f"laptop-{fingerprint(base_key, 'laptop-2', (FILES / 'laptop-setup.sql').read_text())}"
        self.base_key = base_key
        self.listed = listed

    def guest_tar(self, lab: Lab) -> pathlib.Path:
        key = fingerprint(self.base_key, "guest-2", lab.mirror_url, _tree_text("guest", "debian"), public_key())
        return CACHE / f"guest-{key}.tar"

    def clean(self, lab: Lab, also: t.Iterable[pathlib.Path] = ()) -> None:
        """Remove files of earlier versions of the lists and files; only while no lab uses the cache."""
        keep = {path.name for path in also}
        for one in map(Cache, RELEASES):
            keep |= {path.name for path in (one.pool, one.base, one.laptop, one.guest_tar(lab))} | {f"{one.guest_tar(lab).name}.sha256"}
        for path in CACHE.iterdir():
            if re.match(r"(debs|base|laptop|guest|cloud|cloudroot)-[0-9a-f]{16}", path.name) and path.name not in keep:
                files.remove(path)


def public_key() -> str:
    """Return the lab's public ssh key, which is in the cache because cached roots authorize it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    key = CACHE / "id_ed25519"
    with _alone("key"):
        if not key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "reduced.footprint lab", "-f", str(key)])
    return (CACHE / "id_ed25519.pub").read_text()


@contextmanager
def _alone(kind: str) -> t.Iterator[None]:
    """Lock a part of the cache, which several labs share."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"lock-{kind}", "w", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _once(kind: str, path: pathlib.Path, title: str, make: t.Callable[[], None]) -> None:
    if path.exists():
        return
    with _alone(kind):
        if not path.exists():
            with step(title):
                make()


def build_pool(cache: Cache) -> None:
    _once("pool", cache.pool, "downloading packages", lambda: _pool(cache))


def build_base(cache: Cache) -> None:
    _once("base", cache.base, "building the minimal root", lambda: _base(cache))


def build_laptop(cache: Cache) -> None:
    _once("laptop", cache.laptop, "building the laptop's disks", lambda: _laptop(cache))


def build_guest(cache: Cache, lab: Lab) -> pathlib.Path:
    target = cache.guest_tar(lab)
    _once("guest", target, "packing the guests' root", lambda: _guest(cache, lab, target))
    return target


def _apt_environment(home: pathlib.Path, release: str) -> dict[str, str]:
    for part in ("state/lists/partial", "cache/archives/partial"):
        (home / part).mkdir(parents=True)
    (home / "status").write_text("")
    main, security = sources()
    signed = f"[signed-by={KEYRING}] " if os.path.exists(KEYRING) else ""
    (home / "sources.list").write_text(
        f"deb {signed}{main} {release} main\ndeb {signed}{main} {release}-updates main\n"
        f"deb {signed}{security} {release}-security main\n")
    (home / "apt.conf").write_text(f"""
Dir::State "{home}/state";
Dir::State::status "{home}/status";
Dir::Cache "{home}/cache";
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Sandbox::User "root";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
""")
    return dict(os.environ, APT_CONFIG=str(home / "apt.conf"), LC_ALL="C", DEBIAN_FRONTEND="noninteractive")


def _pool(cache: Cache) -> None:
    """Download all listed packages with all dependencies, independent of installed packages."""
    work = CACHE / "part-pool"
    files.remove(work)
    work.mkdir()
    env = _apt_environment(work, cache.release)
    names = sorted({name for section in cache.listed.values() for name in section})
    run(["apt-get", "-q", "update", "-o", "APT::Update::Error-Mode=any"], env=env)
    run(["apt-get", "-q", "-y", "install", "--download-only", "?priority(required)", *names], env=env)
    archives = work / "cache/archives"
    for extra in ("partial", "lock"):
        files.remove(archives / extra)
    listing = run(["apt-ftparchive", "packages", "."], cwd=archives).stdout
    (archives / "Packages").write_text(listing)
    run(["gzip", "-kf", "Packages"], cwd=archives)
    release = run(["apt-ftparchive", "-o", f"APT::FTPArchive::Release::Codename={cache.release}",
                   "-o", "APT::FTPArchive::Release::Origin=reduced.footprint lab", "release", "."], cwd=archives).stdout
    (archives / "Release").write_text(release)
    archives.rename(cache.pool)
    files.remove(work)


def _base(cache: Cache) -> None:
    work = CACHE / "part-base"
    files.remove(work)
    argv = [*APART, "--mount-proc", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory",
            "--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\"",
            "--include=" + ",".join(cache.listed["base"])]
    argv += [f"--dpkgopt={option}" for option in DPKG_OPTIONS]
    argv += [cache.release, str(work), f"deb [trusted=yes] copy://{cache.pool} ./"]
    run(argv, env=dict(os.environ, LC_ALL="C"))
    for path in (*work.glob("etc/ssh/ssh_host_*"), work / "etc/hostname", work / "etc/apt/sources.list",
                 work / "etc/resolv.conf", work / "var/lib/dbus/machine-id"):
        files.remove(path)
    files.put(work, "etc/machine-id", "")
    files.put(work, "etc/resolv.conf", "")
    work.rename(cache.base)


def _laptop(cache: Cache) -> None:
    """Build the master's two file systems ``/`` and ``/srv`` as sparse ext4 images."""
    work = CACHE / "part-laptop"
    files.remove(work)
    work.mkdir()
    root, srv = work / "root", work / "srv"
    run(["cp", "-a", str(cache.base), str(root)])
    shutil.copytree(cache.pool, root / "debs", copy_function=os.link)
    files.put(root, "etc/apt/sources.list", "deb [trusted=yes] copy:///debs ./\n")
    # No service may start while packages are installed in a chroot.
    files.put(root, "usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
    # "dep" would use the drivers of this machine, so those of a laptop are listed for the build. None of them is for the disk
    # of a virtual machine.
    files.put(root, "etc/initramfs-tools/conf.d/driver-policy", "MODULES=list\n")
    files.put(root, "etc/initramfs-tools/modules", "nvme\next4\n")
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "HOME": "/root"}
    inside = [*APART, f"--mount-proc={root}/proc", "chroot", str(root)]
    run([*inside, "apt-get", "-q", "update"], env=env)
    run([*inside, "apt-get", "-q", "-y", "install", "--no-install-recommends", *cache.listed["laptop"]], env=env)
    run([*inside, "apt-get", "clean"], env=env)
    run([*inside, "useradd", "--system", "--home-dir", "/srv/footprint", "--shell", "/usr/sbin/nologin", "footprint-api"],
        env=env)
    os.rename(root / "var/lib/mysql", root / "srv/mysql")
    password = os.urandom(12).hex()
    sql = files.fill((FILES / "laptop-setup.sql").read_text(), {"PASSWORD": password})
    run([*inside, "mariadbd", "--bootstrap", "--user=mysql", "--datadir=/srv/mysql", "--skip-networking"],
        env=env, stdin=None, input=sql)
    for path in (root / "debs", root / "usr/sbin/policy-rc.d", root / "etc/apt/sources.list",
                 *root.glob("etc/ssh/ssh_host_*")):
        files.remove(path)
    files.put(root, "etc/initramfs-tools/conf.d/driver-policy", "MODULES=dep\n")
    files.put(root, "etc/initramfs-tools/modules", "# One module per line.\n")
    os.rename(root / "srv", srv)
    (root / "srv").mkdir()
    files.put(work, "writer-password", password + "\n", 0o600)
    for label, size, tree in (("rf-root", "3G", root), ("rf-srv", "1G", srv)):
        run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", label, "-m", "1", "-d", str(tree), f"{tree}.img", size])
        files.remove(tree)
    work.rename(cache.laptop)


def _guest(cache: Cache, lab: Lab, target: pathlib.Path) -> None:
    """Build the LXC root that virt hosts unpack: the minimal root and ``files/guest``."""
    work = CACHE / "part-guest"
    files.remove(work)
    root = work / "root"
    root.mkdir(parents=True)
    files.lay("debian", root, lab.words())
    files.lay("guest", root, lab.words())
    files.put(root, "root/.ssh/authorized_keys", public_key(), 0o600)
    os.chmod(root / "root", 0o700)
    os.chmod(root / "root/.ssh", 0o700)
    part = work / "guest.tar"
    # each path only once: tar creates absolute links last, also over a later file
    laid = [f"--exclude=./{path.relative_to(root)}" for path in sorted(root.rglob("*")) if path.is_symlink() or not path.is_dir()]
    run(["tar", "--create", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls", "--sort=name", "--one-file-system",
         "--anchored", "--no-wildcards", *laid, f"--file={part}", f"--directory={cache.base}", "."])
    run(["tar", "--append", "--numeric-owner", "--owner=0", "--group=0", f"--file={part}", f"--directory={root}", "."])
    digest = hashlib.sha256()
    with open(part, "rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    target.with_suffix(".tar.sha256").write_text(f"{digest.hexdigest()}  {ROOT_IMAGE}\n")
    part.rename(target)
    files.remove(work)


def check_space(path: pathlib.Path, need: int = 6 << 30) -> None:
    """Check the free space for a lab.

    :raises LabError: insufficient space.
    """
    free = shutil.disk_usage(path).free
    if free < need:
        raise LabError(f"{path} has {free >> 20} MiB free, the lab requires {need >> 20} MiB", "free some space, or set LAB_CACHE")
