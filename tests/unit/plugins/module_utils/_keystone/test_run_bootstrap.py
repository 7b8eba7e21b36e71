# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity service gets what is missing, and is not changed otherwise. Its API is a real server on loopback."""

from __future__ import annotations

import http.server
import json
import pathlib
import threading
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_keystone import Keystone, NotAnswering
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_keystone import why_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_bootstrap import ensure, wanted

URL = "https://192.0.2.20:5000/v3"
WANTED = wanted({"username": "admin", "project": "admin", "role": "admin", "region": "one", "public_url": URL})


def token(urls: t.Mapping[str, str], region: str = "one", role: str = "admin") -> dict[str, t.Any]:
    endpoints = [{"interface": name, "url": url, "region_id": region, "region": region} for name, url in urls.items()]
    return {"roles": [{"name": "member"}, {"name": role}], "catalog": [{"type": "identity", "endpoints": endpoints}, {"type": "image", "endpoints": []}]}


GOOD = token(WANTED.urls)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (GOOD, []),
        (None, ["create admin or set its password"]),
        (token({**WANTED.urls, "public": "https://192.0.2.9:5000/v3"}), [f"set the public endpoint of one to {URL}, was https://192.0.2.9:5000/v3"]),
        (token(WANTED.urls, region="two"), [f"set the {name} endpoint of one to {URL}" for name in ("public", "internal", "admin")]),
        (token(WANTED.urls, role="reader"), ["assign the role admin to admin"]),
        ({}, ["assign the role admin to admin"] + [f"set the {name} endpoint of one to {URL}" for name in ("public", "internal", "admin")]),
    ],
)
def test_what_is_missing(answer: t.Any, words: list[str]) -> None:
    assert list(why_bootstrap(WANTED, answer)) == words


def test_other_interfaces_follow_the_public_one() -> None:
    raw = {"username": "a", "project": "b", "role": "c", "region": "d", "public_url": "p"}
    assert wanted(raw).urls == {"public": "p", "internal": "p", "admin": "p"}
    assert wanted({**raw, "internal_url": "i"}).urls == {"public": "p", "internal": "i", "admin": "i"}


class Api:
    """Returns the configured answer and records requests."""

    def __init__(self) -> None:
        self.answer: tuple[int, t.Any] = (201, {"token": GOOD})
        self.asked: list[t.Any] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # pylint: disable=invalid-name
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                body = json.dumps(outer.answer[1]).encode("utf-8")
                self.send_response(outer.answer[0])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: t.Any) -> None:  # pylint: disable=redefined-builtin
                pass

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v3"


@pytest.fixture
def api() -> t.Iterator[Api]:
    it = Api()
    yield it
    it.server.shutdown()
    it.server.server_close()


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A ``runuser`` that writes down what it was called with."""
    path, log = tmp_path / "runuser", tmp_path / "called"
    path.write_text(f'#!/bin/sh\necho "$@" > {log}\necho "$OS_BOOTSTRAP_PASSWORD" > {log}.password\n', "ascii")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return log


def test_nothing_is_done_when_nothing_is_missing(api: Api, program: pathlib.Path) -> None:
    assert ensure(WANTED, "secret", Keystone(api.url), check_mode=False).actions == ()
    assert not program.exists()
    login = api.asked[0]["auth"]["identity"]["password"]["user"]
    assert login == {"name": "admin", "domain": {"id": "default"}, "password": "secret"}


def test_the_password_is_on_no_command_line(api: Api, program: pathlib.Path) -> None:
    api.answer = (401, {})
    assert ensure(WANTED, "secret", Keystone(api.url), check_mode=True).changed and not program.exists()

    class Bootstrapped(Keystone):
        def bootstrap(self, password: str, options: t.Mapping[str, str]) -> None:
            super().bootstrap(password, options)
            api.answer = (201, {"token": GOOD})

    assert ensure(WANTED, "secret", Bootstrapped(api.url), check_mode=False).actions == ("create admin or set its password",)
    called = program.read_text("ascii")
    assert called.startswith("-u keystone -- keystone-manage bootstrap --bootstrap-username admin") and f"--bootstrap-public-url {URL}" in called
    assert "secret" not in called and program.with_suffix(".password").read_text("ascii") == "secret\n"


def test_a_bootstrap_without_effect_is_an_error(api: Api, program: pathlib.Path) -> None:
    api.answer = (401, {})
    with pytest.raises(BackendError, match="still required after keystone-manage bootstrap: create admin or set its password"):
        ensure(WANTED, "secret", Keystone(api.url), check_mode=False)


def test_an_error_of_the_service_does_not_start_a_bootstrap(api: Api, program: pathlib.Path) -> None:
    api.answer = (500, {})
    with pytest.raises(BackendError, match="returned 500"):
        ensure(WANTED, "secret", Keystone(api.url), check_mode=False)
    assert not program.exists()


def test_a_service_that_is_not_there(program: pathlib.Path) -> None:
    slept: list[float] = []
    silent = Keystone("http://127.0.0.1:9/v3")
    with pytest.raises(NotAnswering):
        ensure(WANTED, "secret", silent, check_mode=False, wait_timeout=3, sleep=slept.append)
    assert len(slept) == 3 and not program.exists()
    assert ensure(WANTED, "secret", silent, check_mode=True).changed
