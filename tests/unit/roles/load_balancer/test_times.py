# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The times of the load balancer: invalid ones are refused, and keepalived's scripts follow the interval."""

from __future__ import annotations

import pathlib
import re
import typing as t

import jinja2
import pytest
import yaml

from tests.support.control_node import ROOT, ControlNode

ROLE = ROOT / "roles/load_balancer"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ""),
        ({"load_balancer_advert_interval": 0.5, "load_balancer_wait_timeout": 600}, ""),
        ({"load_balancer_advert_interval": 0}, "load_balancer_advert_interval: 0 is not supported. Use a number of seconds greater than 0."),
        ({"load_balancer_advert_interval": -1}, "load_balancer_advert_interval: -1 is not supported."),
        ({"load_balancer_wait_timeout": "soon"}, "load_balancer_wait_timeout: soon is not supported."),
    ],
)
def test_invalid_times_are_refused(given: t.Mapping[str, t.Any], words: str, tmp_path: pathlib.Path) -> None:
    (task,) = [task for task in yaml.safe_load((ROLE / "tasks/check.yml").read_text("utf-8")) if task["name"] == "Check the times"]
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text("utf-8"))
    times = {name: defaults[name] for name in ("load_balancer_advert_interval", "load_balancer_wait_timeout")}
    code, output = ControlNode(tmp_path).play([task], **{**times, **given})
    assert (code == 0) is (not words) and words in " ".join(output.split()), output


@pytest.mark.parametrize(("interval", "timeout", "single", "other"), [
    (0.01, "3000ms", ("100ms", "50ms"), ("200ms", "100ms")), (0.5, "3000ms", ("500ms", "250ms"), ("1000ms", "500ms")),
    (3, "9000ms", ("3000ms", "1500ms"), ("6000ms", "3000ms")),
])  # fmt: skip
def test_the_checks_of_haproxy_follow_the_interval(interval: float, timeout: str, single: tuple[str, str], other: tuple[str, str]) -> None:
    """Members of a service with one member in use, which every client requires, are checked twice as often."""
    environment = jinja2.Environment(trim_blocks=True)
    environment.filters["reduced.footprint.member_addresses"] = lambda names, unused, variable: names
    text = environment.from_string((ROLE / "templates/haproxy.cfg.j2").read_text("utf-8")).render(
        load_balancer_advert_interval=interval, load_balancer_frontends=[{"name": "api", "port": 80}, {"name": "mysql", "port": 3306, "single": True}],
        load_balancer_group="controller", groups={"controller": ["c1", "c2"]}, hostvars={}, __load_balancer_named={"main": "192.0.2.20"},
        __load_balancer_members=[], __load_balancer_tracks_services=False,
    )  # fmt: skip
    words = text.split()
    assert words[words.index("check") + 1] == timeout
    defaults, services = text.partition("peers footprint")[::2]
    found = [re.findall(r"inter (\w+) fastinter (\w+)", part) for part in (defaults, *services.split("\nlisten ")[2:])]
    assert found == [[other], [], [single]]


def pause(interval: float) -> str:
    """Return the seconds between two runs of keepalived's script."""
    variables = yaml.safe_load((ROLE / "vars/main.yml").read_text("utf-8"))
    return jinja2.Template(variables["__load_balancer_pause"]).render(load_balancer_advert_interval=interval)


@pytest.mark.parametrize(("interval", "every"), [(0.5, 1), (1, 1), (2.5, 3)])
@pytest.mark.parametrize("single", [True, False])
def test_the_scripts_of_keepalived_follow_the_interval(interval: float, every: int, single: bool) -> None:
    address = {"name": "main", "address": "192.0.2.20", "router_id": 20, "prefix": 32, "interface": "eth0"}
    template = jinja2.Environment(trim_blocks=True).from_string((ROLE / "templates/keepalived.conf.j2").read_text("utf-8"))
    text = template.render(
        ansible_managed="", inventory_hostname="c2", load_balancer_advert_interval=interval, __load_balancer_pause=pause(interval),
        load_balancer_stats_port=8404,
        __load_balancer_tools="/usr/bin", __load_balancer_tracks_services=single, __load_balancer_tracks_peers=single, __load_balancer_usable_uri="/usable",
        __load_balancer_usable_script="/usable.sh", __load_balancer_home="eth0", __load_balancer_number=1, __load_balancer_address="192.0.2.12",
        __load_balancer_addresses=["192.0.2.11", "192.0.2.12"],
        __load_balancer_seen={"virtual_addresses": {"addresses": [address]}},
    )  # fmt: skip
    intervals = [int(line.split()[1]) for line in text.splitlines() if line.strip().startswith("interval ")]
    tracked = text.partition("track_script {")[2].partition("}")[0].split()
    # a second script that has no result yet would keep keepalived in FAULT; the answer of HAProxy says that it runs
    assert (tracked, intervals) == (["usable" if single else "haproxy"], [every])
