# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of images between members, over real connections."""

from __future__ import annotations

import hashlib
import http.client
import io
import os
import pathlib
import socket
import threading
import time
import typing as t

import pytest

from tests.support.program import load

IMAGE = "11111111-2222-3333-4444-555555555555"
CONTENT = os.urandom(3 << 20)


@pytest.fixture(name="module")
def fixture_module() -> t.Any:
    return load("roles/glance/files/glance_copies.py")


class Member:
    """A member with a folder, which serves its images."""

    def __init__(self, module: t.Any, folder: pathlib.Path, port: int = 0, peers: t.Sequence[str] = (), key: str = "k" * 16) -> None:
        folder.mkdir()
        self.records = [("active", len(CONTENT), "sha512", hashlib.sha512(CONTENT).hexdigest())]
        self.images = [(IMAGE, "active", len(CONTENT))]
        settings = {"images": str(folder), "peers": peers, "port": port, "copies": 2, "deleted_kept": 100, "key": key}
        self.copies = module.Copies(settings, lambda query, values=(): self.records if values else self.images)
        self.folder = folder

    def serve(self, module: t.Any) -> int:
        handler = type("Own", (module.Handler,), {"copies": self.copies})
        server = module.Server(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])


@pytest.fixture(name="pair")
def fixture_pair(module: t.Any, tmp_path: pathlib.Path) -> tuple[Member, Member]:
    """Return a member and a client of it with the same key."""
    peer = Member(module, tmp_path / "peer")
    return Member(module, tmp_path / "own", peer.serve(module), ["127.0.0.1"]), peer


def upload(copies: t.Any, module: t.Any, status: str = "204 No Content") -> str:
    """Upload through the wrapped service, which writes the file as glance does; return the status."""
    reported: list[str] = []

    def glance(environ: dict[str, t.Any], start: t.Any) -> list[bytes]:
        (copies.folder / IMAGE).write_bytes(environ["wsgi.input"].read())
        start(status, [])
        return [b""]

    environ = {"PATH_INFO": f"/v2/images/{IMAGE}/file", "REQUEST_METHOD": "PUT", "wsgi.input": io.BytesIO(CONTENT)}
    list(module.copied(glance, copies)(environ, lambda found, headers: reported.append(found)))
    return reported[0]


def test_upload_is_acknowledged_with_a_copy(module: t.Any, pair: tuple[Member, Member]) -> None:
    own, peer = pair
    assert upload(own.copies, module).startswith("204")
    assert (peer.folder / IMAGE).read_bytes() == CONTENT
    assert (peer.folder / IMAGE).stat().st_mode & 0o777 == 0o640


def test_failed_upload_is_not_copied(module: t.Any, pair: tuple[Member, Member]) -> None:
    own, peer = pair
    assert upload(own.copies, module, "409 Conflict").startswith("409")
    assert not list(peer.folder.iterdir())


def test_upload_without_a_reachable_peer(module: t.Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = Member(module, tmp_path / "own", 9, ["127.0.0.1"])
    assert upload(own.copies, module).startswith("204")
    assert "is on 1 of 2 controllers" in capsys.readouterr().err


class Answer:
    """A response that counts how often it is closed."""

    def __init__(self, parts: t.Sequence[bytes], closed: list[str], path: str) -> None:
        self.parts, self.closed, self.path = parts, closed, path

    def __iter__(self) -> t.Iterator[bytes]:
        return iter(self.parts)

    def close(self) -> None:
        self.closed.append(self.path)


class Glance:
    """As glance answers a download. :cvar RECORDS: token → status for the image's record. :cvar FILES: token → refusal of its content."""

    RECORDS = {"member": "200 OK", "reader": "200 OK", "other": "404 Not Found", "none": "403 Forbidden"}
    FILES = {"reader": "403 Forbidden", "other": "404 Not Found", "none": "403 Forbidden"}

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.closed: list[str] = []
        self.bodies: list[bytes] = []

    def __call__(self, environ: dict[str, t.Any], start: t.Any) -> Answer:
        # it moves parts of the path, and removes headers
        path, token = environ.pop("PATH_INFO"), environ.pop("HTTP_X_AUTH_TOKEN", "")
        self.asked.append(path)
        self.bodies.append(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        parts: list[bytes] = []
        if token not in self.RECORDS:
            status = "401 Unauthorized"
        elif not path.endswith("/file"):
            status, parts = self.RECORDS[token], [b"{}"]
        elif token in self.FILES:
            status = self.FILES[token]
        elif (self.folder / IMAGE).exists():
            status, parts = "200 OK", [(self.folder / IMAGE).read_bytes()]
        else:
            status = "204 No Content"
        start(status, [])
        return Answer(parts, self.closed, path)


def download(copies: t.Any, module: t.Any, token: str = "member", glance: Glance | None = None) -> tuple[str, bytes]:
    """Download through the wrapped service; return the status and the content."""
    reported: list[str] = []
    environ = {"PATH_INFO": f"/v2/images/{IMAGE}/file", "REQUEST_METHOD": "GET", "wsgi.input": io.BytesIO(b"body"), "CONTENT_LENGTH": "4"}
    if token:
        environ["HTTP_X_AUTH_TOKEN"] = token
    body = b"".join(module.copied(glance or Glance(copies.folder), copies)(environ, lambda status, headers: reported.append(status)))
    assert len(reported) == 1
    return reported[0], body


def test_download_fetches_a_missing_image(module: t.Any, pair: tuple[Member, Member]) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT)
    glance = Glance(own.folder)
    assert download(own.copies, module, glance=glance) == ("200 OK", CONTENT)
    # the record was requested without the body, which belongs to the request itself; its answer is not needed any more
    assert glance.asked == [f"/v2/images/{IMAGE}", f"/v2/images/{IMAGE}/file"]
    assert glance.bodies == [b"", b"body"] and glance.closed == [f"/v2/images/{IMAGE}"]
    # it is here now
    assert download(own.copies, module, glance=glance) == ("200 OK", CONTENT)
    assert glance.asked[2:] == [f"/v2/images/{IMAGE}/file"]


@pytest.mark.parametrize(
    ("token", "status"), [("", "401 Unauthorized"), ("expired", "401 Unauthorized"), ("other", "404 Not Found"), ("none", "403 Forbidden")]
)
def test_nothing_is_fetched_for_who_may_not_see_the_image(module: t.Any, pair: tuple[Member, Member], token: str, status: str) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT)
    asked: list[str] = []
    fetch = own.copies.fetch
    own.copies.fetch = lambda image: asked.append(image) or fetch(image)
    assert download(own.copies, module, token) == (status, b"")
    assert not asked and not list(own.folder.iterdir())
    # cut off by a power loss
    (own.folder / IMAGE).write_bytes(CONTENT[:1000])
    assert download(own.copies, module, token) == (status, b"")
    assert not asked


def test_who_may_not_read_the_content_gets_none(module: t.Any, pair: tuple[Member, Member]) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT)
    assert download(own.copies, module, "reader") == ("403 Forbidden", b"")


def test_an_image_that_no_peer_has_is_answered_by_glance(module: t.Any, pair: tuple[Member, Member]) -> None:
    assert download(pair[0].copies, module) == ("204 No Content", b"")


def test_a_peer_that_does_not_answer_costs_little(
    module: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert module._CONNECT_TIMEOUT <= 5
    monkeypatch.setattr(module, "_CONNECT_TIMEOUT", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        own = Member(module, tmp_path / "own", silent.getsockname()[1], ["127.0.0.1"])
        # further connections get no answer while this one is not accepted
        with socket.create_connection(silent.getsockname()):
            begin = time.monotonic()
            assert not own.copies.fetch(IMAGE)
            assert time.monotonic() - begin < 10
    assert "timed out" in capsys.readouterr().err


def test_a_transfer_may_pause_for_longer_than_a_connection_takes(
    module: t.Any, pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, peer = pair
    monkeypatch.setattr(module, "_CONNECT_TIMEOUT", 0.2)
    (peer.folder / IMAGE).write_bytes(CONTENT)
    has = peer.copies.has
    peer.copies.has = lambda image: time.sleep(0.5) or has(image)
    assert own.copies.fetch(IMAGE)


def test_wrong_content_is_refused(pair: tuple[Member, Member], capsys: pytest.CaptureFixture[str]) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT[:-1] + b"x")
    assert not own.copies.fetch(IMAGE)
    (peer.folder / IMAGE).write_bytes(CONTENT[:-1])
    assert not own.copies.fetch(IMAGE)
    said = capsys.readouterr().err
    assert "differs from that of the upload" in said and "bytes instead of" in said
    assert not list(own.folder.iterdir())


def test_other_keys_and_old_requests_are_refused(module: t.Any, pair: tuple[Member, Member], tmp_path: pathlib.Path) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT)
    other_member = Member(module, tmp_path / "other_member", own.copies.settings["port"], ["127.0.0.1"], key="other")
    assert not other_member.copies.fetch(IMAGE)
    path = f"/images/{IMAGE}"
    for moment, status in ((int(time.time()), 200), (int(time.time()) - 1000, 403)):
        headers = {"X-Footprint-Time": str(moment), "X-Footprint-Signature": own.copies.sign("GET", path, str(moment))}
        connection = http.client.HTTPConnection("127.0.0.1", own.copies.settings["port"], timeout=10)
        connection.request("GET", path, headers=headers)
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize("path", ["/images/../../etc/passwd", "/images/", "/", f"/images/{IMAGE}/x"])
def test_other_paths(module: t.Any, pair: tuple[Member, Member], path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", pair[0].copies.settings["port"], timeout=10)
    moment = str(int(time.time()))
    connection.request("GET", path, headers={"X-Footprint-Time": moment, "X-Footprint-Signature": pair[0].copies.sign("GET", path, moment)})
    assert connection.getresponse().status == 403
    connection.close()


def test_member_that_was_down_catches_up_and_forgets_deleted_images(pair: tuple[Member, Member]) -> None:
    own, peer = pair
    (peer.folder / IMAGE).write_bytes(CONTENT)
    (own.folder / "deleted").write_bytes(b"x")
    own.copies.update(1000)
    assert sorted(path.name for path in own.folder.iterdir()) == [IMAGE, "deleted"]
    own.copies.update(1101)
    assert [path.name for path in own.folder.iterdir()] == [IMAGE]


def test_an_image_that_a_power_loss_cut_off_is_fetched_again(module: t.Any, pair: tuple[Member, Member], capsys: pytest.CaptureFixture[str]) -> None:
    own, peer = pair
    for member in pair:
        (member.folder / IMAGE).write_bytes(CONTENT[:1000])
    own.copies.update(1000)
    # no other member has it: what is here stays
    assert (own.folder / IMAGE).read_bytes() == CONTENT[:1000]
    assert f"incomplete here: 1000 of {len(CONTENT)} bytes" in capsys.readouterr().err
    (peer.folder / IMAGE).write_bytes(CONTENT)
    assert download(own.copies, module) == ("200 OK", CONTENT)
    (own.folder / IMAGE).write_bytes(b"")
    own.copies.update(1060)
    assert (own.folder / IMAGE).read_bytes() == CONTENT


@pytest.mark.parametrize("peers", [0, 1])
def test_an_upload_is_on_the_disk_before_it_is_acknowledged(peers: int, module: t.Any, pair: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch) -> None:
    own, peer = pair
    own.copies.peers = own.copies.peers[:peers]
    synced: set[str] = set()
    fsync = os.fsync

    def noted(number: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    monkeypatch.setattr(module.os, "fsync", noted)
    assert upload(own.copies, module).startswith("204")
    assert {str(own.folder), str(own.folder / IMAGE), *([str(peer.folder)] if peers else [])} <= synced


def test_images_survive_the_restore_of_an_older_database(pair: tuple[Member, Member]) -> None:
    own, _peer = pair
    (own.folder / IMAGE).write_bytes(CONTENT)
    # it was uploaded long ago
    os.utime(own.folder / IMAGE, (1, 1))
    images, own.images = own.images, []
    for moment in (1000, 1060, 1099):
        own.copies.update(moment)
    # the right backup was restored
    own.images = images
    own.copies.update(1120)
    own.images = []
    own.copies.update(1180)
    assert [path.name for path in own.folder.iterdir()] == [IMAGE]
