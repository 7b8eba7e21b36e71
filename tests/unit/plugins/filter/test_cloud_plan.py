# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter ``cloud_decision`` and the lookup ``cloud_client``."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.filter.cloud_decision import bootstrap
from ansible_collections.reduced.footprint.plugins.lookup import cloud_client
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

LISTS = {"flavors": [{"name": "small", "ram": "512 MiB"}]}


def test_nothing_is_planned_without_the_state() -> None:
    assert bootstrap(LISTS, {})["lines"] == []


def test_plan() -> None:
    found = bootstrap(LISTS, {}, [], {"flavors": []})
    assert found["lines"] == ["flavors: create small"]
    assert found["actions"]["flavors"][0]["ram"] == 512


def test_invalid_list() -> None:
    with pytest.raises(InputError, match=r"cloud_bootstrap_flavors\[0\].rma: is not a known key. Did you mean ram\?"):
        bootstrap({"flavors": [{"name": "small", "rma": 1}]}, {})


@pytest.mark.parametrize(
    "version, sdk, words",
    [
        ("2.5.0", "4.10.0", []),
        ("2.4.1", "4.4.0", []),
        (None, "4.4.0", ["openstack.cloud is not installed"]),
        ("1.10.0", "4.4.0", ["has the version 1.10.0; required is 2.4 or newer, below 3"]),
        ("2.5.0", "4.22.0", ["openstacksdk has the version 4.22.0, which openstack.cloud cannot use. Run `pip install 'openstacksdk>=4.4,<4.11'`"]),
        ("3.0.0", None, ["has the version 3.0.0", "openstacksdk is missing"]),
    ],
)
def test_requirements(version: str | None, sdk: str | None, words: list[str]) -> None:
    found = cloud_client.missing(version, sdk)
    assert len(found) == len(words) and all(word in line for word, line in zip(words, found))


def test_version_of_a_collection() -> None:
    assert cloud_client._version("none.such") is None
    # a checkout
    assert cloud_client._version("reduced.footprint") == "2.4"
