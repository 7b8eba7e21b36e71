# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A key that would not work is not placed."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._keys import run_one_time_key

GIVEN = {"name": "master", "purpose": "migrate", "state": "present", "allowed_from": ["192.0.2.11"], "commands": []}
KEY = "ssh-ed25519 AAAA reduced.footprint-migrate-master"


@pytest.fixture(name="keys")
def fixture_keys(tmp_path, monkeypatch):
    """root's authorized_keys, and the folder for the commands of hooks."""
    monkeypatch.setattr(run_one_time_key.io_authorized_keys, "PATH", tmp_path / "authorized_keys")
    monkeypatch.setattr(run_one_time_key.io_authorized_keys, "ALLOWED", tmp_path / "allowed")
    monkeypatch.setattr(run_one_time_key.io_units, "keep_code", lambda: tmp_path / "code.zip")
    monkeypatch.setattr(run_one_time_key.io_units, "code_path", lambda: tmp_path / "code.zip")
    return tmp_path / "authorized_keys"


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_key_that_would_be_refused_is_not_placed(keys, monkeypatch, check_mode):
    asked = []

    def check(addresses):
        asked.extend(addresses)
        raise RefusedError("AllowUsers admin", hint="Add root to it.")

    monkeypatch.setattr(run_one_time_key.io_login, "check", check)
    with pytest.raises(RefusedError, match="AllowUsers"):
        run_one_time_key.apply({**GIVEN, "public_key": KEY}, check_mode=check_mode)
    assert asked == ["192.0.2.11"] and not keys.exists() and not (keys.parent / "allowed").exists()


def test_what_was_not_checked_is_a_warning(keys, monkeypatch):
    monkeypatch.setattr(run_one_time_key.io_login, "check", lambda _addresses: ["not checked"])
    result = run_one_time_key.apply({**GIVEN, "public_key": KEY}, check_mode=False)
    assert result["warnings"] == ["not checked"] and result["changed"] and KEY in keys.read_text()


def test_a_key_is_withdrawn_whatever_the_settings_are(keys, monkeypatch):
    keys.write_text(f"restrict {KEY}\n")
    monkeypatch.setattr(run_one_time_key.io_login, "check", lambda _addresses: pytest.fail("not needed"))
    assert run_one_time_key.apply({**GIVEN, "state": "absent"}, check_mode=False)["changed"] and keys.read_text() == ""
