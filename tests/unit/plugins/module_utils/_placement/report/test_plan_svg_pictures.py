# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_report import build_report
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_svg import plan_svg
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_text import plan_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support import plans
from tests.support.placement import question, server, servers

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("case", plans.CASES)
def test_the_pictures_of_the_documentation_are_those_that_are_drawn(case):
    assert plans.picture(case) == (plans.PICTURES / f"{case}.svg").read_text("utf-8"), "redraw them with python -m tests.support.plans"


@pytest.mark.parametrize("case", [case for case in plans.CASES if case != "plan-30"])
def test_the_text_is_the_one_that_is_kept(case):
    assert plans.text(case) == (plans.TEXTS / f"{case}.txt").read_text("utf-8"), "rewrite it with python -m tests.support.plans"


@pytest.mark.parametrize("case", plans.CASES)
def test_a_picture_is_whole_and_needs_nothing_else(case):
    report, text = plans.report(case), plans.picture(case)
    root = ElementTree.fromstring(text)
    assert not any(word in text.replace("http://www.w3.org/2000/svg", "") for word in ("http", "href", "url(", "<script", "<image", "@import"))
    said = " ".join(node.text or "" for node in root.iter())
    for entry in report["placements"]:
        assert f"{entry['name']}: " in said
    for machine in report["servers"]:
        assert machine["lost"]["sentence"] in said


@pytest.mark.parametrize("case", plans.CASES)
def test_nothing_sticks_out_of_the_picture_or_of_its_server(case):
    root = ElementTree.fromstring(plans.picture(case))
    width, height = (float(root.get(name)) for name in ("width", "height"))
    for node in root.iter(f"{SVG}rect"):
        x, y, wide, high = (float(node.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + wide <= width and y + high <= height
    for group in root.iter(f"{SVG}g"):
        boxes = [[float(node.get(name)) for name in ("x", "y", "width", "height")] for node in group.findall(f"{SVG}rect")]
        for box in boxes[1:]:
            assert boxes[0][0] <= box[0] and box[0] + box[2] <= boxes[0][0] + boxes[0][2]
            assert boxes[0][1] <= box[1] + 0.2 and box[1] + box[3] <= boxes[0][1] + boxes[0][3] + 0.2


def test_a_vm_is_as_high_as_its_memory():
    report = build_report(plan_placement(question(servers(64), [{"id": "a", "ram": 8}, {"id": "b", "ram": 32}])))
    group = next(node for node in ElementTree.fromstring(plan_svg(report)).iter(f"{SVG}g") if len(node.findall(f"{SVG}rect")) > 2)
    # the server, its memory, then the larger and the smaller VM
    high = [float(node.get("height")) + 1 for node in group.findall(f"{SVG}rect")[-2:]]
    assert high[0] / high[1] == pytest.approx(4, abs=0.1)


@pytest.mark.parametrize("number", [0, 1, 5, 9, 61, 200])
def test_any_number_of_servers_has_picture_and_text(number):
    report = build_report(plan_placement(question(servers(*[8] * number), [{"id": index, "ram": 1, "roles": [f"role{index}"]} for index in range(number * 2)])))
    assert ElementTree.fromstring(plan_svg(report)).tag == f"{SVG}svg"
    text = plan_text(report)
    assert max(len(line) for line in text) <= 130
    assert len(text) < 500


def test_names_cannot_break_the_picture():
    machines = [{**server("metal1"), "roles": ["virt", "a" * 60]}]
    report = build_report(plan_placement(question(machines, [{"id": "v" * 63, "ram": 1}])))
    report["servers"][0]["lost"]["sentence"] = "<&\"'>"
    ElementTree.fromstring(plan_svg(report))
