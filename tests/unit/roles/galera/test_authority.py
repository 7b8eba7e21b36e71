# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another certificate authority is refused while members are running that would not accept its certificates."""

from __future__ import annotations

import pathlib
import sys

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

OLD, NEW = ("".join(f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n") for text in ("b2xk", "bmV3"))


@pytest.mark.parametrize(
    "tls, present, wanted, good",
    [
        ("on", OLD, OLD, True),
        ("both", OLD, f"{OLD}\n", True),
        ("on", OLD, NEW, False),
        # both of them for a while, then the new one only
        ("on", OLD, OLD + NEW, True),
        ("on", OLD + NEW, NEW, True),
        # stopped, and plain text
        (None, OLD, NEW, True),
        ("off", OLD, NEW, True),
        ("off", "", NEW, True),
        # in check mode, one that would be generated
        ("on", OLD, "", True),
    ],
)
def test_the_authority_of_running_members_is_kept(tls: str | None, present: str, wanted: str, good: bool, tmp_path: pathlib.Path) -> None:
    if present:
        (tmp_path / "ca.pem").write_text(present, "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/galera/tasks/certificate.yml").read_text("utf-8"))[:2]
    given = {
        "__galera_tls_directory": str(tmp_path), "__galera_here": {"galera": {"tls": tls}}, "__galera_tls_made": {"ca": wanted},
        "ansible_connection": "local", "ansible_python_interpreter": sys.executable,
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play(tasks, **given)
    assert (code == 0) == good and (good or "galera/ca: the certificate of metal2 is signed by another authority" in " ".join(output.split())), output
