# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rotation keeps keys for as long as tokens are valid, however that was set."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.support.control_node import ROOT, ControlNode


@pytest.mark.parametrize(
    "given, seconds",
    [
        ({}, 3600 + 172800),
        ({"keystone_token_expiration": 7200}, 7200 + 172800),
        ({"keystone_settings": {"token": {"expiration": 864000}}}, 864000 + 172800),
    ],
)
def test_keys_are_kept_until_tokens_expire(given: dict[str, t.Any], seconds: int, tmp_path: pathlib.Path) -> None:
    files = [str(ROOT / "roles/keystone" / folder / "main.yml") for folder in ("defaults", "vars")]
    tasks: list[t.Any] = [{"ansible.builtin.include_vars": file} for file in files]
    # defaults that were included would win
    tasks += [{"ansible.builtin.set_fact": given}] if given else []
    tasks.append({"ansible.builtin.debug": {"msg": "kept for {{ __keystone_repositories[0].keep }} s"}})
    code, output = ControlNode(tmp_path).play(tasks, memcached_group="virt", galera_group="virt", keystone_group="virt")
    assert code == 0 and f"kept for {seconds} s" in output, output
