# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copy of an image on the control node, which is complete or does not have its name."""

from __future__ import annotations

import hashlib
import json
import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

CONTENT = b"image" * 1000


@pytest.fixture(name="control")
def fixture_control(tmp_path: pathlib.Path) -> ControlNode:
    built = tmp_path / "built"
    built.mkdir()
    (built / "debian-13.qcow2").write_bytes(CONTENT)
    (built / "debian-13.abc.json").write_text(json.dumps({"sha512": hashlib.sha512(CONTENT).hexdigest()}), "utf-8")
    return ControlNode(tmp_path)


def copy(control: ControlNode) -> tuple[int, str]:
    """Run the last task of the role, on a host with a local connection."""
    task: dict[str, t.Any] = yaml.safe_load((ROOT / "roles/cloud_image/tasks/main.yml").read_text("utf-8"))[-1]
    folders = {"cloud_image_directory": str(control.folder / "built"), "cloud_image_destination": str(control.folder / "images")}
    values = {"cloud_image_name": "debian-13", **folders}
    return control.play([task], __cloud_image_inputs="abc", __cloud_image_built={"changed": False}, **HERE, **values)


def test_the_copy_of_a_run_that_was_killed_is_completed(control: ControlNode) -> None:
    images = control.folder / "images"
    images.mkdir()
    (images / "debian-13.qcow2.part").write_bytes(CONTENT[:100])
    code, output = copy(control)
    assert code == 0 and "changed=2" in output, output
    assert (images / "debian-13.qcow2").read_bytes() == CONTENT and sorted(path.name for path in images.iterdir()) == ["debian-13.json", "debian-13.qcow2"]
    code, output = copy(control)
    assert code == 0 and "changed=0" in output, output


def test_an_image_that_was_damaged_after_it_was_built_is_refused(control: ControlNode) -> None:
    (control.folder / "built/debian-13.qcow2").write_bytes(CONTENT[:100])
    code, output = copy(control)
    assert code != 0 and "was changed or damaged after it was built" in " ".join(output.split()), output
    assert not (control.folder / "images/debian-13.qcow2").exists()
