# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Firmware by its descriptions, as packages install them."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_firmware import fitting

SECURE = ["secure-boot", "enrolled-keys", "requires-smm"]


def describe(folder: pathlib.Path, name: str, image: pathlib.Path, *features: str, interface: str = "uefi", arch: str = "x86_64") -> None:
    """A description as QEMU specifies it."""
    folder.mkdir(exist_ok=True)
    text = json.dumps(
        {
            "interface-types": [interface],
            "mapping": {"device": "flash", "executable": {"filename": str(image), "format": "raw"}},
            "targets": [{"architecture": arch, "machines": ["pc-q35-*"]}],
            "features": list(features),
        }
    )
    (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "arch, features, found",
    [
        ("x86_64", {}, True),
        ("x86_64", {"secure-boot": False}, True),
        ("x86_64", {"secure-boot": True, "enrolled-keys": True}, True),
        ("x86_64", {"amd-sev": True}, False),
        ("aarch64", {}, False),
        ("riscv64", {}, False),
    ],
)
def test_features_and_architecture_count(tmp_path: pathlib.Path, arch: str, features: dict[str, bool], found: bool) -> None:
    image = tmp_path / "CODE.fd"
    image.touch()
    describe(tmp_path / "a", "40-secure.json", image, *SECURE)
    describe(tmp_path / "a", "60-plain.json", image)
    describe(tmp_path / "a", "70-bios.json", image, "amd-sev", interface="bios")
    describe(tmp_path / "a", "80-arm.json", tmp_path / "missing.fd", arch="aarch64")
    assert fitting(arch, features, [str(tmp_path / "a")]) is found


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"mapping": 1}', '{"mapping": {"executable": {}}}'])
def test_what_is_no_description_is_none_and_hides_one_of_its_name(tmp_path: pathlib.Path, text: t.Any) -> None:
    image = tmp_path / "CODE.fd"
    image.touch()
    describe(tmp_path / "b", "60-plain.json", image)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "60-plain.json").write_text(text, encoding="utf-8")
    assert fitting("x86_64", {}, [str(tmp_path / "b"), str(tmp_path / "a")])
    assert not fitting("x86_64", {}, [str(tmp_path / "a"), str(tmp_path / "b")])
    assert not fitting("x86_64", {}, [str(tmp_path / "nowhere")])
