# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plans whose text and picture are kept: the pictures are those the documentation shows.

    python -m tests.support.plans     # draw and write them again (PYTHONPATH as for the tests)
"""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_report import build_report
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_svg import plan_svg
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_text import plan_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_profiles import reduced_vms
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import question

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "images"
TEXTS = ROOT / "tests" / "unit" / "plugins" / "module_utils" / "_placement" / "report" / "golden"


def _metal(number: int, memory: int = 64, **more: t.Any) -> dict[str, t.Any]:
    known = {"bridges": ["br-admin"], "hypervisors": ["kvm", "lxc"], "roles": ["virt", "compute"], "pools": {"default": 500}}
    return {"name": f"metal{number}", "memory": memory, "cpus": 16, **known, **more}


def _details(vms: t.Iterable[t.Mapping[str, t.Any]], size: int = 40) -> list[dict[str, t.Any]]:
    return [{"nics": [{"bridge": "br-admin"}], "disks": [{"size": size}], **vm} for vm in vms]


def _many() -> list[dict[str, t.Any]]:
    kinds = (("controller", 5, 16), ("web", 40, 8), ("db", 12, 24), ("cache", 20, 8), ("queue", 3, 8), ("build", 25, 6))
    return _details(({"id": f"{kind}{number}", "roles": [kind], "ram": ram} for kind, count, ram in kinds for number in range(1, count + 1)), 20)


_STANDS = {"controller1": "metal1", "controller2": "metal1", "controller3": "metal2", "master": "metal2"}
_LARGE = [{"id": "db1", "ram": 40, "roles": ["db"]}, {"id": "build1", "ram": 24, "hypervisor": "lxc", "roles": ["build"]}]
CASES: dict[str, dict[str, t.Any]] = {
    "plan-2": {"machines": [_metal(1), _metal(2)], "vms": _details(reduced_vms({"ram": 16}))},
    "plan-3": {"machines": [_metal(1), _metal(2), _metal(3)], "vms": _details(reduced_vms({"ram": 16})), "current": _STANDS},
    "plan-witness": {
        "machines": [_metal(1), _metal(2), {"name": "laptop", "roles": ["witness"]}],
        "vms": _details([vm for vm in reduced_vms({"ram": 16}) if vm["id"] != "controller3"]),
    },
    "plan-short": {
        "machines": [_metal(1), _metal(2, 32, roles=["virt", "compute", "controller"])],
        "vms": _details([*reduced_vms({"ram": 16})[1:], *_LARGE]),
        "wanted": [{"name": "compute1", "ram": 96, "match": "at_least"}],
    },
    "plan-30": {
        "machines": [_metal(number, 64 if number % 3 else 128) for number in range(1, 31)],
        "vms": _many(),
        "wanted": [{"name": "compute", "count": 4, "ram": 128, "roles": ["compute"]}],
        "quorum_roles": ["controller", "queue"],
    },
}


def report(case: str) -> dict[str, t.Any]:
    """The report of a case."""
    asked = dict(CASES[case])
    return build_report(plan_placement(question(asked.pop("machines"), asked.pop("vms"), **asked)))


def text(case: str) -> str:
    """The text of a case, as a file holds it."""
    return "\n".join(plan_text(report(case))) + "\n"


def picture(case: str) -> str:
    """The picture of a case."""
    return plan_svg(report(case))


def main() -> None:
    """Write all of them."""
    for case in CASES:
        (PICTURES / f"{case}.svg").write_text(picture(case), "utf-8")
        if case != "plan-30":
            (TEXTS / f"{case}.txt").write_text(text(case), "utf-8")


if __name__ == "__main__":
    main()
