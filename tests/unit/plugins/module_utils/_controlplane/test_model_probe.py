# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Declared services and their probes."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.model_probe import parse_probe, probes_by_host
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

GROUPS = {"all": ["a", "b", "c"], "web": ["a", "b"], "empty": []}


@pytest.mark.parametrize(
    ("value", "kind"),
    [(25, "port"), ("65535", "port"), ("http://localhost/x?y=1", "url"), ("https://[::1]:8443", "url"), ("web.service", "unit"), ("a@b-c.timer", "unit")],
)
def test_a_probe_is_a_port_a_url_or_a_unit(value: t.Any, kind: str) -> None:
    assert parse_probe(value, "x") == (kind, str(value))


@pytest.mark.parametrize("value", ["0", "65536", "-1", "ftp://host/", "http://", "http:// x", "web", "--help.service x", "", None, True, ["a.service"]])
def test_anything_else_is_refused(value: t.Any) -> None:
    with pytest.raises(InputError, match="is not a probe. Write a TCP port") as error:
        parse_probe(value, "status_services[0].probe")
    assert error.value.path == "status_services[0].probe"


def test_each_host_gets_its_probes() -> None:
    declared = [{"name": "shop", "group": "web", "probe": 80}, {"name": "mail", "hosts": ["b", "c"], "group": None, "probe": "25"}]
    assert probes_by_host(declared, GROUPS) == {"a": {"shop": "80"}, "b": {"shop": "80", "mail": "25"}, "c": {"mail": "25"}}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"hosts": ["a"], "group": "web"}, "status_services[0]: expected either hosts or a group."),
        ({}, "status_services[0]: expected either hosts or a group."),
        ({"group": "wbe"}, "status_services[0].group: the group 'wbe' has no hosts. Did you mean web?"),
        ({"group": "empty"}, "status_services[0].group: the group 'empty' has no hosts."),
        ({"hosts": ["a", "d"]}, "status_services[0].hosts: unknown host 'd'."),
        ({"hosts": ["a", "a"]}, "status_services[0].name: shop is declared twice for a."),
        ({"hosts": ["a"], "probe": "x"}, "status_services[0].probe: 'x' is not a probe."),
    ],
)
def test_mistakes_are_named_with_their_place(entry: dict[str, t.Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        probes_by_host([{"name": "shop", "probe": 80, **entry}], GROUPS)
    assert str(error.value).startswith(message)
