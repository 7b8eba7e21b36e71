# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key ``standby`` of VM details."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import Standby, servers_error
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms

ROLES = {"metal1": ["virt"], "metal2": ["virt", "compute"], "metal3": ["compute"]}


def parsed(standby: t.Any, **more: t.Any) -> Standby | None:
    """The standby of a VM with one disk."""
    return parse_vms([{"id": "m", "disks": [{"size": "1GiB"}], "standby": standby, **more}], cluster="c")[0].standby


def test_forms() -> None:
    assert parsed(None) is None and parsed("") is None
    assert parsed("metal2") == Standby("metal2", 900, 2) == parsed({"server": "metal2"})
    assert parsed({"server": "metal2", "interval": 60, "copies": 5}) == Standby("metal2", 60, 5)
    assert parsed({"server": "metal2", "automatic": True}) == Standby("metal2", 900, 2, True)
    assert parsed({"server": "metal2", "automatic": None}) == Standby("metal2", 900, 2, False)


@pytest.mark.parametrize(
    ("standby", "more", "path", "message"),
    [
        (["metal2"], {}, "vms[0].standby", "not a valid name"),
        ({}, {}, "vms[0].standby.server", "is missing"),
        ({"server": "metal2", "intervall": 60}, {}, "vms[0].standby.intervall", "Did you mean interval"),
        ({"server": "metal2", "interval": 5}, {}, "vms[0].standby.interval", "between 10"),
        ({"server": "metal2", "copies": 0}, {}, "vms[0].standby.copies", "between 1"),
        ({"server": "metal2", "automatic": "maybe"}, {}, "vms[0].standby.automatic", ""),
        ("metal/2", {}, "vms[0].standby", ""),
        ("metal2", {"hypervisor": "lxc"}, "vms[0].standby", "not supported for containers"),
        ("metal2", {"disks": []}, "vms[0].standby", "without disks"),
        ("metal2", {"disks": [{"size": "1GiB", "format": "raw", "shareable": True, "name": "s"}]}, "vms[0].standby", "shared disk"),
    ],
)
def test_invalid(standby: t.Any, more: dict[str, t.Any], path: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(standby, **more)
    assert caught.value.path == path and message in str(caught.value) and caught.value.hint


@pytest.mark.parametrize(
    ("server", "here", "message"),
    [
        ("metal2", "metal1", None),
        ("metal2", None, None),
        ("metal1", "metal1", "the VM itself"),
        ("metal9", "metal1", "not a server"),
        ("metal3", "metal1", "role virt"),
    ],
)
def test_servers(server: str, here: str | None, message: str | None) -> None:
    error = servers_error(Standby(server, 900, 2), here, ROLES, "vms[0].standby")
    assert (error is None) if message is None else (error is not None and message in str(error) and error.hint is not None)
