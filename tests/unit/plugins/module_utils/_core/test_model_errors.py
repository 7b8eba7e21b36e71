# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several errors together; missing Python libraries, with a real interpreter that has none of them: a virtual environment."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

USE = """
import sys
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms

try:
    define_vms(DefineRequest("lab", [{"id": "a", "user_data": "#cloud-config"}], uri="qemu:///system", lock_timeout=5), check_mode=sys.argv[1] == "check")
except BackendError as error:
    print(error)
"""


@pytest.fixture(name="python", scope="module")
def fixture_python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin" / "python"


def test_all_are_named_at_once_with_the_interpreter(python: pathlib.Path) -> None:
    paths = [path for path in sys.path if (pathlib.Path(path) / "ansible_collections").is_dir()]
    done = subprocess.run([str(python), "-c", USE, "run"], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(paths[:1])})
    assert f"the Python interpreter of this host, {python}, cannot import libvirt, lxml, jinja2, yaml." in done.stdout, done.stdout + done.stderr
    assert "Install python3-libvirt, python3-lxml, python3-jinja2, python3-yaml (the role" in done.stdout
    assert "set ansible_python_interpreter to /usr/bin/python3" in done.stdout


def test_what_is_present_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    error = model_errors.missing_libraries("json", "absent_library", "sys")
    assert error.message == "the Python interpreter of this host, /usr/bin/python3, cannot import absent_library."
    assert error.hint == "Install python3-absent_library (the role virt_host does so on virt hosts)."


def fail(error: Exception) -> None:
    raise error


def test_several_errors_are_reported_together_and_one_as_itself() -> None:
    problems = model_errors.Problems()
    assert problems.call(lambda value: value + 1, 1) == 2
    problems.check()
    assert problems.call(fail, model_errors.RefusedError("is refused.", "a")) is None
    problems.call(fail, model_errors.RefusedError("is refused.", "a"))
    with pytest.raises(model_errors.RefusedError, match="^a: is refused.$"):
        problems.check()
    problems.call(fail, model_errors.InputError("is missing.", "b"))
    with pytest.raises(model_errors.InputError, match="^2 errors:\n  a: is refused.\n  b: is missing.$"):
        problems.check()
    with pytest.raises(ValueError, match="other"):
        problems.call(fail, ValueError("other"))
