# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The client, at a controller that misbehaves. How it works with a proper one is in tests/metal."""

from __future__ import annotations

import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import io_redfish, model_bmc, model_power, run_power

ROOT = {"Systems": {"@odata.id": "/redfish/v1/Systems"}}
SYSTEMS = {"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}
SYSTEM = {"PowerState": "On", "@odata.etag": 'W/"7"', "Boot": {"BootSourceOverrideTarget": "None"}, "Actions": {"#ComputerSystem.Reset": {"target": "/reset"}}}


class Controller:
    """Answers from a table: path → status and body; the requests are recorded."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.answers: dict[str, tuple[int, t.Any]] = {}
        self.requests: list[tuple[str, str, dict[str, str], t.Any]] = []
        self.board: Board | None = None
        self.certificate = folder / "c.pem"
        argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=bmc"]
        argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(folder / "k.pem"), "-out", str(self.certificate)]
        subprocess.run(argv, check=True, capture_output=True)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                outer.requests.append((self.command, self.path, dict(self.headers), json.loads(self.rfile.read(size)) if size else None))
                headers: t.Mapping[str, str] = {}
                if outer.board and self.path in outer.board.paths and not (outer.board.hidden and self.path.endswith("/SD")):
                    status, body, headers = outer.board.answer(*outer.requests[-1])
                else:
                    status, body = outer.answers.get(self.path, (404, {}))
                if not status:
                    self.wfile.write(body)
                    self.close_connection = True
                    return
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "https://127.0.0.1:1/elsewhere")
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = _answer  # noqa: N815

            def log_message(self, *unused: t.Any) -> None:  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / "k.pem")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def connect(self, **more: t.Any) -> io_redfish.RedfishServer:
        entry = {"address": f"127.0.0.1:{self.server.server_address[1]}", "user": "operator", "verify_ca": str(self.certificate), **more}
        return io_redfish.RedfishServer(model_bmc.parse(entry), "p", [], 10)


@pytest.fixture(name="controller")
def fixture_controller(tmp_path: pathlib.Path) -> t.Iterator[Controller]:
    controller = Controller(tmp_path)
    controller.answers = {"/redfish/v1/": (200, ROOT), "/redfish/v1/Systems": (200, SYSTEMS), "/redfish/v1/Systems/1": (200, SYSTEM), "/reset": (204, b"")}
    yield controller
    controller.server.shutdown()
    controller.server.server_close()


class Board:
    """The boot settings of a controller with one of the deviations that are known from the field. A mock: this hardware is not available.

    :arg kind: ``header`` requires If-Match, and sends the version in a header only. ``weak`` compares a weak version strongly. ``settings`` accepts
        changes at the settings object only. ``ignores`` accepts a change and stores nothing. ``resets`` stores what is not in a change as its default.
        ``star`` requires If-Match, and has no version. ``fixed`` refuses a change with the boot mode. ``late`` stores a change after two queries.
        ``main`` offers a settings object that accepts a change and has no effect.
    """

    DEFAULTS: t.Mapping[str, str] = {"BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideMode": "Legacy"}

    def __init__(self, kind: str) -> None:
        self.kind, self.version, self.powered = kind, 1, "Off"
        self.boot = {**self.DEFAULTS, "BootSourceOverrideMode": "UEFI"}
        self.pending = dict(self.boot)
        self.late: list[dict[str, str]] = []
        self.booted: list[str] = []
        self.hidden = False
        self.paths = ["/redfish/v1/Systems/1", "/reset", *(["/redfish/v1/Systems/1/SD"] if kind in ("settings", "main") else [])]

    def answer(self, method: str, path: str, headers: dict[str, str], body: t.Any) -> tuple[int, t.Any, dict[str, str]]:
        tag = f'W/"{self.version}"' if self.kind == "weak" else f'"{self.version}"'
        if method == "POST":
            # what the server boots from
            self.booted.append(self.boot["BootSourceOverrideTarget"] if self.boot["BootSourceOverrideEnabled"] != "Disabled" else "disk")
            self.powered = "On"
            return 204, b"", {}
        pending = path.endswith("/SD")
        if method == "PATCH":
            status = self._refusal(pending, headers.get("If-Match"), tag, body["Boot"])
            if status:
                return status, {"error": {"message": f"refused as {self.kind}"}}, {}
            self.version += 1
            self._store(pending, body["Boot"])
            return 200, {}, {}
        if self.late:
            self.boot = self.late.pop() if len(self.late) == 1 else self.late.pop(0)
        body = {"Boot": dict(self.pending if pending else self.boot)}
        if not pending:
            body.update({**SYSTEM, "PowerState": self.powered, **body})
            if self.kind == "weak":
                body["@odata.etag"] = tag
            else:
                body.pop("@odata.etag")
            if len(self.paths) == 3:
                body["@Redfish.Settings"] = {"SettingsObject": {"@odata.id": self.paths[2]}}
        return 200, body, {} if self.kind == "star" else {"ETag": tag}

    def _refusal(self, pending: bool, match: str | None, tag: str, boot: t.Any) -> int:
        if self.kind in ("header", "weak", "star") and match is None:
            return 428
        if match not in (None, tag.removeprefix("W/"), "*" if self.kind == "star" else None):
            return 412
        return 400 if self.kind == "settings" and not pending or self.kind == "fixed" and "BootSourceOverrideMode" in boot else 0

    def _store(self, pending: bool, boot: t.Any) -> None:
        if self.kind == "ignores" or self.kind == "main" and pending:
            return
        after = {**(self.DEFAULTS if self.kind == "resets" else self.boot), **boot}
        if self.kind == "late":
            self.late = [self.boot, after]
        else:
            self.boot = self.pending = after


BOOT = {"bmc": {}, "state": "on", "boot_device": "pxe", "boot_once": True, "boot_mode": None, "wait": True, "wait_timeout": 5}


@pytest.fixture(name="board")
def fixture_board(controller: Controller, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Board:
    controller.board = Board(request.param)
    monkeypatch.setattr(run_power, "machine", lambda params: controller.connect())
    monkeypatch.setattr(io_redfish, "_STORED", 0.5)
    monkeypatch.setattr(io_redfish, "_POLL_STORED", 0.05)
    return controller.board


@pytest.mark.parametrize("board", ["proper", "header", "weak", "settings", "resets", "star", "fixed", "late", "main"], indirect=True)
def test_a_boot_device_is_stored_before_the_power_changes(board: Board) -> None:
    done = run_power.ensure(BOOT, False)
    assert board.booted == ["Pxe"] and done.changed and (done.after.boot_device, done.after.boot_once, done.after.boot_mode) == ("pxe", True, "uefi")
    assert not done.warnings
    assert not run_power.ensure(BOOT, False).changed and not run_power.ensure(BOOT, True).changed


@pytest.mark.parametrize("board", ["weak"], indirect=True)
def test_the_version_that_was_read_is_named_in_a_change(board: Board, controller: Controller) -> None:
    run_power.ensure(BOOT, False)
    tried = [(path, headers.get("If-Match"), body) for method, path, headers, body in controller.requests if method == "PATCH"]
    wanted = {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}}
    assert tried == [("/redfish/v1/Systems/1", version, wanted) for version in ('W/"1"', '"1"')]


@pytest.mark.parametrize("board", ["resets"], indirect=True)
def test_a_boot_mode_does_not_remove_the_boot_device(board: Board) -> None:
    run_power.ensure({**BOOT, "state": None}, False)
    assert run_power.ensure({**BOOT, "state": None, "boot_device": None, "boot_once": False, "boot_mode": "bios"}, False).changed
    assert board.boot == {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once", "BootSourceOverrideMode": "Legacy"}


@pytest.mark.parametrize("board", ["ignores"], indirect=True)
def test_a_boot_device_that_is_not_stored_is_an_error_and_leaves_the_power(board: Board) -> None:
    with pytest.raises(BackendError, match="accepted the change .* and reports None, Disabled, UEFI") as raised:
        run_power.ensure(BOOT, False)
    assert raised.value.path == "boot_device" and raised.value.hint and not board.booted
    with pytest.raises(BackendError) as raised:
        run_power.ensure({**BOOT, "boot_device": None, "boot_once": False, "boot_mode": "bios"}, False)
    assert raised.value.path == "boot_mode" and not board.booted


@pytest.mark.parametrize("board", ["settings"], indirect=True)
def test_settings_that_cannot_be_read_are_unknown(board: Board, controller: Controller) -> None:
    """A boot device depends on them, the power does not."""
    controller.answers[board.paths[2]] = (500, {})
    board.hidden = True
    with pytest.raises(BackendError, match="GET /redfish/v1/Systems/1/SD failed with HTTP 500"):
        run_power.ensure(BOOT, False)
    assert not board.booted
    done = run_power.ensure({**BOOT, "boot_device": None, "boot_once": False}, False)
    assert done.after.state == "on" and (done.after.boot_device, done.after.boot_mode) == (None, None)


@pytest.mark.parametrize(
    ("path", "status", "body", "words", "kind"),
    [
        ("/redfish/v1/Systems", 401, {}, "HTTP 401", RefusedError),
        ("/redfish/v1/Systems", 403, {}, "does not allow", RefusedError),
        ("/redfish/v1/", 301, {}, "redirects", BackendError),
        ("/redfish/v1/", 200, b"<html>", "is not Redfish", BackendError),
        ("/redfish/v1/", 200, [], "is not Redfish", BackendError),
        ("/redfish/v1/", 200, {}, "leads to another machine, or is missing", BackendError),
        ("/redfish/v1/", 200, {"Systems": {"@odata.id": "https://elsewhere/"}}, "leads to another machine", BackendError),
        ("/redfish/v1/Systems", 200, {"Members": []}, "lists no system", BackendError),
        ("/redfish/v1/Systems/1", 500, {"error": {"message": "out of order"}}, "HTTP 500: out of order", io_redfish.NotAnsweringError),
        ("/redfish/v1/Systems/1", 404, b"nonsense", "HTTP 404", BackendError),
        # no HTTP at all, and an answer that ends in the middle
        ("/redfish/v1/Systems/1", 0, b"nonsense\r\n\r\n", "does not answer: nonsense", io_redfish.NotAnsweringError),
        ("/redfish/v1/Systems/1", 0, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", "does not answer", io_redfish.NotAnsweringError),
    ],
)
def test_a_bad_answer_is_one_sentence(controller: Controller, path: str, status: int, body: t.Any, words: str, kind: type[FootprintError]) -> None:
    controller.answers[path] = (status, body)
    with pytest.raises(kind, match=words) as raised:
        controller.connect().read()
    assert "operator" not in str(raised.value)
    # one attempt each
    assert [each[1] for each in controller.requests].count(path) == 1


def test_a_controller_that_is_busy_while_we_wait_is_queried_again_but_not_one_that_refuses(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    server = controller.connect()
    server.read()
    controller.answers["/redfish/v1/Systems/1"] = (503, {})
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        controller.answers["/redfish/v1/Systems/1"] = (200, {**SYSTEM, "PowerState": "Off"})

    monkeypatch.setattr(io_redfish.time, "sleep", pause)
    assert server.wait("off", 60).state == "off" and len(paused) == 1
    controller.answers["/redfish/v1/Systems/1"] = (401, {})
    with pytest.raises(RefusedError):
        server.wait("on", 60)
    controller.answers["/redfish/v1/Systems/1"] = (503, {})
    with pytest.raises(BackendError, match="is not on after 0 s: GET /redfish/v1/Systems/1 failed with HTTP 503"):
        server.wait("on", 0)


class Server:
    """The server of a controller: its states one after the other, each seen once and the last one forever; a reset of a type continues with its states.

    :arg effects: type of a reset → states that follow.
    """

    def __init__(self, controller: Controller, monkeypatch: pytest.MonkeyPatch, effects: t.Mapping[str, t.Sequence[str]], busy: int = 0) -> None:
        self.states = ["On"]
        self.resets: list[str] = []
        self.clock = 0.0
        self.busy = busy
        system = {**SYSTEM, "Actions": {"#ComputerSystem.Reset": {"target": "/reset", "ResetType@Redfish.AllowableValues": list(effects)}}}

        def request(method: str, path: str, body: t.Any = None, headers: t.Any = None) -> dict[str, t.Any]:
            if method == "POST":
                self.resets.append(body["ResetType"])
                if body["ResetType"] == "On" and self.busy:
                    self.busy -= 1
                    raise BackendError("POST /reset failed with HTTP 409: wait a moment.")
                self.states = [self.states[0], *effects[body["ResetType"]]]
                return {}
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return {**system, "PowerState": state}

        def pause(seconds: float) -> None:
            self.clock += seconds

        monkeypatch.setattr(io_redfish.time, "sleep", pause)
        monkeypatch.setattr(io_redfish.time, "monotonic", lambda: self.clock)
        self.connection = controller.connect()
        monkeypatch.setattr(self.connection, "_request", request)
        monkeypatch.setattr(self.connection, "_where", lambda: "/redfish/v1/Systems/1")
        monkeypatch.setattr(run_power, "machine", lambda params: self.connection)

    def cycle(self, **more: t.Any) -> run_power.PowerResult:
        params = {"bmc": {}, "state": "cycle", "boot_device": None, "boot_once": False, "boot_mode": None, "wait": True, "wait_timeout": 60}
        return run_power.ensure({**params, **more}, False)


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("busy", [0, 2])
def test_a_server_is_off_before_it_is_on_again(controller: Controller, monkeypatch: pytest.MonkeyPatch, wait: bool, busy: int) -> None:
    effects = {"On": ["PoweringOn", "On"], "ForceOff": ["On", "On", "PoweringOff", "Off"], "PowerCycle": ["On"]}
    server = Server(controller, monkeypatch, effects, busy)
    result = server.cycle(wait=wait)
    assert result.changed and result.actions == ("power cycle",) and server.resets == ["ForceOff", *["On"] * (1 + busy)]
    assert not wait or result.after.state == "on"


@pytest.mark.parametrize(
    ("effects", "words"),
    [
        ({"On": ["On"], "ForceOff": ["On"]}, "the server is not off after 60 s: it is on"),
        ({"On": ["Off"], "ForceOff": ["Off"]}, "the server is not on after 60 s: it is off"),
        # that cannot be distinguished from a controller that ignores it
        ({"On": ["On"], "PowerCycle": ["On"]}, "the server is not off after 60 s: it is on"),
    ],
)
def test_a_power_cycle_that_was_not_seen_is_an_error(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, effects: dict[str, list[str]], words: str
) -> None:
    with pytest.raises(BackendError, match=words):
        Server(controller, monkeypatch, effects).cycle()


def test_a_power_cycle_of_the_controller_is_seen_off(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(controller, monkeypatch, {"On": ["On"], "PowerCycle": ["On", "On", "Off", "PoweringOn", "On"]})
    assert server.cycle().after.state == "on" and server.resets == ["PowerCycle"]


def test_a_server_that_remains_off_is_named(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="was powered off, and was not powered on again within 60 s: POST /reset failed with HTTP 409") as raised:
        Server(controller, monkeypatch, {"On": ["On"], "ForceOff": ["Off"]}, busy=1000).cycle()
    assert raised.value.hint


def test_check_mode_refuses_what_the_firmware_does_not_have(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    boot = {"BootSourceOverrideTarget": "None", "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe"]}
    controller.answers["/redfish/v1/Systems/1"] = (200, {**SYSTEM, "Boot": boot})
    monkeypatch.setattr(run_power, "machine", lambda params: controller.connect())
    params = {"bmc": {}, "state": None, "boot_device": "cdrom", "boot_once": False, "boot_mode": None, "wait": True, "wait_timeout": 1}
    for check_mode in (True, False):
        with pytest.raises(model_power.UnsupportedError, match="offers None, Pxe, not Cd"):
            run_power.ensure(params, check_mode)
    assert run_power.ensure({**params, "boot_device": "pxe"}, True).actions == ("boot from pxe continuously",)
    assert {each[0] for each in controller.requests} == {"GET"}


def test_an_untrusted_certificate_gets_no_credentials(controller: Controller) -> None:
    with pytest.raises(RefusedError, match="not trusted"):
        controller.connect(verify_ca="true").read()
    assert not controller.requests
    assert controller.connect(verify_ca="false").read().state == "on"
