# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options with which Galera would not start are refused before anything is changed."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode


def variables(role: str) -> t.Mapping[str, t.Any]:
    """Return the internal variables of a role."""
    return yaml.safe_load((ROOT / "roles" / role / "vars/main.yml").read_text("utf-8"))


DEFAULTS = variables("galera")["__galera_membership_options"]


def test_members_and_witnesses_have_the_same_timeouts() -> None:
    assert variables("witness")["__witness_membership_options"] == DEFAULTS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"gcache.size": "128M", "evs.suspect_timeout": "PT3.5S"}, ""),
        ({"evs.suspect_timeout": "PT2S", "evs.keepalive_period": "PT0.5S"}, ""),
        ({"evs.suspect_timeout": "PT1.2S"}, "evs.keepalive_period (PT0.4S) must be less than a third of evs.suspect_timeout (PT1.2S)"),
        ({"evs.keepalive_period": "PT2S"}, "evs.keepalive_period (PT2S) must be less than a third of evs.suspect_timeout (PT1.8S)"),
        ({"evs.suspect_timeout": "soon"}, "evs.suspect_timeout (soon), and"),
        ({"evs.suspect_timeout": 10}, "evs.suspect_timeout (10), and"),
        ({"evs.inactive_check_period": "PT0.9S"}, "evs.inactive_check_period (PT0.9S) less than half of it, all in seconds such as PT5S"),
        ({"evs.suspect_timeout": "PT0.4S", "evs.keepalive_period": "PT0.1S"}, "evs.inactive_check_period (PT0.2S) less than half"),
    ],
)
def test_timeouts_with_which_a_member_would_not_start_are_refused(given: t.Mapping[str, t.Any], words: str, tmp_path: pathlib.Path) -> None:
    tasks = yaml.safe_load((ROOT / "roles/galera/tasks/check.yml").read_text("utf-8"))
    code, output = ControlNode(tmp_path).play(tasks, galera_provider_options=given, __galera_membership_options=DEFAULTS)
    assert (code == 0) is (not words) and words in " ".join(output.split()), output
