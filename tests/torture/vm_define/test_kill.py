# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""vm_define is killed with signal 9 at each of its steps: nothing is lost, the next run completes, the one after changes nothing."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest
from harden_host import Host, Outcome, disks_of, guest, macs_of, memory_of
from harden_watch import Death
from lxml import etree

BRIDGED = {"nics": [{"network": "torture"}]}


@dataclasses.dataclass
class Torn:
    """One VM of a scenario: the host, the id, the UUID and the state before the run that is killed."""

    host: Host
    id: str
    uuid: str = ""
    macs: t.Sequence[str] = ()
    running: bool = False
    domain_id: int = -1


@dataclasses.dataclass(frozen=True)
class Scenario:
    """The preparation (``first``), the run that is killed (``then``, repeated to complete), and the check of the result (``end``).

    ``always``: whether a startable domain must exist after every kill.
    """

    name: str
    first: t.Callable[[Torn], Outcome | None]
    then: t.Callable[[Torn], tuple[dict[str, t.Any], dict[str, t.Any]]]
    end: t.Callable[[Torn], None]
    always: bool = True


def _config(torn: Torn) -> str:
    record = torn.host.domain(torn.uuid)
    assert record is not None
    return record.config_xml


def _live(torn: Torn) -> str | None:
    record = torn.host.domain(torn.uuid)
    assert record is not None
    return record.live_xml


def _machine(torn: Torn, memory: int = 32, **more: t.Any) -> dict[str, t.Any]:
    more.setdefault("disks", [{"size": "2 MiB"}])
    return guest(torn.id, memory, **{**BRIDGED, **more})


def _first(torn: Torn, state: str = "running", **more: t.Any) -> Outcome:
    return torn.host.done(_machine(torn, **more), state=state)


def _runs(torn: Torn) -> None:
    record = torn.host.domain(torn.uuid)
    assert record is not None and record.state == "running"


def _end_created(torn: Torn) -> None:
    _runs(torn)
    assert len(disks_of(_config(torn))) == 3
    assert all((torn.host.pool / name).is_file() for name in disks_of(_config(torn)))


def _end_new_disk(torn: Torn) -> None:
    _runs(torn)
    assert len(disks_of(_config(torn))) == 2 and memory_of(_config(torn)) == 40
    assert all((torn.host.pool / name).is_file() for name in disks_of(_config(torn)))


def _end_live(torn: Torn) -> None:
    _runs(torn)
    for xml in (_config(torn), _live(torn)):
        assert len(disks_of(xml)) == 2 and len(macs_of(xml)) == 2, xml
        assert etree.fromstring(xml).findtext("title") == "new title"


def _end_grown(torn: Torn) -> None:
    _runs(torn)
    sizes = [(torn.host.pool / name).stat().st_size for name in disks_of(_config(torn))]
    assert sizes == [6 << 20]


def _end_previous(torn: Torn) -> None:
    assert memory_of(_config(torn)) == 32


def _end_adopted(torn: Torn) -> None:
    assert "reduced.footprint" in _config(torn) and memory_of(_config(torn)) == 48
    assert pathlib.Path(disks_of(_config(torn))[0]).name == f"{torn.id}-theirs.img"


def _end_absent(torn: Torn) -> None:
    assert torn.host.domain(torn.uuid) is None
    assert not list(torn.host.pool.glob(f"*{torn.id}*"))


def _titled(torn: Torn, text: str) -> str:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source

    return template_source("default").replace("<memory unit", f"<title>{text}</title>\n  <memory unit", 1)


THEIRS = """<domain type='qemu'><name>{id}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu><os><type>hvm</type></os><devices>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{pool}/{id}-theirs.img'/><target dev='vda' bus='virtio'/></disk>
<interface type='network'><mac address='52:54:00:77:77:77'/><source network='torture'/><model type='virtio'/></interface></devices></domain>"""


def _first_theirs(torn: Torn) -> None:
    (torn.host.pool / f"{torn.id}-theirs.img").write_bytes(bytes(1 << 20))
    with torn.host.libvirt() as there:
        domain = there.connection.defineXML(THEIRS.format(id=torn.id, pool=torn.host.pool))
        torn.uuid = domain.UUIDString()
        domain.create()


def _first_two(torn: Torn) -> Outcome:
    torn.host.done(_machine(torn, 32), state="present")
    return torn.host.done(_machine(torn, 48), state="present")


def _restarted(torn: Torn) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    return _machine(torn, 40), {"allow_power_cycling": True, "force": True, "shutdown_timeout": 1}


def _end_restarted(torn: Torn) -> None:
    _runs(torn)
    assert memory_of(_config(torn)) == memory_of(_live(torn)) == 40


ALL_DISKS = [{"size": "2 MiB"}, {"size": "2 MiB", "format": "qcow2"}, {"image": "base", "format": "qcow2", "backing": True}]
SCENARIOS = (
    Scenario("creation", lambda torn: None, lambda torn: (_machine(torn, disks=ALL_DISKS), {}), _end_created, always=False),
    Scenario(
        "update with a new disk",
        _first,
        lambda torn: (_machine(torn, 40, disks=[{"size": "2 MiB"}, {"size": "2 MiB", "format": "qcow2"}]), {}),
        _end_new_disk,
    ),
    Scenario(
        "live change of disk, NIC and title",
        _first,
        lambda torn: (
            _machine(torn, disks=[{"size": "2 MiB"}] * 2, nics=[{"network": "torture"}] * 2),
            {"template": _titled(torn, "new title")},
        ),
        _end_live,
    ),
    Scenario("increasing a disk, running", _first, lambda torn: (_machine(torn, disks=[{"size": "6 MiB"}]), {}), _end_grown),
    Scenario("increasing a disk, off", lambda torn: _first(torn, "present"), lambda torn: (_machine(torn, disks=[{"size": "6 MiB"}]), {}), _end_grown),
    Scenario("restart for a change", _first, _restarted, _end_restarted),
    Scenario("rollback to the previous definition", _first_two, lambda torn: ({"id": torn.id, "hypervisor": "qemu"}, {"state": "rolled_back"}), _end_previous),
    Scenario("adoption", _first_theirs, lambda torn: (_machine(torn, 48), {"adopt": True}), _end_adopted),
    Scenario("removal with disks", _first, lambda torn: (_machine(torn), {"state": "absent", "remove_disks": True}), _end_absent, always=False),
    Scenario(
        "removal with disks, wiped",
        _first,
        lambda torn: (_machine(torn), {"state": "absent", "remove_disks": True, "wipe": True}),
        _end_absent,
        always=False,
    ),
)


@pytest.fixture(autouse=True)
def fixture_needs(host: Host, network: str) -> None:
    """Create the base image and the network that every scenario uses."""
    assert network
    host.image("base")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_run_killed_at_each_step_is_completed_by_the_next_run(host: Host, add_row: t.Callable[[str, str, str], None], scenario: Scenario, whole: bool) -> None:
    killed, unused, steps = _run_scenario(host, scenario, None, 0)
    assert not killed and steps > 3
    if whole:
        # immediately before each step, then shortly after it; a few more steps than in the first run
        deaths = [Death(number, later) for later in (0.0, 0.01) for number in range(1, steps + 3)]
    else:
        deaths = [Death(number) for number in sorted({steps // 2, steps - 1})]
    died = [_run_scenario(host, scenario, death, number)[0] for number, death in enumerate(deaths, 1)]
    # in the last steps a run may end before it is killed
    assert sum(died) >= min(steps, len(deaths)) - 1
    promise = "defined and startable each time, " if scenario.always else ""
    add_row(f"killed at each of its {steps} steps: {scenario.name}", f"{sum(died)} kills", f"{promise}the next run completes, the one after changes nothing")


def _run_scenario(host: Host, scenario: Scenario, death: Death | None, number: int) -> tuple[bool, str, int]:
    """Run the scenario with a kill; return whether and where the run was killed, and the number of its steps."""
    if number % 8 == 7:
        host.clear()
    torn = Torn(host, f"torn{number}x")
    made = scenario.first(torn)
    if made is not None:
        torn.uuid = made.vm()["uuid"]
    if torn.uuid:
        record = host.domain(torn.uuid)
        assert record is not None
        torn.macs, torn.running, torn.domain_id = macs_of(record.config_xml), record.active, host.domain_id(torn.uuid)
    details, params = scenario.then(torn)
    first = host.run(details, death=death, **params)
    if not first.killed:
        assert first.ok, first.output
    at = f"{death} ({first.steps[-1] if first.steps else 'none'})"
    try:
        _check_after_kill(torn, scenario, number, "restart" in scenario.name)
        last = host.done(details, **params)
        torn.uuid = torn.uuid or last.vm()["uuid"]
        scenario.end(torn)
        again = host.done(details, **params)
        assert not again.result["changed"] and not again.vm()["actions"], again.output
        scenario.end(torn)
        assert not host.leftovers()
        record = host.domain(torn.uuid)
        if record is not None:
            assert macs_of(record.config_xml)[: len(torn.macs)] == list(torn.macs)
            assert record.autostart
    except AssertionError as error:
        raise AssertionError(f"{scenario.name}, killed at {at}: {error}\nsteps: {first.steps[-8:]}") from error
    return first.killed, at, len(first.steps)


def _check_after_kill(torn: Torn, scenario: Scenario, number: int, restarts: bool) -> None:
    """Check the conditions that hold immediately after the kill, before the next run."""
    if not scenario.always:
        return
    record = torn.host.domain(torn.uuid)
    assert record is not None, "the domain is gone"
    assert macs_of(record.config_xml)[: len(torn.macs)] == list(torn.macs), "another MAC"
    if torn.running and not restarts:
        assert record.state == "running" and torn.host.domain_id(torn.uuid) == torn.domain_id, "the guest was stopped"
    if number % 3 == 1:
        # every third time, power the VM off and on to check that the definition starts
        with torn.host.libvirt() as there:
            domain = there.connection.lookupByUUIDString(torn.uuid)
            if domain.isActive():
                domain.destroy()
            domain.create()
            assert domain.isActive(), "does not start"
            if not torn.running:
                domain.destroy()
