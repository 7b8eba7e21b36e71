# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive of the initramfs of the test image."""

from __future__ import annotations

import pathlib
import typing as t

from tests.support.program import load

ROOT = pathlib.Path(__file__).resolve().parents[4]


def program() -> t.Any:
    return load("roles/test_image/files/build_test_image.py")


def entries(data: bytes) -> dict[str, tuple[int, int, bytes]]:
    """Read an archive as the kernel does: mode, owner and content by name."""
    found, place = {}, 0
    while True:
        assert data[place : place + 6] == b"070701" and place % 4 == 0
        fields = [int(data[place + 6 + 8 * number : place + 14 + 8 * number], 16) for number in range(13)]
        name = data[place + 110 : place + 110 + fields[11] - 1].decode()
        start = place + 110 + fields[11]
        start += -start % 4
        found[name] = (fields[1], fields[2], data[start : start + fields[6]])
        place = start + fields[6] + -fields[6] % 4
        if name == "TRAILER!!!":
            assert place == len(data)
            return found


def test_archive(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tool").write_bytes(b"12345")
    (tmp_path / "bin/tool").chmod(0o755)
    (tmp_path / "bin/name").symlink_to("tool")
    found = entries(program().archive(tmp_path))
    assert list(found) == ["bin", "bin/name", "bin/tool", "TRAILER!!!"]
    assert found["bin/tool"] == (0o100755, 0, b"12345")
    assert found["bin/name"] == (0o120777, 0, b"tool")
    assert found["bin"][0] & 0o170000 == 0o040000


def test_only_keys_are_accepted_and_the_manifest_is_last() -> None:
    text = (ROOT / "roles/test_image/files/build_test_image.py").read_text("utf-8")
    assert "dropbear -r /etc/dropbear/dropbear_ed25519_host_key -s\n" in text
    assert text.index('{**made, "json"') > text.index("made = {")


def test_kernel_is_not_taken_for_a_disk() -> None:
    """A kernel with a boot signature, one without, and nothing else is changed."""
    kernel = bytes(range(256)) * 4
    signed = kernel[:510] + b"\x55\xaa" + kernel[512:]
    assert program().without_boot_signature(signed) == kernel[:510] + bytes(2) + kernel[512:]
    assert program().without_boot_signature(kernel) == kernel
