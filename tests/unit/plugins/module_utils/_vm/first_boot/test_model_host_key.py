# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ssh host keys of VMs: read from OpenSSH's own files, carried by vendor-data, never shown."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key


def generated(folder: pathlib.Path, kind: str = "ed25519", passphrase: str = "") -> tuple[str, str]:
    """Private and public file as ssh-keygen writes them."""
    path = folder / f"{kind}{len(passphrase)}"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "comment", "-f", str(path)], check=True)
    return path.read_text(), path.with_suffix(".pub").read_text()


def test_public_key_equals_that_of_ssh_keygen(tmp_path: pathlib.Path) -> None:
    private, public = generated(tmp_path)
    key = model_host_key.parse(private, "here")
    assert key.public == " ".join(public.split()[:2]) == model_host_key.public_key(public)
    assert key.private == private
    assert "PRIVATE" not in repr(key)


def test_generated_key_is_valid_for_openssh(tmp_path: pathlib.Path) -> None:
    key = model_host_key.parse(io_certificates.make_ssh_key(), "here")
    path = tmp_path / "key"
    path.write_text(key.private)
    path.chmod(0o600)
    shown = subprocess.run(["ssh-keygen", "-y", "-f", str(path)], check=True, capture_output=True, text=True).stdout
    assert " ".join(shown.split()[:2]) == key.public


@pytest.mark.parametrize(("kind", "passphrase"), [("ecdsa", ""), ("rsa", ""), ("ed25519", "secret")])
def test_other_keys_are_refused_without_being_shown(tmp_path: pathlib.Path, kind: str, passphrase: str) -> None:
    private, unused = generated(tmp_path, kind, passphrase)
    with pytest.raises(InputError, match=r"host_keys\.a: is not an ed25519 key without a passphrase|damaged") as caught:
        model_host_key.parse_all({"a": private}, "host_keys")
    assert private.splitlines()[1] not in str(caught.value)


@pytest.mark.parametrize("text", ["nonsense", 7, "-----BEGIN OPENSSH PRIVATE KEY-----\n!!\n-----END OPENSSH PRIVATE KEY-----", None])
def test_what_is_not_a_key_is_refused(text: object) -> None:
    with pytest.raises(InputError, match="here: is (not a private key|a damaged)"):
        model_host_key.parse(text, "here")


def test_a_truncated_key_is_refused(tmp_path: pathlib.Path) -> None:
    lines = generated(tmp_path)[0].splitlines()
    with pytest.raises(InputError, match="damaged"):
        model_host_key.parse("\n".join([lines[0], lines[1], lines[-1]])[:60] + "\n" + lines[-1], "here")


def test_empty_text_is_ignored() -> None:
    assert model_host_key.parse_all({"a": "", "b": None}, "host_keys") == {}
    assert model_host_key.parse_all(None, "host_keys") == {}


def test_vendor_data_contains_its_public_key() -> None:
    key = model_host_key.parse(io_certificates.make_ssh_key(), "here")
    text = model_host_key.vendor_data(key)
    assert text.startswith("#cloud-config\n")
    assert model_host_key.public_in(text) == model_host_key.public_in(text.encode()) == key.public


@pytest.mark.parametrize("text", [None, "", "#cloud-config\n{}", "#cloud-config\n[1]", "#!/bin/sh", b"\xff", "#cloud-config\n{"])
def test_other_vendor_data_has_no_public_key(text: object) -> None:
    assert model_host_key.public_in(text) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("user_data", "expected"), [("#cloud-config\nssh_keys: {}", True), ("vendor_data: {enabled: false}", True), ("#!/bin/sh", False)])
def test_user_data_with_host_keys_is_detected(user_data: str, expected: bool) -> None:
    assert model_host_key.decided_by_user(user_data) is expected
