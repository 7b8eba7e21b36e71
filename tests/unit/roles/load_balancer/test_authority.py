# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No authority is created on a control node that does not have the secrets with which the hosts were deployed."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

RECORD = '{"mark": "a1b2", "schema": 1}'


@pytest.mark.parametrize(
    "records, files, good",
    [
        ([], {}, True),
        ([RECORD], {}, False),
        ([RECORD], {".store": "c3d4"}, False),
        ([RECORD], {".store": "a1b2"}, True),
        # from before there were schema numbers
        (["a1b2"], {".store": "a1b2"}, True),
        ([RECORD], {"tls/ca.txt": "PEM"}, True),
    ],
)
def test_an_authority_is_created_only_beside_the_secrets_in_use(records: list[str], files: dict[str, str], good: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "secrets/tls").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "secrets" / name).write_text(f"{text}\n", "utf-8")
    tasks = yaml.safe_load((ROOT / "roles/load_balancer/tasks/check.yml").read_text("utf-8"))
    check = [task for task in tasks if task["name"] == "Check that no authority is created beside that of the footprint"]
    given = {
        "footprint_secrets_stores": records, "__load_balancer_secrets": str(tmp_path / "secrets"), "load_balancer_tls_directory": str(tmp_path / "secrets/tls"),
        "__load_balancer_tls": True, "load_balancer_certificate": "",
    }  # fmt: skip
    code, output = ControlNode(tmp_path).play(check, **given)
    assert check and (code == 0) == good and (good or "Clients would not trust a new authority." in " ".join(output.split())), output
