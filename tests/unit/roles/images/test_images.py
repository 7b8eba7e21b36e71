# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Conditions of the role images that only a run shows; the integration target fetches images."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


VARIABLES = yaml.safe_load((ROOT / "roles/images/vars/main.yml").read_text("utf-8"))


def tasks_of(role: str) -> dict[str, t.Any]:
    tasks = yaml.safe_load((ROOT / f"roles/{role}/tasks/main.yml").read_text("utf-8"))
    return {task["name"]: task for task in tasks}


@pytest.mark.parametrize("checksum, right", [("sha256:1234", True), ("sha512:https://site/SHA512SUMS", True), ("", False), ("1234", False), ("sha256:", False)])
def test_an_image_without_checksum_is_refused(checksum: str, right: bool, tmp_path: pathlib.Path) -> None:
    given = {"images_list": [{"name": "one", "url": "https://site/one.qcow2", "checksum": checksum}], **VARIABLES}
    code, output = ControlNode(tmp_path).play([tasks_of("images")["Check the names, formats and checksums of the base images"]], **given)
    assert (code == 0) == right and ("The checksum starts with its algorithm" in " ".join(output.split())) != right, output


@pytest.mark.parametrize(
    "url, form, right",
    [("https://site/haos.qcow2.xz", "img", False), ("https://site/one.raw.gz", "raw", False), ("https://site/root.tar.xz", "tar.xz", True),
     ("https://site/root.tar.xz", None, True), ("https://site/root.txz", "tar.xz", True), ("https://site/one", "qcow2", True)],
)  # fmt: skip
def test_a_packed_image_of_a_machine_is_refused(url: str, form: str | None, right: bool, tmp_path: pathlib.Path) -> None:
    image = {"name": "one", "url": url, "checksum": "sha256:1234", **({"format": form} if form else {})}
    given = {"images_list": [image], **VARIABLES}
    code, output = ControlNode(tmp_path).play([tasks_of("images")["Check the names, formats and checksums of the base images"]], **given)
    assert (code == 0) == right and ("must not be packed" in " ".join(output.split())) != right, output


@pytest.mark.parametrize("folder", ["/srv/pool", "/srv/pool/"])
def test_a_pool_that_is_not_mounted_is_refused(folder: str, tmp_path: pathlib.Path) -> None:
    node = {"node": {"pools": {"fast": {"path": "/srv/pool", "mount": "/srv/pool", "mounted": False}}}}
    step = tasks_of("images")["Check that the file system of the storage pool is mounted"]
    code, output = ControlNode(tmp_path).play([step], images_pool_path=folder, __images_node=node)
    assert code != 0 and "is not mounted" in " ".join(output.split()), output


@pytest.mark.parametrize("name", VARIABLES["__images_catalogue"])
def test_a_name_alone_is_an_image_of_the_catalogue(name: str, tmp_path: pathlib.Path) -> None:
    tasks = tasks_of("images")
    given = {"images_list": [{"name": name, "timeout": 5}, {"name": "own", "url": "https://site/own.img", "checksum": "sha256:12"}], **VARIABLES}
    shown = {"ansible.builtin.debug": {"msg": "{{ __images_file }} {{ __images_url }} {{ __images_checksum }} {{ item.timeout | default('-') }}"}}
    steps = [task for title, task in tasks.items() if title.startswith("Check that images without") or title.startswith("Check the names")]
    code, output = ControlNode(tmp_path).play([*steps, {**shown, "loop": "{{ __images_all }}"}], images_mirror="", **given)
    assert code == 0, output
    entry = VARIABLES["__images_catalogue"][name]
    assert f"{name}.qcow2 {entry['url']} {entry['checksum']} 5" in output and "own.img https://site/own.img sha256:12 -" in output
    # the checksums are those that the distribution publishes beside this file
    assert entry["checksum"] == f"sha512:{entry['url'].rpartition('/')[0]}/SHA512SUMS"


@pytest.mark.parametrize("image", [{"name": "debian-99"}, {"name": "debian-12", "checksum": "sha256:12"}, {"name": "one", "url": "https://site/one.img"}])
def test_an_unknown_name_alone_is_refused(image: dict[str, str], tmp_path: pathlib.Path) -> None:
    step = tasks_of("images")["Check that images without a URL are in the catalogue"]
    code, output = ControlNode(tmp_path).play([step], images_list=[image], **VARIABLES)
    assert code != 0 and "Only debian-12, debian-13 can be given by name alone" in " ".join(output.split()), output
