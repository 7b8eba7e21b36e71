# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of the copies are the same text in every run: the peers have the order of the group."""

from __future__ import annotations

import pathlib

import jinja2
import yaml

VARS = yaml.safe_load((pathlib.Path(__file__).resolve().parents[4] / "roles" / "glance" / "vars" / "main.yml").read_text("utf-8"))


def test_peers_have_the_order_of_the_group() -> None:
    # Jinja's own filters keep the order; those of Ansible for sets, which it does not have, do not
    peers = jinja2.Environment(autoescape=False).from_string(VARS["__glance_copies_wish"]["peers"])
    addresses = [f"192.0.2.{number}" for number in range(9, 0, -1)]
    found = peers.render({"__openstack_service_addresses": addresses, "__openstack_service_address": "192.0.2.5"})
    assert yaml.safe_load(found) == [one for one in addresses if one != "192.0.2.5"]
