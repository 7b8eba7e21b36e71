# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A canary in every secret option of every role, and several in their free settings: none is in the output of ``-vvv --diff``, in check mode."""

from __future__ import annotations

import pathlib
import re
import typing as t

from tests.canary import roles
from tests.support.canary import Canaries


def service_files(files: str) -> dict[str, t.Any]:
    """The task of the roles."""
    return {"reduced.footprint.service_files": {"files": f"{{{{ {files} }}}}"}}


def test_secrets_of_roles_are_not_disclosed(tmp_path: pathlib.Path, ansible_playbook: str) -> None:
    canaries = Canaries()
    given, output = roles.configure(tmp_path, canaries, ansible_playbook, service_files, "--check", "--diff", "-vvv")
    # two are in files with passwords, which are not shown
    written = {name for name in given if name.endswith("_settings") and not name.startswith(("__", "compute_", "horizon_"))}
    assert {name for name in written if f"shown-{name}" in output} == written and "use_stderr = True" in output
    # other users of the server must not be able to read them either; the second level of -vvv shows the modes
    modes = re.findall(r'"content": "[^\n]*shown-[^\n]*\n[^{}]*"mode": "(\d+)"', output)
    assert len(modes) == len(written) and all(mode.endswith("0") for mode in modes), modes
    assert not canaries.in_text(output, ansible_playbook)
