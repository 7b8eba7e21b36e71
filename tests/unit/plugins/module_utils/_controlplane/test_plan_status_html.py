# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status report as an HTML page."""

from __future__ import annotations

import html.parser
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_html import status_html
from tests.support.controlplane import galera, look

NAMES = ["c1", "c2", "c3"]
HOSTILE = "<script>alert(1)</script>\"'&"


def found(**more: t.Any) -> dict[str, t.Any]:
    """What status finds: a controller with a failed database, one with drift, and an old copy of a moved VM."""
    vm = {"state": "running", "memory_mib": 4096, "cpu": 2, "hypervisor": "kvm"}
    places = {"c1": "metal1", "c2": "metal1", "c3": "metal2"}
    looks = {"c1": look(True), "c2": look(galera=galera("failed")), "c3": look()}
    return {
        "servers": {
            "metal1": {"reachable": True, "vms": [{"name": "c1", **vm}, {"name": "c2", **vm, "drift": [{"path": "vcpu"}], "pending": ["memory"]}]},
            "metal2": {"reachable": True, "vms": [{"name": "c3", **vm}, {"name": "old", **vm, "state": "shutdown", "moved": "metal1"}]},
            "metal3": {"reachable": False},
        },
        "controllers": {name: {"reachable": True, "error": "", "place": places[name], "look": looks[name]} for name in NAMES},
        "members": {"galera": NAMES, "load_balancer": NAMES},
        "migrations": [{"name": "master", "state": "done", "downtime_seconds": 31.2, "host": "metal1"}],
        **more,
    }


class Page(html.parser.HTMLParser):
    """A page that counts what it opens, and keeps its text; tags that are not closed in order are an error."""

    VOID = ("meta", "br", "!doctype")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.classes: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.classes += [str(value) for name, value in attrs if name == "class"]
        assert not [name for name, _value in attrs if name.startswith("on") or name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_placement_services_losses_and_drift() -> None:
    page = Page(status_html(build_status(found()), "home", "noon"))
    for words in (
        "Status of home", "2 of 3 servers answer, 3 of 3 virtual machines are running. As of noon.", "High availability none: ",
            "now, without the votes of c2; with them: restart",
        "without metal1 (c1) 1 of 3 remain", "4 GiB, 2 vCPUs, kvm",
        "running, changed outside, requires a restart", "old copy, moved to metal1", "c2: mariadb.service is failed", "clients of mysql are sent to c1",
        "vcpu", "DEGRADED galera: 2/3", "done, on metal1, 31.2 s of downtime",
    ):  # fmt: skip
        assert words in page.text, words
    assert [name for name in page.classes if name.startswith("vm ")] == ["vm ok", "vm note", "vm ok", "vm moved"]
    assert [name for name in page.classes if name.startswith("server ")] == ["server ok", "server ok", "server down"]


def test_a_vm_that_is_off_degrades_its_server() -> None:
    report = build_status({"servers": {"metal1": {"reachable": True, "vms": [{"name": "c1", "state": "shutdown"}]}}})
    assert "server degraded" in Page(status_html(report)).classes


def test_the_page_needs_nothing_else_and_runs_only_what_marks_it_as_stale() -> None:
    texts = [status_html(build_status(found()), "home", time) for time in ("", "2026-11-23 21:10 UTC", HOSTILE)]
    for text in texts:
        assert not {"link", "img", "iframe", "object", "form", "a"} & set(Page(text).tags) and not any(word in text for word in ("url(", "@import"))
    scripts = [text.partition("<script>")[2].partition("</script>")[0] for text in texts]
    assert [text.count("<script") for text in texts] == [0, 1, 1] and scripts[1] == scripts[2]
    # what the script reads, because no browser runs it here
    assert '<time datetime="2026-11-23T21:10Z">' in texts[1] and '<span id="age"></span>' in texts[1]


def test_free_memory_and_space_are_those_of_servers_that_answer() -> None:
    size = {"size_bytes": 100 << 30, "free_bytes": 45 << 30}
    pools = [{"name": "default", "active": True, **size}, {"name": "closed", "active": False, "size_bytes": 0, "free_bytes": 0}]
    given = found()
    given["servers"]["metal1"].update(memory={"size_bytes": 32 << 30, "free_bytes": 12 << 30}, pools=pools)
    text = Page(status_html(build_status(given))).text
    assert "memory: 12 GiB of 32 GiB free, pool default: 45 GiB of 100 GiB free" in text and "closed" not in text
    # of metal2; metal3 does not answer
    assert text.count("memory: unknown, pools: unknown") == 1
    # machines without VMs were not asked
    alone = {name: {**seen, "place": name} for name, seen in given["controllers"].items()}
    assert "memory:" not in Page(status_html(build_status({**given, "servers": {}, "controllers": alone}))).text


@pytest.mark.parametrize(
    "given",
    [
        {"servers": {HOSTILE: {"reachable": True, "vms": [{"name": HOSTILE, "state": HOSTILE, "hypervisor": HOSTILE, "drift": [{"path": HOSTILE}]}]}}},
        {"servers": {"metal1": {"reachable": True, "error": HOSTILE}}},
        {"servers": {"metal1": {"reachable": True, "vms": [{"name": "c1", "state": "running", "moved": HOSTILE}]}}},
        {"migrations": [{"name": HOSTILE, "state": HOSTILE, "phase": HOSTILE, "host": HOSTILE, "reason": HOSTILE}]},
        {"controllers": {HOSTILE: {"reachable": False, "place": HOSTILE}}, "members": {"galera": [HOSTILE]}},
    ],
    ids=["vm", "error", "moved", "migration", "controller"],
)
def test_values_are_escaped(given: dict[str, t.Any]) -> None:
    text = status_html(build_status({**found(), **given}), HOSTILE, HOSTILE)
    assert text.count("<script") == 1
    assert "<script>alert(1)</script>" in Page(text).text


def test_an_empty_footprint_has_a_page() -> None:
    text = Page(status_html(build_status({}))).text
    assert "No service of the control plane is installed." in text
    assert "no servers with virtual machines" in text
