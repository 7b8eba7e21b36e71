# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every case of the corpus on real libvirt: detected or ignored, corrected, nothing else changed."""

from __future__ import annotations

import concurrent.futures
import typing as t

import drift_containers
import drift_devices
import drift_machine
import pytest
from drift_case import LEFT, RESTORED, Case
from drift_guest import CONTAINER, MACHINE, Guest, Host

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import Comparison
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import macs_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten

REMOVERS = concurrent.futures.ThreadPoolExecutor(4)
CASES = drift_machine.CASES + drift_devices.CASES + drift_containers.CASES
# a guest that runs costs seconds: make test takes a slice, make torture all
_SLICE = {*[case.name for case in CASES if not case.running][::3], *[case.name for case in CASES if case.running][::12]}
CHOSEN = [pytest.param(case, marks=[] if case.name in _SLICE else [pytest.mark.whole]) for case in CASES]


@pytest.fixture(scope="module", name="removals")
def fixture_removals(host: Host) -> t.Iterator[list[concurrent.futures.Future[None]]]:
    """A guest takes two seconds to go; the next case need not wait for it."""
    removals: list[concurrent.futures.Future[None]] = []
    yield removals
    for removal in removals:
        removal.result()


@pytest.fixture(name="guest")
def fixture_guest(host: Host, removals: list[concurrent.futures.Future[None]], request: pytest.FixtureRequest) -> t.Iterator[Guest]:
    """Defined, and running where the case wants it."""
    case: Case = request.getfixturevalue("case")
    guest = Guest(host, f"g{CASES.index(case)}", CONTAINER if case.hypervisor == "lxc" else MACHINE, case.hypervisor)
    if case.running:
        guest.start()
    yield guest
    removals.append(REMOVERS.submit(guest.remove))


def letters(comparison: Comparison, guest: Guest) -> dict[str, str]:
    """The differences as a case writes them."""
    found = {}
    for each in comparison.differences:
        path = each.path
        for index, mac in enumerate(macs_of(guest.first)):
            path = path.replace(mac, f"MAC{index}")
        found[path] = "o" * each.outside + "c" * each.config_differs + "l" * each.live_differs
    return found


def names(case: Case) -> str:
    """What pytest calls a case."""
    return case.name.replace(" ", "-").replace(":", "").replace(",", "")


def test_names_are_distinct() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 40


@pytest.mark.parametrize("case", CHOSEN, ids=names)
def test_change(case: Case, guest: Guest) -> None:
    before, number = flatten(guest.first), guest.domain.ID()
    template = CONTAINER if case.hypervisor == "lxc" else MACHINE
    assert guest.compare(guest.applied).differences == ()
    if case.outside is not None:
        case.outside(guest)
    changed = flatten(guest.config())
    # the change is one, or the case shows nothing
    assert case.outside is None or case.live_only or changed != before
    wanted = guest.rendered(case.template(template)) if case.template else guest.applied
    comparison = guest.compare(wanted)
    assert letters(comparison, guest) == dict(case.found)
    assert comparison.kept == case.kept
    guest.correct(wanted)
    now = flatten(guest.config())
    if case.fate == RESTORED:
        assert without_addresses(now) == without_addresses(before)
    elif case.fate == LEFT:
        assert now == changed
    else:
        assert {path: now.get(path) for path in spoken(wanted, guest, case)} == spoken(wanted, guest, case)
    if not case.moves:
        reference = before if case.fate == RESTORED else changed
        assert {path: now[path] for path in reference if "/address/@" in path and path in now} == {
            path: value for path, value in reference.items() if "/address/@" in path and path in now
        }
    after = guest.compare(wanted)
    assert [each.path for each in after.differences if each.config_differs] == []
    assert after.kept == case.kept
    assert guest.domain.UUIDString() == guest.first.findtext("uuid")
    assert (guest.domain.ID(), bool(guest.domain.isActive())) == (number, case.running)


def without_addresses(flat: t.Mapping[str, str]) -> dict[str, str]:
    """A definition without the places of its devices."""
    return {path: value for path, value in flat.items() if "/address/" not in path}


def spoken(wanted: t.Any, guest: Guest, case: Case) -> dict[str, str]:
    """What the template says and libvirt can do."""
    return {path: value for path, value in flatten(wanted).items() if path not in guest.echo and not path.startswith(case.kept or "?")}
