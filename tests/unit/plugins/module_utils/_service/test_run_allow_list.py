# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files, systemd and the kernel are made up; tests/controllers has them real."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_nftables import NFT, PacketFilter
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import PathFound, UnitFound
from ansible_collections.reduced.footprint.plugins.module_utils._service.run_allow_list import ALL, FOLDER, LOADER, TIMER, enforce, path_of


def one(name="memcached", allowed=("192.0.2.11",), unit="memcached.service"):
    return {"name": name, "served": ["192.0.2.11"], "rules": [{"protocol": "tcp", "ports": ["11211"], "allowed": list(allowed)}], "units": [unit]}


class World(ServiceHost):
    """A host. :ivar files: path → text; :ivar kernel: table → text it was loaded from; :ivar done: what was asked, in order."""

    def __init__(self):
        self.files, self.tables, self.done, self.enabled = {}, {}, [], set()

    def paths(self, paths):
        folders = {path.rpartition("/")[0] for path in self.files}
        found = {path: PathFound("root", "root", 0o600 if path.endswith(".nft") else 0o644, 0.0, self.files[path]) for path in paths if path in self.files}
        return {**found, **{path: PathFound("root", "root", 0o755) for path in paths if path in folders}}

    def units(self, names):
        return {name: UnitFound(known=True, active=name in self.enabled, enabled=name in self.enabled) for name in names}

    def names(self, folder, ending):
        return [path[len(folder) + 1 : -len(ending)] for path in self.files if path.startswith(f"{folder}/")]

    def make_folder(self, folder):
        self.done.append(f"folder {folder.path}")

    def write(self, file):
        self.files[file.path] = file.content

    def settle(self, file):
        raise AssertionError(file.path)

    def remove(self, path):
        del self.files[path]

    def remove_folder(self, path):
        self.done.append(f"remove {path}")

    def read_units(self):
        self.done.append("read units")

    def order(self, verb, names):
        self.done += [f"{verb} {name}" for name in names]
        if verb in ("enable", "disable"):
            self.enabled = self.enabled | set(names) if verb == "enable" else self.enabled - set(names)

    # the packet filter, as PacketFilter has it

    def chains(self):
        return {table: {plan_allow_list.revision(text)} for table, text in self.tables.items()}

    def check(self, text, path=""):
        if "192.0.2.66" in text:
            raise BackendError("the kernel refuses it.", path)

    def load(self, path):
        name = path.rpartition("/")[2].partition(".")[0]
        self.tables[plan_allow_list.table_of(name)] = self.files[path]
        self.done.append(f"load {name}")

    def delete(self, table):
        del self.tables[table]


def run(world, *lists, check=False, **params):
    return enforce({"lists": list(lists), "state": "present", **params}, check_mode=check, host=world, kernel=world)


def test_the_fake_kernel_has_what_the_real_one_has():
    assert {"chains", "check", "load", "delete"} <= set(dir(PacketFilter)) & set(dir(World))


def test_written_loaded_and_then_left_alone():
    world = World()
    first = run(world, one())
    assert world.tables["footprint_memcached"] == world.files[path_of("memcached")]
    assert world.enabled == {LOADER, TIMER} and f"start {TIMER}" in world.done
    assert first["changed"] and "load the allow-list of memcached" in first["actions"]
    world.done.clear()
    again = run(world, one())
    assert (again["changed"], again["actions"], world.done) == (False, [], [])


@pytest.mark.parametrize(("unit", "section"), [("memcached.service", "Service"), ("footprint-galera-check.socket", "Socket")])
def test_a_unit_does_not_start_without_its_list(unit, section):
    world = World()
    run(world, one(unit=unit))
    lines = world.files[f"/etc/systemd/system/{unit}.d/footprint-allow-list.conf"].splitlines()
    # a failed ExecStartPre fails the start; a dash before the command ignores it
    required, attempt = f"ExecStartPre=+{NFT} -f {ALL}", f"ExecStartPre=+-{NFT} -f {ALL}"
    commands = [line for line in lines[lines.index(f"[{section}]") :] if line.startswith("ExecStartPre=")]
    # systemd restarts a service after a failure, and never a socket
    assert commands == [required] if section == "Service" else commands == [attempt, required]


def test_a_restart_of_the_loader_restarts_no_service():
    world = World()
    run(world, one())
    text = world.files["/etc/systemd/system/memcached.service.d/footprint-allow-list.conf"]
    assert f"After={LOADER}" in text
    assert not any(word in text for word in ("Requires=", "BindsTo=", "PartOf=", "Requisite=", "PropagatesStopTo="))


def test_services_that_restart_often_do_not_exhaust_the_loader():
    world = World()
    run(world, one())
    assert "StartLimitIntervalSec=0" in world.files[f"/etc/systemd/system/{LOADER}"]


def test_the_list_is_in_force_before_systemd_is_asked_anything():
    world = World()
    run(world, one())
    assert world.done.index("load memcached") < world.done.index("read units") < world.done.index(f"start {TIMER}")


def test_check_mode_returns_the_same_and_does_nothing():
    world = World()
    predicted = run(world, one(), check=True)
    assert (world.files, world.tables, world.done) == ({}, {}, [])
    assert predicted["actions"] == run(world, one())["actions"]


def test_a_new_member_is_loaded():
    world = World()
    run(world, one())
    world.done.clear()
    found = run(world, one(allowed=["192.0.2.11", "192.0.2.12"]))
    assert found["actions"] == [f"write {path_of('memcached')}", "load the allow-list of memcached"]
    assert "192.0.2.12" in world.tables["footprint_memcached"] and world.done == ["load memcached"]


def test_a_run_that_was_killed_before_it_loaded_is_completed():
    world = World()
    run(world, one())
    old = world.tables["footprint_memcached"]
    run(world, one(allowed=["192.0.2.12"]))
    world.tables["footprint_memcached"] = old
    assert run(world, one(allowed=["192.0.2.12"]))["actions"] == ["load the allow-list of memcached"]


def test_emptied_packet_filter_is_filled_again():
    world = World()
    run(world, one())
    world.tables.clear()
    assert run(world, one())["actions"] == ["load the allow-list of memcached"]


def test_what_the_kernel_refuses_is_not_written():
    world = World()
    run(world, one())
    before = dict(world.files)
    with pytest.raises(BackendError):
        run(world, one(allowed=["192.0.2.66"]))
    assert world.files == before


def test_only_known_updates_existing_lists():
    world = World()
    run(world, one())
    found = run(world, one(allowed=["192.0.2.12"]), one("galera", unit="mariadb.service"), only_known=True)
    assert found["changed"] and set(world.tables) == {"footprint_memcached"}
    assert not run(World(), one(), only_known=True)["changed"]


def test_removed_without_a_trace_and_only_then():
    world = World()
    run(world, one(), one("galera", unit="mariadb.service"))
    first = run(world, one(), state="absent")
    assert set(world.tables) == {"footprint_galera"} and ALL in world.files and world.enabled == {LOADER, TIMER}
    assert "remove the table footprint_memcached" in first["actions"]
    predicted = run(world, one("galera", unit="mariadb.service"), state="absent", check=True)
    assert predicted["actions"] == run(world, one("galera", unit="mariadb.service"), state="absent")["actions"]
    assert (world.files, world.tables, world.enabled) == ({}, {}, set()) and f"remove {FOLDER}" in world.done
    assert not run(world, one(), one("galera", unit="mariadb.service"), state="absent")["changed"]
