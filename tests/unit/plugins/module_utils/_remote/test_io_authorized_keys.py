# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, model_one_time_key

OWN = b"ssh-ed25519 AAAA jos\xe9@laptop\n"
MARKER = model_one_time_key.key_marker("master")


@pytest.fixture(name="path")
def fixture_path(tmp_path, monkeypatch):
    """authorized_keys with a comment that is not UTF-8."""
    path = tmp_path / "authorized_keys"
    path.write_bytes(OWN)
    path.chmod(0o600)
    monkeypatch.setattr(io_authorized_keys, "PATH", path)
    monkeypatch.setattr(io_authorized_keys, "host_lock", lambda name, timeout: contextlib.nullcontext())
    return path


def test_keys_of_others_are_kept_byte_for_byte(path):
    line = f'restrict,expiry-time="{model_one_time_key.expiry(time.time())}" ssh-ed25519 BBBB {MARKER}'
    io_authorized_keys.place(MARKER, line)
    assert path.read_bytes() == OWN + line.encode() + b"\n"
    assert io_authorized_keys.line_of(MARKER) == line
    io_authorized_keys.renew("master", time.time() + model_one_time_key.LIMIT)
    assert path.read_bytes().startswith(OWN) and line.encode() not in path.read_bytes()
    assert io_authorized_keys.forget(MARKER)
    assert path.read_bytes() == OWN


def test_a_link_to_the_file_stays_a_link(path, tmp_path, monkeypatch):
    """Otherwise a key that is removed from the managed file would still be accepted."""
    link = tmp_path / "link"
    link.symlink_to(path)
    monkeypatch.setattr(io_authorized_keys, "PATH", link)
    io_authorized_keys.place(MARKER, f"restrict ssh-ed25519 BBBB {MARKER}")
    assert link.is_symlink() and path.read_bytes().startswith(OWN) and MARKER.encode() in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    assert io_authorized_keys.forget(MARKER) and link.is_symlink() and path.read_bytes() == OWN
