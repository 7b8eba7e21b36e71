# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_fence

MACS = ["52:54:00:11:22:33", "52:54:00:11:22:34"]


def test_all_cards_are_fenced_in_both_directions_and_only_arp_passes():
    text = io_fence.rules("master", MACS, ports=["vnet7", "vnet8"])
    for way in ("saddr", "daddr"):
        assert f"ether {way} {{ {', '.join(MACS)} }} drop" in text
    for way in ("iifname", "oifname"):
        assert f'{way} {{ "vnet7", "vnet8" }} drop' in text
    assert text.index("delete table") < text.index("chain forward") < text.index("arp accept") < text.index("drop")
    assert "tcp" not in text and "udp" not in text


def test_before_the_start_every_new_port_is_the_vms():
    text = io_fence.rules("master", MACS, known=[["eno1", "vnet2"], []])
    assert 'iifname { "eno1", "vnet2" } oifname != { "eno1", "vnet2" } drop' in text
    assert 'iifname != { "eno1", "vnet2" } oifname { "eno1", "vnet2" } drop' in text


@pytest.mark.parametrize("bad", ['x" } accept; #', "a b", "x/y", "x" * 16, ""])
def test_no_name_becomes_a_rule(bad):
    with pytest.raises(InputError):
        io_fence.rules("master", MACS, ports=[bad])
    with pytest.raises(InputError):
        io_fence.rules("master", [bad])


def test_any_name_makes_a_legal_table():
    names = {io_fence.table(each) for each in ("master", "a.b-c", "x" * 63)}
    assert len(names) == 3
    assert all(each.replace("_", "").isalnum() and len(each) < 40 for each in names)


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    loaded = []
    monkeypatch.setattr(io_fence, "HOME", tmp_path / "fences")
    monkeypatch.setattr(io_fence, "UNITS", tmp_path / "units")
    monkeypatch.setattr(io_fence, "run", lambda argv, stdin, **how: loaded.append(stdin))
    monkeypatch.setattr(io_fence, "ports_of", lambda bridge: ["eno1"])
    return loaded


def test_the_fence_comes_back_with_the_host_until_it_is_opened(world, tmp_path):
    io_fence.close("master", MACS, ["br-admin"])
    link = tmp_path / "units" / "multi-user.target.wants" / io_fence.unit("master")
    unit = link.read_text()
    assert "Before=libvirtd.service" in unit and "After=nftables.service" in unit
    kept = (tmp_path / "fences" / f"{io_fence.table('master')}.nft").read_text()
    # the ports have other names after a reboot
    assert kept == io_fence.rules("master", MACS) and "eno1" in world[0]
    io_fence.close("master", MACS, ["br-admin"])
    io_fence.open_up("master")
    io_fence.open_up("master")
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()]


def test_an_open_fence_stays_open_after_a_power_loss(world, tmp_path, monkeypatch):
    io_fence.close("master", MACS, ["br-admin"])
    synced = []
    monkeypatch.setattr(io_fence, "sync_path", lambda path: synced.append((path, list(path.iterdir()), len(world))))
    io_fence.open_up("master")
    # clients do not wait for the disk
    assert synced == [(tmp_path / "units" / "multi-user.target.wants", [], 2)]


def test_a_full_disk_keeps_no_fence_open(world, monkeypatch):
    def full(*unused, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(io_fence, "write_atomic", full)
    io_fence.close("master", MACS, ["br-admin"])
    assert world
