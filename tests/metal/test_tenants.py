# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of the role redfish_emulator with hostile accounts: they neither reach settings of others, nor the host, nor all of its threads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import json
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import time
import typing as t

import bare
import pytest
import service
from test_emulator import LARGEST, Answer, Application, fixture_application

__all__ = ["fixture_application"]

INSERT = "VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia"
#: All rules of the application that change something.
RULES = """
import footprint_redfish
for rule in footprint_redfish.app.url_map.iter_rules():
    for method in rule.methods - {"GET", "HEAD", "OPTIONS"}:
        print(method, rule.rule)
"""


class Images(http.server.BaseHTTPRequestHandler):
    """A hostile server of images: paths are /slow, /endless, /redirect?URL, /name?FILE, /size?BYTES and /short, which ends too early."""

    def do_GET(self) -> None:  # noqa: N802
        kind, _mark, value = self.path.lstrip("/").partition("?")
        self.send_response(302 if kind == "redirect" else 200)
        self.send_header("Location", value) if kind == "redirect" else None
        self.send_header("Content-Disposition", f'attachment; filename="{value}"') if kind == "name" else None
        self.send_header("Content-Length", "1001") if kind == "short" else None
        self.end_headers()
        with contextlib.suppress(OSError):
            if kind == "name":
                self.wfile.write(b"content")
            self.wfile.write(bytes(int(value) if kind == "size" else 1000 if kind == "short" else 0))
            while kind in ("slow", "endless"):
                self.wfile.write(bytes(1 if kind == "slow" else 1 << 16))
                time.sleep(0.2 if kind == "slow" else 0)

    def log_message(self, *unused: t.Any) -> None:  # pylint: disable=arguments-differ
        pass


@pytest.fixture(name="images")
def fixture_images() -> t.Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Images) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def insert(running: service.Service, uuid: str, image: str, account: tuple[str, str], timeout: float = 60) -> int | None:
    """Insert a medium; the status, ``None`` if the client ends the connection before it is answered."""
    context = ssl.create_default_context(cafile=str(running.certificate))
    body = json.dumps({"Image": image}).encode()
    with socket.create_connection(("localhost", running.port)) as plain, context.wrap_socket(plain, server_hostname="localhost") as stream:
        stream.settimeout(timeout)
        head = f"POST /redfish/v1/Systems/{uuid}/{INSERT} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {running.basic(account)}\r\n"
        stream.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            return int(stream.recv(4096).split()[1])
        except TimeoutError:
            return None


def test_media_of_one_account_leave_threads_and_space_to_others(place: t.Any, tmp_path: pathlib.Path, images: str) -> None:
    uuids = [place.machine(name).UUIDString() for name in ("one", "two")]
    tenant, other = ("tenant", "a"), ("other", "b")
    media = tmp_path / "state" / "media"
    with service.Service(place, tmp_path, {"tenant": ("a", "one"), "other": ("b", "two")}, seconds=15, bytes=1 << 20) as running:
        with concurrent.futures.ThreadPoolExecutor(80) as pool:
            # most clients give up, and the service continues without them
            slow = [pool.submit(insert, running, uuids[0], f"{images}/slow", tenant, 60 if each < 3 else 1) for each in range(75)]
            time.sleep(2)
            begin = time.monotonic()
            assert running.get(f"/redfish/v1/Systems/{uuids[1]}", other)[0]["UUID"] == uuids[1]
            assert insert(running, uuids[1], f"{images}/name?own.iso", other) == 204 and time.monotonic() - begin < 10
            assert len(list(media.iterdir())) == 1
            # the time of the download, or no place for another one
            assert {each.result() for each in slow} <= {400, 503, None} and [each.result() for each in slow[:3]].count(None) == 0
        end = time.monotonic() + 60
        # what clients have abandoned ends by itself
        while insert(running, uuids[0], f"{images}/endless", tenant) != 400:
            assert time.monotonic() < end
            time.sleep(1)
        assert insert(running, uuids[0], f"{images}/name?own.iso", tenant) == 204 and not list(media.iterdir())
        assert not list((tmp_path / "temporary").iterdir())


def test_requests_that_arrive_slowly_occupy_no_thread(place: t.Any, tmp_path: pathlib.Path) -> None:
    uuid = place.machine("two").UUIDString()
    other, context = ("other", "b"), ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    head = f"POST /redfish/v1/Systems/{uuid}/Actions/ComputerSystem.Reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lengths = ("Content-Length: 100", "Transfer-Encoding: chunked")
    with service.Service(place, tmp_path, {"tenant": ("a", "two"), "other": ("b", "two")}) as running, contextlib.ExitStack() as stack:
        for number in range(2 * int(service.THREADS)):
            stream = stack.enter_context(context.wrap_socket(socket.create_connection(("localhost", running.port))))
            account = running.basic((("tenant", "a"), other)[number % 2])
            stream.sendall(f"{head}Authorization: {account}\r\n{lengths[number // 2 % 2]}\r\n\r\n".encode() + b"5\r\n{")
        begin = time.monotonic()
        assert running.get(f"/redfish/v1/Systems/{uuid}", other)[0]["UUID"] == uuid and time.monotonic() - begin < 10
        assert insert(running, uuid, "x" * 30000, other) == 413


#: Sends more requests of one account than it may have at the same time, while systems are busy, and one of another account.
BUSY = """
import concurrent.futures, sys, threading
import footprint_redfish as own
go, read = threading.Event(), own.MachineDriver.get_power_state
def wait(self, identity):
    if own._account() == "one":
        go.wait(60)
    return read(self, identity)
own.MachineDriver.get_power_state = wait
def ask(name):
    return own.app.test_client().get("/redfish/v1/Systems/" + uuids[name], headers={own.HEADER: name}).status_code
uuids = dict(zip(("one", "two"), sys.stdin.read().split()))
with concurrent.futures.ThreadPoolExecutor(own.THREADS) as pool:
    first = [pool.submit(ask, "one") for _each in range(own.OWN + 5)]
    print(next(concurrent.futures.as_completed(first)).result(), ask("two"))
    go.set()
    print(sorted(each.result() for each in first) == [200] * own.OWN + [503] * 5, ask("one"), own.THREADS)
"""


def test_an_account_leaves_half_of_the_threads_to_others(application: Application) -> None:
    found = application.run(BUSY, f"{application.systems['one']} {application.systems['two']}").split()
    assert found == ["503", "200", "True", "200", service.THREADS]


def test_what_a_killed_download_has_left_is_deleted_at_the_next_start(application: Application, tmp_path: pathlib.Path) -> None:
    left = tmp_path / "state" / "media" / "image.iso.aaaa"
    left.parent.mkdir()
    left.write_bytes(bytes(1024))
    application.ask(("GET", "", None, None))
    assert not left.exists() and left.parent.stat().st_mode & 0o777 == 0o700


def copies(place: t.Any, uuid: str) -> list[pathlib.Path]:
    """The media of a machine in the pool, and volumes whose name is a number, which sushy-tools creates on request."""
    return [path for path in sorted(place.pool.iterdir()) if uuid in path.name or path.name.isdecimal()]


def refused(answer: Answer) -> bool:
    return answer[0] == 400 and "redfish_emulator_media_sources" in answer[1]["error"]["message"]


def test_media_are_not_downloaded_from_the_host_or_its_networks(application: Application, place: t.Any, images: str) -> None:
    """The addresses that clients use to reach services which trust the host, in all forms, and after a redirect."""
    port = images.rpartition(":")[2]
    subprocess.run(["ip", "address", "add", "198.18.255.1/24", "dev", place.bridge], check=True)
    try:
        own = [f"http://{host}:{port}/name" for host in ("198.18.255.1", "localhost", "127.1.2.3", "2130706433", "0x7f.1", "0.0.0.0", "[::1]")]
        own += [f"http://{host}:{port}/name" for host in ("[::ffff:127.0.0.1]", "169.254.169.254", "[fe80::1]", "224.0.0.1", "192.0.2.7")]
        application.configure(["0.0.0.0/1", "128.0.0.0/2", "198.18.255.0/24", "fe80::/10", "::/8"])
        answers = application.ask(*(("POST", f"Systems/{{one}}/{INSERT}", "one", {"Image": image}) for image in own[:-1]))
        assert [image for image, answer in zip(own[:-1], answers) if not refused(answer)] == []
        # by default, nothing is permitted
        application.configure([])
        assert all(map(refused, application.ask(*(("POST", f"Systems/{{one}}/{INSERT}", "one", {"Image": image}) for image in own))))
        # an address that is listed, a redirect to another one, and what is not HTTP
        application.configure(["127.0.0.1"])
        cases = [f"{images}/name", f"{images}/redirect?http://127.0.0.2:{port}/name", "file:///etc/hostname", f"{images}/redirect?file:///etc/hostname", None]
        answers = application.ask(*(("POST", f"Systems/{{one}}/{INSERT}", "one", {"Image": image}) for image in cases))
    finally:
        subprocess.run(["ip", "address", "del", "198.18.255.1/24", "dev", place.bridge], check=True)
    assert answers[0][0] == 204 and refused(answers[1]) and [answer[0] for answer in answers[2:]] == [400, 502, 400]


@pytest.mark.parametrize("name", ["ABSOLUTE", "../../../../../../../..ABSOLUTE", "a</name><target><path>ABSOLUTE</path></target>", "x" * 300])
def test_the_name_of_a_medium_is_not_chosen_by_its_server(application: Application, place: t.Any, tmp_path: pathlib.Path, images: str, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept", "utf-8")
    given = name.replace("ABSOLUTE", str(victim))
    (answer,) = application.ask(("POST", f"Systems/{{one}}/{INSERT}", "one", {"Image": f"{images}/name?{given}"}))
    assert answer[0] == 204 and victim.read_text("utf-8") == "kept"
    (copy,) = copies(place, application.systems["one"])
    assert copy.read_bytes() == b"content" and re.fullmatch(r"name-[a-z0-9_]+-[0-9a-f-]{36}\.img", copy.name)
    application.ask(("POST", f"Systems/{{one}}/{INSERT.replace('Insert', 'Eject')}", "one", {}))
    assert not copies(place, application.systems["one"])


def test_a_medium_is_complete_or_an_error(application: Application, place: t.Any, images: str) -> None:
    """One byte more than permitted, and a connection that ends."""
    cases = {f"size?{LARGEST + 1}": 400, "short": 502, "size?0": 204, f"size?{LARGEST}": 204}
    answers = application.ask(*(("POST", f"Systems/{{one}}/{INSERT}", "one", {"Image": f"{images}/{case}"}) for case in cases))
    assert [status for status, _body in answers] == list(cases.values())
    assert f"more than {LARGEST} bytes" in answers[0][1]["error"]["message"]
    assert [path.stat().st_size for path in copies(place, application.systems["one"])] == [LARGEST]


def links(value: t.Any) -> t.Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("@odata.id"), str):
            yield value["@odata.id"]
        for each in value.values():
            yield from links(each)
    elif isinstance(value, list):
        for each in value:
            yield from links(each)


def crawl(application: Application, account: str) -> list[str]:
    """All resources that an account reaches."""
    known: list[str] = []
    found = {"/redfish/v1/"}
    while found:
        known += sorted(found)
        answers = application.ask(*(("GET", path.removeprefix("/redfish/v1/"), account, None) for path in sorted(found)))
        found = {link.partition("#")[0] for _status, body in answers for link in links(body)} - set(known)
    return known


def test_what_one_account_writes_is_not_seen_by_another(application: Application, place: t.Any, tmp_path: pathlib.Path, images: str) -> None:
    """Every request that changes something, sent for one system; then all that the account of the other system reads is as before."""
    clock = {"DateTime": "2001-02-03T04:05:06+00:00", "DateTimeLocalOffset": "+05:30"}
    boot = {"BootSourceOverrideTarget": "UefiHttp", "BootSourceOverrideMode": "UEFI", "HttpBootUri": f"{images}/name?x"}
    text = bare.certificate(tmp_path)[0].read_text("utf-8")
    pem, system, device = {"CertificateString": text, "CertificateType": "PEM"}, "Systems/{one}", "Systems/{one}/VirtualMedia/Cd"
    medium = {"Image": f"{images}/name", "UserName": "canary-user", "Password": "canary-password"}
    uri = "/redfish/v1/Managers/{one}/VirtualMedia/Cd/Certificates/Default".format(**application.systems)
    writes: dict[str, tuple[tuple[str, str, t.Any], int]] = {
        "PATCH /redfish/v1/Systems/<identity>": (("PATCH", system, {"Boot": boot, "IndicatorLED": "Blinking"}), 204),
        "PATCH /redfish/v1/Managers/<identity>": (("PATCH", "Managers/{one}", clock), 204),
        "PATCH /redfish/v1/Systems/<identity>/BIOS/Settings": (("PATCH", f"{system}/BIOS/Settings", {"Attributes": {"SerialNumber": "canary"}}), 204),
        "PATCH /redfish/v1/Systems/<identity>/SecureBoot": (("PATCH", f"{system}/SecureBoot", {"SecureBootEnable": False}), 204),
        "PATCH /redfish/v1/Systems/<identity>/VirtualMedia/<device>": (("PATCH", device, {"VerifyCertificate": True}), 204),
        "POST /redfish/v1/Systems/<identity>/VirtualMedia/<device>/Certificates": (("POST", f"{device}/Certificates", pem), 204),
        "POST /redfish/v1/Systems/<identity>/VirtualMedia/<device>/Actions/VirtualMedia.InsertMedia": (("POST", f"{system}/{INSERT}", medium), 204),
        "POST /redfish/v1/CertificateService/Actions/CertificateService.ReplaceCertificate": (
            ("POST", "CertificateService/Actions/CertificateService.ReplaceCertificate", {**pem, "CertificateUri": uri}), 404,
        ),
        "POST /redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate": (
            ("POST", "UpdateService/Actions/UpdateService.SimpleUpdate", {"ImageURI": "http://192.0.2.1/", "Targets": ["/redfish/v1/Systems/{one}"]}), 404,
        ),
        "PATCH /redfish/v1/Chassis/<identity>": (("PATCH", "Chassis/15693887-7984-9484-3272-842188918912", {"IndicatorLED": "Off"}), 404),
        "POST /redfish/v1/Systems/<identity>/Storage/<storage_id>/Volumes": (
            ("POST", f"{system}/Storage/1/Volumes", {"Name": "v", "VolumeType": "RawDevice", "CapacityBytes": 1 << 20}), 501,
        ),
        "POST /redfish/v1/Systems/<identity>/Actions/ComputerSystem.Reset": (
            ("POST", f"{system}/Actions/ComputerSystem.Reset", {"ResetType": "ForceOff"}), 204,
        ),
    }  # fmt: skip
    undone: dict[str, tuple[str, str, t.Any]] = {
        "POST /redfish/v1/Systems/<identity>/VirtualMedia/<device>/Actions/VirtualMedia.EjectMedia": (
            "POST", f"{system}/{INSERT.replace('Insert', 'Eject')}", {},
        ),
        "DELETE /redfish/v1/Systems/<identity>/VirtualMedia/<device>/Certificates/<cert_id>": ("DELETE", f"{device}/Certificates/Default", None),
        "POST /redfish/v1/Systems/<identity>/BIOS/Actions/Bios.ResetBios": ("POST", f"{system}/BIOS/Actions/Bios.ResetBios", {}),
    }  # fmt: skip
    assert set(application.run(RULES).splitlines()) == {*writes, *undone}, "a request that this test does not send"
    # a medium refreshes the pool, after which its volumes are listed
    place.connection.storagePoolLookupByName("footprint-test").refresh()
    reads = [("GET", path.removeprefix("/redfish/v1/"), "two", None) for path in crawl(application, "two")]
    assert len(reads) > 20
    sent = [(method, path, "one", body) for (method, path, body), _status in writes.values()]
    mine = [("GET", path, "one", None) for path in (system, "Managers/{one}", device)]
    others = [("PATCH", "Managers/{two}", "two", {**clock, "DateTime": "2002-02-02T02:02:02+00:00"}), mine[1]]
    answers = application.ask(*reads, *sent, *mine, *reads, *((method, path, "one", body) for method, path, body in undone.values()), *reads, *others)
    sizes = (len(reads), len(sent), len(mine), len(reads), len(undone), len(reads), len(others))
    parts = [[answers.pop(0) for _each in range(size)] for size in sizes]
    assert [status for status, _body in parts[1]] == [status for _request, status in writes.values()], parts[1]
    assert parts[2][0][1]["Boot"]["HttpBootUri"] == boot["HttpBootUri"] and parts[2][0][1]["IndicatorLED"] == "Blinking"
    assert parts[2][1][1]["DateTime"] == parts[6][1][1]["DateTime"] == clock["DateTime"] and parts[2][2][1]["UserName"] == "canary-user"
    for seen in (parts[0], parts[3], parts[5]):
        for _status, body in seen:
            # its own time continues
            assert isinstance(body, dict) and not str(body.pop("DateTime", "")).startswith("2001")
    assert parts[0] == parts[3] == parts[5]
    assert not copies(place, application.systems["one"])


def test_an_account_does_not_multiply_a_system_by_the_forms_of_its_uuid(application: Application) -> None:
    other = "{one}".format(**application.systems).upper().replace("-", "")
    clock = {"DateTime": "2001-02-03T04:05:06+00:00", "DateTimeLocalOffset": "+05:30"}
    answers = application.ask(("PATCH", f"Managers/{other}", "one", clock), ("GET", "Managers/{one}", "one", None))
    assert answers[0][0] == 204 and answers[1][1]["DateTime"] == clock["DateTime"]


def test_the_name_of_another_machine_differs_in_case_only(application: Application) -> None:
    answers = application.ask(("GET", "Systems/{one}", "ONE", None), ("GET", "Systems/{one}", "one", None))
    assert [status for status, _body in answers] == [404, 200]
