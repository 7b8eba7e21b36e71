# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build a kernel and an initramfs from the installed packages of this host, without downloads."""

from __future__ import annotations

import gzip
import os
import pathlib
import platform
import shutil
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

BOOT, MODULES = pathlib.Path("/boot"), pathlib.Path("/lib/modules")
_ROMS = ("/usr/lib/ipxe/qemu", "/usr/share/ipxe/qemu", "/usr/share/qemu", "/usr/share/qemu-kvm", "/usr/share/ipxe")
_ROM_NAMES = ("pxe-virtio.rom", "efi-virtio.rom", "1af41000.rom")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# helper programs of sshd in newer releases
_SSHD_PARTS = ("/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth", "/usr/libexec/openssh/sshd-session", "/usr/libexec/openssh/sshd-auth")
_FOLDERS = ("/proc", "/sys", "/dev", "/run/sshd", "/tmp", "/var/empty/sshd", "/usr/share/empty.sshd")


#: Returns the bootstrap system's own files, path → (mode, text), for library folders and module paths.
Texts = t.Callable[[list[str], list[str]], t.Mapping[str, tuple[int, str]]]


class Kernel(t.NamedTuple):
    """A kernel of this host: its image, its modules in loading order, and the missing modules."""

    version: str
    image: pathlib.Path
    modules: tuple[str, ...]
    missing: tuple[str, ...]


def paths(programs: t.Sequence[str]) -> dict[str, str | None]:
    """Return the paths of programs on this host, ``None`` for missing ones."""
    return {each: shutil.which(each, path=_PATH) for each in programs}


def gather(tools: t.Sequence[str], modules: t.Sequence[str], helpful: t.Sequence[str]) -> dict[str, t.Any]:
    """Return the facts of this host that are required to build a bootstrap system.

    :arg modules: names of required kernel modules; ``helpful`` are optional ones.
    """
    found = paths(tools)
    kernel = find_kernel(modules, helpful) if found.get("modprobe") else None
    return {
        "arch": platform.machine(),
        "tools": found,
        "kernel": kernel.version if kernel else None,
        "missing_modules": list(kernel.missing) if kernel else [],
        "fuse": os.path.exists("/dev/fuse") or (bool(found.get("modprobe")) and run(["modprobe", "--quiet", "fuse"], ok=range(256)).rc == 0),
        "ipv6": os.path.isdir("/proc/sys/net/ipv6"),
        "rom": any(os.path.exists(os.path.join(folder, name)) for folder in _ROMS for name in _ROM_NAMES),
    }


def find_kernel(modules: t.Sequence[str], helpful: t.Sequence[str], boot: pathlib.Path = BOOT, folder: pathlib.Path = MODULES) -> Kernel | None:
    """Return the kernel for the bootstrap system: the running one if possible, else the newest; kernels with missing modules come last."""
    images = {}
    for version in sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []:
        image = next((each for each in (boot / f"vmlinuz-{version}", folder / version / "vmlinuz") if each.is_file()), None)
        if image is not None and (folder / version / "modules.dep").exists():
            images[version] = image
    found = []
    for version, image in images.items():
        needed, missing = _module_files(version, modules)
        more, _unused = _module_files(version, helpful)
        found.append(Kernel(version, image, tuple(dict.fromkeys([*more, *needed])), tuple(missing)))
    order = sorted(found, key=lambda each: (not each.missing, each.version == platform.release(), each.image.stat().st_mtime))
    return order[-1] if order else None


def _module_files(version: str, names: t.Sequence[str]) -> tuple[list[str], list[str]]:
    """Files of modules and their dependencies in loading order, and the names of missing modules."""
    files, missing = [], []
    for name in names:
        done = run(["modprobe", "--show-depends", "--ignore-install", "--set-version", version, name], ok=range(256))
        if done.rc:
            missing.append(name)
            continue
        words = (line.split() for line in done.stdout.splitlines())
        files += [each[1] for each in words if len(each) > 1 and each[0] == "insmod"]
    return files, missing


def libraries(programs: t.Iterable[str]) -> list[str]:
    """Return the absolute paths of the libraries of programs, including the dynamic loader."""
    found: dict[str, None] = {}
    for program in programs:
        # ldd fails for a statically linked program
        done = run(["ldd", program], ok=(0, 1))
        for line in done.stdout.splitlines():
            name, _arrow, rest = line.strip().partition(" => ")
            if rest.startswith("not found"):
                raise BackendError(f"{program} requires {name}, which is not installed.", hint="Install the package with this library.")
            path = (rest or name).split(" (")[0].strip()
            if path.startswith("/"):
                found[path] = None
    return list(found)


def build(folder: pathlib.Path, kernel: Kernel, programs: t.Mapping[str, str], texts: Texts) -> int:
    """Create kernel and initramfs in a folder; returns the bytes of both. The files are world-readable for the TFTP server.

    :arg programs: path in the bootstrap system → path on this host.
    """
    parts = {path: path for path in _SSHD_PARTS if os.path.exists(path)}
    inside = {**programs, **parts}
    needed = libraries(dict.fromkeys(inside.values()))
    entries: dict[str, tuple[int, bytes]] = {path: (0o755, pathlib.Path(origin).read_bytes()) for path, origin in inside.items()}
    entries.update({path: (0o755, pathlib.Path(path).read_bytes()) for path in needed})
    entries.update({path: (0o644, pathlib.Path(path).read_bytes()) for path in kernel.modules})
    own = texts(list(dict.fromkeys(os.path.dirname(each) for each in needed)), list(kernel.modules))
    entries.update({path: (mode, text.encode("utf-8")) for path, (mode, text) in own.items()})
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    for each in (folder, folder.parent):
        os.chmod(each, 0o755)
    size = place(folder / "vmlinuz", kernel.image.read_bytes())
    return size + place(folder / "initrd.img", gzip.compress(archive(entries, _FOLDERS), 6, mtime=0))


def place(path: pathlib.Path, content: bytes) -> int:
    """Write a world-readable file atomically; returns its bytes."""
    write_atomic(path, content, 0o644)
    return len(content)


def archive(entries: t.Mapping[str, tuple[int, bytes]], folders: t.Iterable[str] = ()) -> bytes:
    """Return a reproducible cpio archive (newc) for an initramfs; all files belong to root.

    :arg entries: absolute path → (mode, content); their parent folders are added.
    """
    needed: dict[str, None] = {}
    for path in [*(os.path.dirname(each) for each in entries), *folders]:
        for parent in [*reversed(pathlib.PurePosixPath(path).parents), pathlib.PurePosixPath(path)]:
            needed[str(parent)] = None
    written = bytearray()
    for number, path in enumerate((each for each in needed if each != "/"), start=1):
        written += _entry(path, stat.S_IFDIR | 0o755, b"", number)
    for number, (path, (mode, content)) in enumerate(entries.items(), start=len(needed) + 1):
        written += _entry(path, stat.S_IFREG | mode, content, number)
    written += _entry("/TRAILER!!!", 0, b"", 0)
    return bytes(written)


def _entry(path: str, mode: int, content: bytes, inode: int) -> bytes:
    name = path.lstrip("/").encode("utf-8") + b"\0"
    numbers = (inode, mode, 0, 0, 2 if stat.S_ISDIR(mode) else 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % each for each in numbers) + name
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
