# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The corpus through the whole of ``vm_define``: the reported changes, their class, and that no guest is affected more than necessary.

A table of it is left in ``tests/output/drift.md``.
"""

from __future__ import annotations

import collections
import concurrent.futures
import pathlib
import re
import typing as t

import drift_containers
import drift_devices
import drift_machine
import pytest
from drift_case import LEFT, Case
from drift_guest import CLUSTER, CONTAINER, MACHINE, Guest, Host

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import macs_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten

REMOVERS = concurrent.futures.ThreadPoolExecutor(4)
TABLE = pathlib.Path(__file__).resolve().parents[1] / "output" / "drift.md"
CASES = drift_machine.CASES + drift_devices.CASES + drift_containers.CASES
_SLICE = {*[case.name for case in CASES if not case.running][1::8], *[case.name for case in CASES if case.running][5::12]}
CHOSEN = [pytest.param(case, marks=[] if case.name in _SLICE else [pytest.mark.whole]) for case in CASES]
# what a running guest can be given at once
AT_ONCE = re.compile(
    r"(?:title|description|currentMemory|vcpu/@current|devices/interface\[[^/]*\](?:/(?:source/.*|link/.*))?"
    r"|devices/disk\[vd.\]|devices/disk\[sda\]/source.*)\Z"
)


class Managed(Guest):
    """A guest that ``vm_define`` makes and looks after."""

    def __init__(self, host: Host, case: Case, number: int) -> None:
        self.case = case
        super().__init__(host, f"m{number}", CONTAINER if case.hypervisor == "lxc" else MACHINE, case.hypervisor)

    def make(self, template: str) -> None:
        """By the use case, with nothing but the template and the details."""
        self.result = self.call(template)
        assert self.result.error is None
        self.domain = self.connection.lookupByUUIDString(self.vm.uuid)

    def call(self, template: str, check_mode: bool = False) -> VmResult:
        """One run of the module."""
        request = DefineRequest(
            cluster=CLUSTER,
            vms=[{"id": self.name, "hypervisor": self.hypervisor, "nics": [{"bridge": self.host.bridge}] * 2}],
            state="running" if self.case.running else "present",
            template=self.host.fill(template, self.name),
            uri=self.host.uris[self.hypervisor],
            autostart=False,
            live_timeout=1,
        )
        (result,) = define_vms(request, check_mode=check_mode).vms
        assert result.error is None
        return result


@pytest.fixture(scope="module", name="removals")
def fixture_removals(host: Host) -> t.Iterator[list[concurrent.futures.Future[None]]]:
    """A guest takes two seconds to go; the next case need not wait for it."""
    removals: list[concurrent.futures.Future[None]] = []
    yield removals
    for removal in removals:
        removal.result()


@pytest.fixture(scope="module", name="table")
def fixture_table(whole: bool) -> t.Iterator[dict[str, str]]:
    """Case → row; written where the whole corpus ran."""
    rows: dict[str, str] = {}
    yield rows
    if whole and rows:
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        head = "| change | guest | found | class | definition afterwards | what runs afterwards |\n|---|---|---|---|---|---|\n"
        TABLE.write_text(head + "\n".join(rows[case.name] for case in CASES if case.name in rows) + "\n", encoding="utf-8")


@pytest.fixture(name="guest")
def fixture_guest(host: Host, removals: list[concurrent.futures.Future[None]], request: pytest.FixtureRequest) -> t.Iterator[Managed]:
    """Made by vm_define, running where the case wants it."""
    case: Case = request.getfixturevalue("case")
    guest = Managed(host, case, CASES.index(case))
    yield guest
    removals.append(REMOVERS.submit(guest.remove))


def names(case: Case) -> str:
    """What pytest calls a case."""
    return case.name.replace(" ", "-").replace(":", "").replace(",", "")


@pytest.mark.parametrize("case", CHOSEN, ids=names)
def test_change_through_vm_define(case: Case, guest: Managed, table: dict[str, str]) -> None:
    template = CONTAINER if case.hypervisor == "lxc" else MACHINE
    number, macs = guest.domain.ID(), macs_of(guest.first)
    again = guest.call(template)
    assert (again.actions, again.changes, again.drift, again.changed) == ([], [], [], False)
    if case.outside is not None:
        case.outside(guest)
    changed = flatten(guest.config())
    template = case.template(template) if case.template else template
    foreseen = guest.call(template, check_mode=True)
    assert flatten(guest.config()) == changed
    done = guest.call(template)
    found = {path: each["class"] for each in done.changes for path in (short(each["path"], macs),)}
    assert set(found) == {path for path, letters in case.found.items() if set(letters) & {"c", "l"}}
    assert {short(each["path"], macs) for each in foreseen.changes} == set(found)
    assert {short(each["path"], macs) for each in done.drift} == {path for path, letters in case.found.items() if "o" in letters}
    waiting = set()
    for path, letters in case.found.items():
        if not case.running:
            assert found[path] == "next_boot"
        elif "l" not in letters:
            # the guest has never had anything else
            assert found[path] == "live"
        elif not AT_ONCE.match(path):
            assert found[path] == "next_boot"
        if found[path] == "next_boot" and "l" in letters and not case.same_default:
            waiting.add(path)
    assert done.restart_required == bool(waiting)
    assert "power_cycle" not in done.actions and "shutdown" not in done.actions
    assert done.changed == bool(done.actions) and (bool(case.found) <= done.changed)
    again = guest.call(template)
    assert (again.actions, again.changes, again.drift, again.changed) == ([], [], [], False)
    assert again.restart_required == done.restart_required
    assert (guest.domain.ID(), bool(guest.domain.isActive())) == (number, case.running)
    assert guest.domain.UUIDString() == guest.first.findtext("uuid")
    now = flatten(guest.config())
    if case.fate == LEFT:
        assert now == changed
    assert set(macs) <= set(macs_of(guest.config())) or case.template is not None
    if not case.moves:
        before = flatten(guest.first) if case.template is None and case.fate != LEFT else changed
        assert {path: now[path] for path in before if "/address/@" in path and path in now} == {
            path: value for path, value in before.items() if "/address/@" in path and path in now
        }
    table[case.name] = row(case, found, done)


def short(path: str, macs: t.Sequence[str]) -> str:
    """A path as a case writes it."""
    for index, mac in enumerate(macs):
        path = path.replace(mac, f"MAC{index}")
    return path


def row(case: Case, found: t.Mapping[str, str], done: VmResult) -> str:
    """One row of the table."""
    classes = collections.Counter(found.values())
    what = ", ".join(f"`{path}`" for path in sorted(found)) or ("a BMC emulator's: " + ", ".join(f"`{path}`" for path in case.kept) if case.kept else "nothing")
    runs = "off" if not case.running else "waits for a restart" if done.restart_required else "as wanted"
    definition = {"restored": "as it was", "left alone": "as changed", "applied": "as the template says"}[case.fate]
    return f"| {case.name} | {'running' if case.running else 'off'} | {what} | {', '.join(sorted(classes)) or '-'} | {definition} | {runs} |"
