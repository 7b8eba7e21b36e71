# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that the boot server serves."""

from __future__ import annotations

import pathlib
import stat
import typing as t

import pytest
import yaml

from tests.support.control_node import HERE, ROOT, ControlNode

COPY = ("Find the manifests of what was built", "Remove them before other files take their place", "Copy the system")
CREATE = ("Let the service enter the directory above", "Create the directory")
#: The tasks run here.


def tasks(*names: str) -> list[t.Any]:
    """Tasks of the role by their names."""
    return [task for task in yaml.safe_load((ROOT / "roles/boot_server/tasks/present.yml").read_text("utf-8")) if task["name"] in names]


@pytest.mark.parametrize(("before", "after"), [(0o700, 0o711), (0o755, 0o755), (None, 0o755)])
def test_the_user_of_the_service_reaches_them(tmp_path: pathlib.Path, before: int | None, after: int) -> None:
    above = tmp_path / "above"
    if before is not None:
        above.mkdir(mode=before)
    control = ControlNode(tmp_path / "control")
    values = {"__boot_server_home": str(above / "boot"), "__boot_server_files": str(above / "boot/system"), **HERE}
    code, output = control.play(tasks(*CREATE), **values)
    assert code == 0, output
    assert [stat.S_IMODE(path.stat().st_mode) for path in (above, above / "boot", above / "boot/system")] == [after, 0o755, 0o755]
    code, output = control.play(tasks(*CREATE), **values)
    assert code == 0 and "changed=0" in output, output


@pytest.mark.parametrize(("root", "left"), [(False, ["root-1.json"]), (True, [])])
def test_what_is_copied_is_not_taken_for_what_was_built(tmp_path: pathlib.Path, root: bool, left: list[str]) -> None:
    # otherwise it would be served, with the keys in it, after boot_server_system was removed again
    given, files = tmp_path / "given", tmp_path / "files"
    given.mkdir()
    files.mkdir()
    for name in ("vmlinuz", "initrd", "root.tar.zst", "root.json"):
        (given / name).write_text("elsewhere", "utf-8")
        (files / name).write_text("here", "utf-8")
    for name in ("manifest-1.json", "root-1.json"):
        (files / name).touch()
    values = {"__boot_server_files": str(files), "boot_server_root": root, **HERE}
    control = ControlNode(tmp_path / "control")
    code, output = control.play(tasks(*COPY), boot_server_system="", **values)
    assert code == 0 and len(list(files.glob("*-1.json"))) == 2, output
    code, output = control.play(tasks(*COPY), boot_server_system=str(given), **values)
    assert code == 0 and [path.name for path in files.glob("*-1.json")] == left, output
    assert (files / "initrd").read_text("utf-8") == "elsewhere"
    code, output = control.play(tasks(*COPY), boot_server_system=str(given), **values)
    assert code == 0 and "changed=0" in output, output
