# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the server that services rely on."""

from __future__ import annotations

import pathlib
import typing as t

import jinja2
import pytest

TEMPLATE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "templates" / "galera.cnf.j2"


def settings(given: dict[str, t.Any], isolation: bool = False) -> dict[str, str]:
    """Return the settings of the section mysqld as the server reads them: the last one of a name counts."""
    environment = jinja2.Environment(undefined=jinja2.ChainableUndefined, trim_blocks=True)
    environment.filters["bool"] = bool
    environment.filters["dictsort"] = lambda value: sorted(value.items()) if isinstance(value, dict) else []
    text = environment.from_string(TEMPLATE.read_text("utf-8")).render(
        galera_settings=given,
        galera_snapshot_isolation=isolation,
        __galera_addresses=[],
        __galera_witness_addresses=[],
        __galera_all_provider_options={},
        __galera_tls_stage="off",
    )
    lines = [line.partition("=") for line in text.partition("[sst]")[0].splitlines() if "=" in line and not line.startswith("#")]
    return {name.strip().removeprefix("loose_"): value.strip() for name, unused, value in lines}


@pytest.mark.parametrize(
    ("given", "isolation", "value"), [({}, False, "OFF"), ({}, True, "ON"), ({"innodb_snapshot_isolation": "ON"}, False, "ON")]
)
def test_transactions_fail_because_another_one_wrote_only_on_request(given: dict[str, t.Any], isolation: bool, value: str) -> None:
    assert settings(given, isolation)["innodb_snapshot_isolation"] == value


def test_a_running_server_accepts_changes_of_its_provider() -> None:
    # seen on MariaDB 11.8: with the plugin, SET GLOBAL wsrep_provider_options fails with error 1210
    assert settings({})["plugin_wsrep_provider"] == "OFF"
