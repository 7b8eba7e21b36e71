# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of the role redfish_emulator, without its proxy: accounts see their own systems only, and containers have power only."""

from __future__ import annotations

import functools
import http.server
import json
import os
import pathlib
import re
import subprocess
import threading
import typing as t

import bare
import libvirt
import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from test_power import CONTAINER

APPLICATION = bare.ROOT / "roles" / "redfish_emulator" / "files"
#: Sends requests from its standard input to the application, and prints the answers.
DRIVE = """
import json, sys
import footprint_redfish
client = footprint_redfish.app.test_client()
for method, path, account, body in json.load(sys.stdin):
    answer = client.open("/redfish/v1/" + path, method=method, headers={} if account is None else {footprint_redfish.HEADER: account}, json=body)
    print(json.dumps([answer.status_code, json.loads(answer.data) if answer.is_json and answer.data else None]))
"""
Answer = tuple[int, t.Any]
#: Bytes of a medium; not a multiple of what is read at once.
LARGEST = (1 << 20) + 100


class Application:
    """The application for the libvirtd of these tests, and its systems by name."""

    def __init__(self, place: t.Any, folder: pathlib.Path, systems: dict[str, str]) -> None:
        self.systems, self._folder = systems, folder
        self._uris = {"qemu:///system": place.uri, "lxc:///system": place.lxc_uri}
        (folder / "state").mkdir()
        self.configure(["127.0.0.1"])

    def configure(self, sources: t.Sequence[str]) -> None:
        """Set from where media are downloaded."""
        settings = {"FOOTPRINT_URIS": self._uris, "SUSHY_EMULATOR_STATE_DIR": str(self._folder / "state"), "SUSHY_EMULATOR_STORAGE_POOL": "footprint-test"}
        settings |= {"FOOTPRINT_MEDIA": {"sources": list(sources), "seconds": 30, "bytes": LARGEST}}
        (self._folder / "emulator.py").write_text("".join(f"{key} = {value!r}\n" for key, value in settings.items()), "utf-8")

    def ask(self, *requests: tuple[str, str, str | None, t.Any]) -> list[Answer]:
        """Send requests: method, path with {NAME} for the UUID of a system, systems of the account, body."""
        sent = json.dumps([[method, path.format(**self.systems), account, body] for method, path, account, body in requests])
        return [(answer[0], answer[1]) for answer in map(json.loads, self.run(DRIVE, sent).splitlines())]

    def run(self, script: str, sent: str = "") -> str:
        """Run a script with the application; its output."""
        env = {**os.environ, "PYTHONPATH": str(APPLICATION), "SUSHY_EMULATOR_CONFIG": str(self._folder / "emulator.py"), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [str(bare.environment() / "bin" / "python"), "-c", script]
        done = subprocess.run(argv, input=sent, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert not done.returncode, done.stderr[-3000:]
        return done.stdout


@pytest.fixture(name="application")
def fixture_application(place: t.Any, tmp_path: pathlib.Path) -> t.Iterator[Application]:
    systems = {"one": place.machine("one", uefi=True).UUIDString(), "two": place.machine("two").UUIDString()}
    root = place.folder / "box"
    (root / "bin").mkdir(parents=True, exist_ok=True)
    (root / "bin" / "busybox").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin" / "busybox").chmod(0o755)
    connection = libvirt.open(place.lxc_uri)
    domain = connection.defineXML(CONTAINER.format(root=root))
    systems["box"] = domain.UUIDString()
    yield Application(place, tmp_path, systems)
    if domain.isActive():
        domain.destroy()
    domain.undefine()
    connection.close()


def members(answer: Answer) -> set[str]:
    return {entry["@odata.id"].rpartition("/")[2] for entry in answer[1]["Members"]}


def test_an_account_sees_its_own_systems_only(application: Application) -> None:
    ids = application.systems
    reset = {"ResetType": "On"}
    upper = ("ONE", set()), (ids["one"].upper(), {"one"})
    for account, own in (("*", {"one", "two", "box"}), *upper, (f"{ids['box']},two", {"box", "two"}), ("", set()), (None, set()), ("other", set())):
        answers = application.ask(
            ("GET", "Systems", account, None),
            ("GET", "Managers", account, None),
            *(("GET", f"Systems/{{{name}}}", account, None) for name in ids),
            *(("GET", f"Managers/{{{name}}}", account, None) for name in ids),
            *(("GET", f"Systems/{name}", account, None) for name in ids),
            *(("POST", f"Systems/{{{name}}}/Actions/ComputerSystem.Reset", account, {"ResetType": "ForceOff"}) for name in ids),
            ("GET", "Chassis/nothing", account, None),
            ("POST", "UpdateService/Actions/UpdateService.SimpleUpdate", account, {"ImageURI": "http://192.0.2.1/x", "Targets": ["/redfish/v1/Systems/{one}"]}),
        )
        wanted = {ids[name] for name in own}
        # the libvirtd may also have the machines of other tests
        for answer in answers[:2]:
            assert members(answer) & (set(ids.values()) if account == "*" else members(answer)) == wanted, account
        for number, name in enumerate(ids):
            for block, allowed in ((0, 200), (1, 200), (2, 307), (3, 204)):
                assert answers[2 + 3 * block + number][0] == (allowed if name in own else 404), (account, name, block)
        if account != "*":
            assert answers[-1][0] == 404 and "its systems only" in answers[-1][1]["error"]["message"]
    assert application.ask(("POST", "Systems/{one}/Actions/ComputerSystem.Reset", "two", reset))[0][0] == 404


def test_a_container_has_power_and_nothing_else(application: Application) -> None:
    reset = "Systems/{box}/Actions/ComputerSystem.Reset"
    steps: tuple[tuple[str, int, str], ...] = (("On", 204, "On"), ("ForceRestart", 204, "On"), ("GracefulShutdown", 501, "On"), ("ForceOff", 204, "Off"))
    for kind, status, state in steps:
        answers = application.ask(("POST", reset, "box", {"ResetType": kind}), ("GET", "Systems/{box}", "box", None))
        assert answers[0][0] == status and answers[1][1]["PowerState"] == state, kind
    insert = "Systems/{box}/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
    unsupported = application.ask(
        ("PATCH", "Systems/{box}", "box", {"Boot": {"BootSourceOverrideTarget": "Pxe"}}),
        ("PATCH", "Systems/{box}", "box", {"Boot": {"BootSourceOverrideMode": "UEFI"}}),
        ("POST", insert, "box", {"Image": "http://192.0.2.1/x.iso"}),
        ("GET", "Systems/{box}/BIOS", "box", None),
    )
    for status, body in unsupported:
        assert status == 501 and "A container has no firmware" in body["error"]["message"]


def test_a_copy_of_a_vm_that_was_moved_away_is_not_started(application: Application) -> None:
    before, moved = io_owner.HOME.exists(), io_owner.HOME / f"{application.systems['two']}.json"
    io_owner.prepare()
    moved.write_text('{"role": "former", "operation": null}', "utf-8")
    try:
        reset = "Systems/{two}/Actions/ComputerSystem.Reset"
        answers = application.ask(*(("POST", reset, "*", {"ResetType": kind}) for kind in ("On", "ForceOn", "ForceRestart", "ForceOff")))
    finally:
        moved.unlink()
        if not before:
            (io_owner.HOME / io_owner.PRESENT).unlink()
            io_owner.HOME.rmdir()
    assert [status for status, _body in answers] == [409, 409, 409, 204] and "moved to another host" in answers[0][1]["error"]["message"]


def test_a_medium_that_is_ejected_or_replaced_leaves_no_copy(application: Application, place: t.Any, tmp_path: pathlib.Path) -> None:
    """Copies may contain secrets of a deployer, and would fill the pool."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    device = "Systems/{one}/VirtualMedia/Cd/Actions/VirtualMedia."
    for name in ("first.iso", "second.iso"):
        (tmp_path / name).write_bytes(bytes(2048))
    before = sorted(place.pool.iterdir())
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        images = [{"Image": f"http://127.0.0.1:{server.server_port}/{name}.iso"} for name in ("first", "second")]
        assert [status for status, _body in application.ask(*(("POST", f"{device}InsertMedia", "one", image) for image in images))] == [204, 204]
        server.shutdown()
    (copy,) = [path.name for path in sorted(place.pool.iterdir()) if path not in before]
    assert re.fullmatch(f"second-iso-[a-z0-9_]+-{application.systems['one']}.img", copy)
    assert application.ask(("POST", f"{device}EjectMedia", "one", {}))[0][0] == 204
    assert sorted(place.pool.iterdir()) == before


def test_size_and_links_are_those_of_the_system(application: Application, place: t.Any) -> None:
    """What sushy-tools rounds, multiplies or links without having it."""
    document = place.machine("three", memory=1536).XMLDesc(0)
    topology = "<cpu mode='maximum'><topology sockets='2' dies='1' cores='2' threads='2'/></cpu>"
    document = re.sub(r"<cpu .*?(</cpu>|/>)", topology, re.sub(r"<vcpu.*?</vcpu>", "<vcpu>8</vcpu>", document), flags=re.DOTALL)
    three = place.connection.defineXML(document).UUIDString()
    answers = application.ask(
        ("GET", f"Systems/{three}", "*", None),
        ("GET", f"Systems/{three}/Processors", "*", None),
        ("GET", f"Systems/{three}/Processors/CPU1", "*", None),
        ("GET", "Systems/{box}", "*", None),
        ("GET", "Managers/{box}", "*", None),
        ("GET", "", None, None),
    )
    system, processors, processor, container, manager, root = (body for _status, body in answers)
    assert system["MemorySummary"]["TotalSystemMemoryGiB"] == 1.5 and system["ProcessorSummary"]["Count"] == 8
    assert members(answers[1]) == {"CPU0", "CPU1"} and processors["@odata.id"] == f"/redfish/v1/Systems/{three}/Processors"
    assert (processor["TotalCores"], processor["TotalThreads"]) == (2, 4) and processor["@odata.id"].endswith(f"{three}/Processors/CPU1")
    assert "SecureBoot" not in system and "SecureBoot" not in container and "VirtualMedia" in system
    assert "VirtualMedia" not in container and "VirtualMedia" not in manager
    links = {body[name]["@odata.id"] for body in (root, container) for name in body if isinstance(body[name], dict) and "@odata.id" in body[name]}
    assert [status for status, _body in application.ask(*(("GET", link.removeprefix("/redfish/v1/"), "*", None) for link in links))] == [200] * len(links)
    place.connection.lookupByUUIDString(three).undefine()
