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


def tasks_of(role: str) -> dict[str, t.Any]:
    tasks = yaml.safe_load((ROOT / f"roles/{role}/tasks/main.yml").read_text("utf-8"))
    return {task["name"]: task for task in tasks}


@pytest.mark.parametrize("checksum, right", [("sha256:1234", True), ("sha512:https://site/SHA512SUMS", True), ("", False), ("1234", False), ("sha256:", False)])
def test_an_image_without_checksum_is_refused(checksum: str, right: bool, tmp_path: pathlib.Path) -> None:
    given = {"images_list": [{"name": "one", "url": "https://site/one.qcow2", "checksum": checksum}], "__images_endings": r"\.(qcow2|img)$"}
    code, output = ControlNode(tmp_path).play([tasks_of("images")["Check the names, formats and checksums of the base images"]], **given)
    assert (code == 0) == right and ("The checksum starts with its algorithm" in " ".join(output.split())) != right, output


@pytest.mark.parametrize(
    "url, form, right",
    [("https://site/haos.qcow2.xz", "img", False), ("https://site/one.raw.gz", "raw", False), ("https://site/root.tar.xz", "tar.xz", True),
     ("https://site/root.tar.xz", None, True), ("https://site/root.txz", "tar.xz", True), ("https://site/one", "qcow2", True)],
)  # fmt: skip
def test_a_packed_image_of_a_machine_is_refused(url: str, form: str | None, right: bool, tmp_path: pathlib.Path) -> None:
    image = {"name": "one", "url": url, "checksum": "sha256:1234", **({"format": form} if form else {})}
    given = {"images_list": [image], "__images_endings": r"\.(tar|tar\.xz|qcow2|img)$"}
    code, output = ControlNode(tmp_path).play([tasks_of("images")["Check the names, formats and checksums of the base images"]], **given)
    assert (code == 0) == right and ("must not be packed" in " ".join(output.split())) != right, output


@pytest.mark.parametrize("folder", ["/srv/pool", "/srv/pool/"])
def test_a_pool_that_is_not_mounted_is_refused(folder: str, tmp_path: pathlib.Path) -> None:
    node = {"node": {"pools": {"fast": {"path": "/srv/pool", "mount": "/srv/pool", "mounted": False}}}}
    step = tasks_of("images")["Check that the file system of the storage pool is mounted"]
    code, output = ControlNode(tmp_path).play([step], images_pool_path=folder, __images_node=node)
    assert code != 0 and "is not mounted" in " ".join(output.split()), output


@pytest.mark.parametrize("state, fetched", [("running", True), ("shutdown", True), ("absent", False), ("rolled_back", False)])
def test_images_are_fetched_for_new_volumes_only(state: str, fetched: bool, tmp_path: pathlib.Path) -> None:
    step = {"debug": {"msg": "the images are fetched"}, "when": tasks_of("virt_guests")["Fetch the base images"]["when"]}
    code, output = ControlNode(tmp_path).play([step], virt_guests_state=state, virt_guests_images=[{"name": "one"}])
    assert code == 0 and ("the images are fetched" in output) == fetched, output
