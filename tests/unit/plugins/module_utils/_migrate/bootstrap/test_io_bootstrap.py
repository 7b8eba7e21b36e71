# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import gzip
import os
import stat
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import io_bootstrap


def unpacked(data):
    """A cpio archive as (path, mode, content)."""
    found = []
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        numbers = [int(data[at + 6 + 8 * each : at + 14 + 8 * each], 16) for each in range(13)]
        mode, size, length = numbers[1], numbers[6], numbers[11]
        name = data[at + 110 : at + 110 + length - 1].decode()
        at += (110 + length + 3) & ~3
        content = data[at : at + size]
        at += (size + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found.append((name, mode, content))


def test_an_archive_holds_folders_before_what_lies_in_them():
    made = io_bootstrap.archive({"/init": (0o755, b"#!/bin/sh\n"), "/usr/lib/x/y": (0o644, b"abc")}, ["/proc", "/usr/share"])
    found = unpacked(made)
    assert [name for name, _mode, _content in found] == ["usr", "usr/lib", "usr/lib/x", "proc", "usr/share", "init", "usr/lib/x/y"]
    assert [stat.S_ISDIR(mode) for _name, mode, _content in found] == [True] * 5 + [False] * 2
    assert found[-1][1:] == (stat.S_IFREG | 0o644, b"abc") and found[5][1] == stat.S_IFREG | 0o755
    assert made == io_bootstrap.archive({"/init": (0o755, b"#!/bin/sh\n"), "/usr/lib/x/y": (0o644, b"abc")}, ["/proc", "/usr/share"])


@pytest.fixture(name="host")
def fixture_host(tmp_path, monkeypatch):
    """Kernels of a host: one that runs, a newer one, one without an image, one without virtio_blk."""
    boot, modules = tmp_path / "boot", tmp_path / "modules"
    boot.mkdir()
    for age, version in enumerate(("6.1-running", "6.2-newer", "6.3-lacks", "6.4-gone")):
        (modules / version).mkdir(parents=True)
        (modules / version / "modules.dep").touch()
        if version != "6.4-gone":
            (boot / f"vmlinuz-{version}").write_bytes(version.encode())
            os.utime(boot / f"vmlinuz-{version}", (age, age))

    def run(argv, ok=()):
        version, name = argv[-2:]
        if version == "6.3-lacks" and name == "virtio_blk":
            return types.SimpleNamespace(rc=1, stdout="")
        if name == "virtio_pci":
            return types.SimpleNamespace(rc=0, stdout="builtin virtio_pci\n")
        return types.SimpleNamespace(rc=0, stdout=f"insmod /lib/modules/{version}/virtio.ko \ninsmod /lib/modules/{version}/{name}.ko debug=1\n")

    monkeypatch.setattr(io_bootstrap, "run", run)
    monkeypatch.setattr(io_bootstrap.platform, "release", lambda: "6.1-running")
    return boot, modules


def find(host):
    return io_bootstrap.find_kernel(("virtio_pci", "virtio_blk"), ("virtio_rng",), *host)


def test_the_kernel_that_runs_is_taken_with_its_modules_in_order(host):
    kernel = find(host)
    assert kernel.version == "6.1-running" and kernel.missing == ()
    assert kernel.modules == tuple(f"/lib/modules/6.1-running/{each}.ko" for each in ("virtio", "virtio_rng", "virtio_blk"))


def test_else_the_newest_that_has_them_and_one_that_lacks_some_comes_last(host, monkeypatch):
    monkeypatch.setattr(io_bootstrap.platform, "release", lambda: "5.0-elsewhere")
    assert find(host).version == "6.2-newer"
    for version in ("6.1-running", "6.2-newer"):
        (host[0] / f"vmlinuz-{version}").unlink()
    assert (find(host).version, find(host).missing) == ("6.3-lacks", ("virtio_blk",))
    (host[0] / "vmlinuz-6.3-lacks").unlink()
    assert find(host) is None


LDD = """\
\tlinux-vdso.so.1 (0x00007ffd)
\tlibcrypto.so.3 => /lib/x86_64-linux-gnu/libcrypto.so.3 (0x00007f)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f)
"""


def test_libraries_and_their_loader_are_found(monkeypatch):
    monkeypatch.setattr(io_bootstrap, "run", lambda argv, ok=(): types.SimpleNamespace(rc=0, stdout=LDD))
    assert io_bootstrap.libraries(["/a", "/b"]) == ["/lib/x86_64-linux-gnu/libcrypto.so.3", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]
    monkeypatch.setattr(io_bootstrap, "run", lambda argv, ok=(): types.SimpleNamespace(rc=0, stdout="\tlibz.so => not found\n"))
    with pytest.raises(BackendError, match="/a requires libz.so"):
        io_bootstrap.libraries(["/a"])


def test_what_is_made_may_be_read_by_the_server_and_is_made_as_a_whole(tmp_path, monkeypatch):
    image, module, program = tmp_path / "vmlinuz", tmp_path / "a.ko", tmp_path / "program"
    for each in (image, module, program):
        each.write_bytes(each.name.encode())
    monkeypatch.setattr(io_bootstrap, "libraries", lambda programs: [str(program)])
    kernel = io_bootstrap.Kernel("6.1", image, (str(module),), ())
    folder = tmp_path / "cache" / "bootstrap-master"
    asked = []

    def texts(libraries, modules):
        asked.append((libraries, modules))
        return {"/init": (0o755, "x")}

    size = io_bootstrap.build(folder, kernel, {"/bin/sh": str(program)}, texts)
    assert asked == [([str(tmp_path)], [str(module)])]
    assert (folder / "vmlinuz").read_bytes() == b"vmlinuz" and size == sum(each.stat().st_size for each in folder.iterdir())
    files = {name: content for name, mode, content in unpacked(gzip.decompress((folder / "initrd.img").read_bytes())) if stat.S_ISREG(mode)}
    assert files["bin/sh"] == b"program" and files["init"] == b"x" and files[str(module).lstrip("/")] == b"a.ko"
    assert sorted(each.name for each in folder.iterdir()) == ["initrd.img", "vmlinuz"]
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o644} and stat.S_IMODE(folder.stat().st_mode) == 0o755
