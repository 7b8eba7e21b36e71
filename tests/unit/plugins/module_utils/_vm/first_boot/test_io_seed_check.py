# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Seeds that cloud-init ignores are refused, and none that it reads."""

from __future__ import annotations

import sys
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.io_seed_check import check
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import parse_cloud_init


def given(key: str, value: t.Any) -> None:
    """Check a seed with one of its parts."""
    seed = parse_cloud_init({key: value}, "vms[0]", "the-uuid", "the-name")
    assert seed is not None
    check(seed, "vms[0]")


MIME = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: {kind}\n\n{text}\n--B--\n"

READ: list[t.Any] = [
    {"users": ["default", {"name": "admin"}]},
    "#cloud-config\nusers:\n  - name: admin\n",
    "\n  #Cloud-Config\nusers: []\n",
    "#cloud-config\n",
    "#cloud-config\n# nothing\n",
    "#cloud-config\n{\"users\": []}\n",
    "#!/bin/sh\n\techo: [\n",
    "#!/usr/bin/env python3\n",
    "#include\nhttps://example.com/x\n",
    "#include-once https://example.com/x\n",
    "#part-handler\ndef list_types(): pass\n",
    "#cloud-boothook\n#!/bin/sh\n",
    "#cloud-config-archive\n- type: text/x-shellscript\n  content: x\n",
    "#cloud-config-jsonp\n[{\"op\": \"add\"}]\n",
    "## template: jinja\n#cloud-config\nhostname: {{ v1.local_hostname }}\n{% if a %}\n",
    "## template: jinja\n{# a comment #}\n#cloud-config\n",
    "## template: jinja\n#!/bin/sh\n",
    "#ps1_sysnative\nGet-Item x\n",
    MIME.format(kind="text/cloud-config", text="users: []"),
    MIME.format(kind="text/x-shellscript", text="#!/bin/sh\n["),
    MIME.format(kind="text/x-of-a-part-handler", text="anything: ["),
    " \n",
]  # fmt: skip


@pytest.mark.parametrize("user_data", READ)
def test_what_cloud_init_reads(user_data: t.Any) -> None:
    given("user_data", user_data)


HEADER, YAML = "has no format", "is not valid YAML"
IGNORED: list[tuple[str, str]] = [
    ("users:\n  - name: admin\n", HEADER),
    ("# cloud-config\nusers: [{name: admin}]\n", HEADER),
    ("\ufeff#cloud-config\n", HEADER),
    ("## template: jinja\nusers: []\n", HEADER),
    ("# a comment\n#cloud-config\nusers: []\n", HEADER),
    ("#cloud-config\nusers:\n- name: admin\n   groups: sudo\n", YAML),
    ("#cloud-config\nusers:\n\t- name: admin\n", YAML),
    ("#cloud-config\n{\n\t\"users\": []\n}\n", YAML),
    ("#cloud-config\npassword: *hunter2\n", YAML),
    ("#cloud-config\npassword: !hunter2\n", YAML),
    ("#cloud-config\n- users\n", "is a list, not a mapping"),
    ("#cloud-config\nhunter2\n", "is text, not a mapping"),
    (MIME.format(kind="text/cloud-config", text="a:\n- b\n   c: d"), YAML),
]  # fmt: skip


@pytest.mark.parametrize("user_data, problem", IGNORED)
def test_user_data_that_cloud_init_ignores(user_data: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        given("user_data", user_data)
    assert (raised.value.path, problem in str(raised.value), "hunter2" in str(raised.value)) == ("vms[0].user_data", True, False), raised.value
    assert raised.value.hint


ETHERNET = {"eno1": {"match": {"macaddress": "02:00:00:00:00:01"}, "dhcp4": True}}
NETWORKS: list[t.Any] = [
    {"version": 2},
    {"version": 2, "renderer": "networkd", "ethernets": ETHERNET, "openvswitch": {"protocols": []}, "vrfs": {"v": {"table": 1}}},
    {"network": {"version": 2, "ethernets": ETHERNET}},
    {"version": 1, "config": [{"type": "physical", "name": "eth0", "mac_address": "02:00:00:00:00:01"}]},
    {"config": "disabled"},
    "network: {config: disabled}\n",
    "version: 2\nethernets:\n  ens3:\n    match: {macaddress: \"10:11:12:13:14:15\"}\n    dhcp4: true\n",
    "version: 2\nethernets:\n  ens3:\n    match: {macaddress: 52:54:00:ab:cd:ef}\n    dhcp4: true\n",
    "# nothing\n",
]  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_that_cloud_init_reads(network: t.Any) -> None:
    given("network_config", network)


LOST: list[tuple[t.Any, str, str]] = [
    ("network:\nversion: 2\nethernets:\neno1:\ndhcp4: true\n", ".network", "indentation"),
    ("version: 2\nethernets:\neno1:\n  dhcp4: true\n", ".ethernets", "is nothing, not a mapping"),
    ("version: 2\nethernets:\n  eno1:\n  dhcp4: true\n", ".ethernets.eno1", "is nothing, not a mapping"),
    ("version: 2\nethernets:\n\tens3: {dhcp4: true}\n", "", "line 3"),
    ("- type: physical\n  name: eth0\n", "", "is a list, not a mapping"),
    ("ethernets: {}\n", ".version", "is missing"),
    ({"version": "2", "ethernets": {}}, ".version", "neither 1 nor 2"),
    ({"version": 2, "ethernet": {}}, ".ethernet", "is not a known key"),
    ({"version": 1}, ".config", "list of mappings"),
    ({"version": 1, "config": [{"name": "eth0"}]}, ".config", "list of mappings"),
    ({"version": 2, "ethernets": {"a": {"match": {"macaddress": 41135085296}, "dhcp4": True}}}, ".ethernets.a.match.macaddress", "in quotes"),
    ("version: 2\nethernets: {a: {match: {macaddress: 10:11:12:13:14:15}}}\n", ".ethernets.a.match.macaddress", "in quotes"),
    ({"version": 1, "config": [{"type": "physical", "mac_address": 41135085296}]}, ".config[0].mac_address", "in quotes"),
    ({"network": {"version": 3}}, ".network.version", "neither 1 nor 2"),
]  # fmt: skip


@pytest.mark.parametrize("network, below, problem", LOST)
def test_networks_that_cloud_init_ignores(network: t.Any, below: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        given("network_config", network)
    assert raised.value.path == f"vms[0].network_config{below}"
    assert problem in str(raised.value) and raised.value.hint


def test_other_data_is_a_mapping() -> None:
    given("meta_data", "local-hostname: a\n")
    with pytest.raises(InputError, match=r"vms\[0\].meta_data: is not valid YAML\."):
        given("meta_data", "local-hostname: a\n b: c\n")


def test_only_texts_require_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    given("user_data", {"users": []})
    given("user_data", "#!/bin/sh\n")
    with pytest.raises(BackendError, match="python3-yaml"):
        given("user_data", "#cloud-config\nusers: []\n")
