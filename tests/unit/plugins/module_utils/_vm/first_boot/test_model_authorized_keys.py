# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's keys: only public ones, for cloud-init and for authorized_keys."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_authorized_keys

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_keys_of_ssh_keygen_are_accepted(tmp_path: pathlib.Path, kind: str) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "a comment", "-f", str(tmp_path / "key")], check=True)
    public = (tmp_path / "key.pub").read_text()
    assert model_authorized_keys.parse([public], "here") == (public.strip(),)
    with pytest.raises(InputError, match=r"here\[1\]: is a private key") as caught:
        model_authorized_keys.parse([public, (tmp_path / "key").read_text()], "here")
    assert "BEGIN" not in str(caught.value)


def test_options_and_duplicates() -> None:
    limited = f'from="192.0.2.0/24",no-pty {KEY} me@here'
    assert model_authorized_keys.parse([limited, f" {KEY}\n", KEY], "here") == (limited, KEY)


@pytest.mark.parametrize("value", ["", None, 7, "~/.ssh/id_ed25519.pub", f"{KEY}\n{KEY}", f"{KEY}\x1b", "ssh-ed25519 AAAAnotbase64", f"{KEY}!"])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(InputError, match=r"authorized_keys\[0\]: is not a public SSH key on one line\. .*\.pub file"):
        model_authorized_keys.parse([value], "authorized_keys")


def test_keys_are_added_once() -> None:
    assert model_authorized_keys.added("", [KEY]) == f"{KEY}\n"
    assert model_authorized_keys.added("other", [KEY]) == f"other\n{KEY}\n"
    assert model_authorized_keys.added(f"{KEY}\n", [KEY]) == f"{KEY}\n"


def test_root_accepts_the_keys() -> None:
    assert model_authorized_keys.access([KEY]) == {"ssh_authorized_keys": [KEY], "disable_root": False}
    assert model_authorized_keys.access([]) == {}
