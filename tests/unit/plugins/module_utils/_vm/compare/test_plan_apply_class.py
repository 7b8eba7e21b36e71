# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When each difference takes effect, row by row."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.plan_apply_class import Device, Facts, classify, refuse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_compare import Difference

NIC = "devices/interface[52:54:00:00:00:01]"
DISKS = {
    "devices/disk[vdb]": Device("disk", "virtio"),
    "devices/disk[sda]": Device("disk", "scsi"),
    "devices/disk[hda]": Device("disk", "ide"),
    "devices/disk[sdz]": Device("cdrom", "sata"),
}
RUNS = Facts(running=True, memory=4096, vcpus=4, disks=DISKS)
BOX = dataclasses.replace(RUNS, container=True)
OFF = Facts(disks=DISKS)


def differs(path: str, wanted: str | None = "new", config: bool = True, live: bool = True, applied: str | None = "old") -> Difference:
    """A difference; ``config`` and ``live`` say where."""
    return Difference(path, applied, wanted, "old" if config else wanted, "old" if live else wanted, False, config, live)


CLASSES: list[tuple[str, str | None, Facts, str]] = [
    ("title", "new", RUNS, "live"),
    ("description", None, RUNS, "live"),
    ("description", "new", OFF, "next_boot"),
    ("currentMemory", "2048 KiB", RUNS, "live"),
    ("currentMemory", "8192 KiB", RUNS, "next_boot"),
    ("memory", "8192 KiB", RUNS, "next_boot"),
    ("vcpu/@current", "4", RUNS, "live"),
    ("vcpu/@current", "5", RUNS, "next_boot"),
    ("vcpu/@current", None, RUNS, "next_boot"),
    ("vcpu", "8", RUNS, "next_boot"),
    (NIC, "<interface/>", RUNS, "live"),
    (NIC, None, RUNS, "live"),
    (NIC, None, BOX, "live"),
    (NIC, None, OFF, "next_boot"),
    (f"{NIC}/source/@bridge", "br1", RUNS, "live"),
    (f"{NIC}/source/@bridge", "br1", BOX, "next_boot"),
    (f"{NIC}/link/@state", "down", RUNS, "live"),
    (f"{NIC}/link", "<link/>", RUNS, "live"),
    (f"{NIC}/vlan/tag/@id", "7", RUNS, "live"),
    (f"{NIC}/model/@type", "e1000", RUNS, "next_boot"),
    (f"{NIC}/driver/@queues", "4", RUNS, "next_boot"),
    ("devices/disk[vdb]", "<disk/>", RUNS, "live"),
    ("devices/disk[vdb]", None, RUNS, "live"),
    ("devices/disk[vdb]", "<disk/>", OFF, "next_boot"),
    ("devices/disk[sda]", None, RUNS, "live"),
    ("devices/disk[hda]", None, RUNS, "next_boot"),
    ("devices/disk[vdb]", "<disk/>", BOX, "next_boot"),
    ("devices/disk[vdb]/source/@file", "/b", RUNS, "next_boot"),
    ("devices/disk[vdb]/serial", "s", RUNS, "next_boot"),
    ("devices/disk[vdb]/driver/@cache", "none", RUNS, "next_boot"),
    ("devices/disk[vdb]/driver/@type", "raw", RUNS, "refused"),
    ("devices/disk[vdb]/driver/@type", "raw", OFF, "refused"),
    ("devices/disk[sdz]", None, RUNS, "next_boot"),
    ("devices/disk[sdz]/source/@file", "/b.iso", RUNS, "live"),
    ("devices/disk[sdz]/source", None, RUNS, "live"),
    ("devices/filesystem[/srv]", "<filesystem/>", BOX, "next_boot"),
    ("devices/rng[0]", "<rng/>", RUNS, "next_boot"),
    ("os/boot", "hd", RUNS, "next_boot"),
    ("cpu/@mode", "maximum", RUNS, "next_boot"),
    ("@type", "kvm", RUNS, "next_boot"),
    ("@type", "lxc", RUNS, "recreate"),
    ("uuid", "x", OFF, "recreate"),
    ("name", "x", RUNS, "recreate"),
]


@pytest.mark.parametrize("path, wanted, facts, cls", CLASSES)
def test_class(path: str, wanted: str | None, facts: Facts, cls: str) -> None:
    change = classify(differs(path, wanted, live=facts.running), facts)
    assert change.cls == cls
    assert (change.now, change.waits) == (cls == "live", cls == "next_boot" and facts.running)


def test_a_format_that_went_astray_is_put_right() -> None:
    path = "devices/disk[vdb]/driver/@type"
    assert classify(differs(path, "raw", applied="raw"), RUNS).cls == "next_boot"


def test_what_only_the_definition_lost_needs_no_restart() -> None:
    change = classify(differs("memory", "4096 KiB", live=False), RUNS)
    assert (change.cls, change.config, change.now, change.waits, change.due) == ("live", True, False, False, True)


def test_what_only_waits_is_nothing_to_do() -> None:
    change = classify(differs("memory", "4096 KiB", config=False), RUNS)
    assert (change.cls, change.due, change.waits, change.before) == ("next_boot", False, True, "old")


@pytest.mark.parametrize("noted, cls", [({NIC: None}, "next_boot"), ({NIC: "<other/>"}, "live"), ({}, "live")])
def test_what_was_refused_is_not_asked_again_before_the_next_start(noted: dict[str, str | None], cls: str) -> None:
    change = classify(differs(NIC, None, config=False), dataclasses.replace(RUNS, noted=noted))
    assert (change.cls, change.due, change.waits) == (cls, cls == "live", cls == "next_boot")


def test_a_refusal_puts_it_off() -> None:
    change = classify(differs(NIC, None), RUNS).put_off()
    assert (change.cls, change.now, change.waits, change.config) == ("next_boot", False, True, True)


def test_who_is_out_of_reach_is_not_asked() -> None:
    change = classify(differs("title"), dataclasses.replace(RUNS, reach=False))
    assert (change.cls, change.now, change.waits) == ("next_boot", False, True)


@pytest.mark.parametrize(
    "path, words, hint",
    [
        ("uuid", "cannot be changed in an existing VM", "create it again with adopt_disks"),
        ("devices/disk[vdb]/driver/@type", "the format of an existing volume cannot be changed", ""),
    ],
)
def test_what_cannot_be_is_refused_with_path_and_hint(path: str, words: str, hint: str) -> None:
    with pytest.raises(RefusedError, match=words) as raised:
        refuse([classify(differs("memory"), OFF), classify(differs(path), OFF)])
    assert raised.value.path == path and raised.value.hint and hint in raised.value.hint


def test_parts_of_one_device_belong_together() -> None:
    changes = [classify(differs(path), RUNS) for path in (f"{NIC}/source/@bridge", f"{NIC}/link/@state", NIC, "memory")]
    assert [(change.device, change.whole) for change in changes] == [(NIC, False), (NIC, False), (NIC, True), (None, False)]
    shown: dict[str, t.Any] = {"path": NIC, "class": "live", "before": "old", "after": "new", "applied": "old"}
    assert changes[2].as_result() == shown
