# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The certificate at the edge: made once, renewed in time, checked when given. Judged by OpenSSL's own verification."""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import ssl
import threading
import time

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.run_tls_certificate import EdgeRequest, Pair, ensure
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError

NAMES = ("127.0.0.1", "cloud.example.com")
NOW = time.time()
DAY = 86400


@pytest.fixture
def request_(tmp_path: pathlib.Path) -> EdgeRequest:
    return EdgeRequest(str(tmp_path / "tls"), "lab", NAMES)


def files(request_: EdgeRequest) -> dict[str, str]:
    return {path.name: path.read_text("ascii") for path in pathlib.Path(request_.directory).iterdir()}


def handshake(folder: pathlib.Path, name: str) -> str:
    """A real client that trusts the authority alone; returns the version of TLS that was agreed on."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "certificate.txt", folder / "certificate-key.txt")
    client = ssl.create_default_context(cafile=str(folder / "ca.txt"))
    client.verify_flags |= getattr(ssl, "VERIFY_X509_STRICT", 0)
    here, there = socket.socketpair()

    def serve() -> None:
        try:
            with server.wrap_socket(there, server_side=True) as wrapped:
                wrapped.recv(1)
        except OSError:
            there.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(here, server_hostname=name) as wrapped:
            return wrapped.version() or ""
    finally:
        thread.join()


def test_it_is_made_once_and_clients_believe_it(request_: EdgeRequest) -> None:
    foreseen = ensure(request_, check_mode=True)
    assert foreseen.changed and not pathlib.Path(request_.directory).exists()
    made = ensure(request_, check_mode=False)
    assert [action.partition(":")[0] for action in made.actions] == ["create an authority", "create a certificate"] == [
        action.partition(":")[0] for action in foreseen.actions
    ]
    folder = pathlib.Path(request_.directory)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    for name in NAMES:
        assert handshake(folder, name) == "TLSv1.3"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(folder, "other.example.com")
    before = files(request_)
    assert ensure(request_, check_mode=False) == dataclasses.replace(made, changed=False, actions=())
    assert files(request_) == before


def test_it_is_renewed_and_the_authority_stays(request_: EdgeRequest) -> None:
    ensure(request_, check_mode=False, now=NOW - 338 * DAY)
    before = files(request_)
    assert not ensure(dataclasses.replace(request_, renew_days=58), check_mode=False, now=NOW).changed
    assert ensure(request_, check_mode=True, now=NOW).actions == ("create a certificate: the current one expires in 58 days",)
    assert ensure(request_, check_mode=False, now=NOW).changed
    after = files(request_)
    assert after["ca.txt"] == before["ca.txt"] and after["certificate.txt"] != before["certificate.txt"]
    assert handshake(pathlib.Path(request_.directory), "127.0.0.1")


@pytest.mark.parametrize("left, renewed", [(731, False), (729, True), (1, True), (-1, True)])
def test_the_authority_is_renewed_with_its_key_so_that_clients_have_two_years(left: int, renewed: bool, request_: EdgeRequest) -> None:
    began = NOW - (3650 - left) * DAY
    ensure(request_, check_mode=False, now=began)
    folder = pathlib.Path(request_.directory)
    old = files(request_)
    foreseen = ensure(request_, check_mode=True, now=NOW)
    assert files(request_) == old
    made = ensure(request_, check_mode=False, now=NOW)
    assert made.actions == foreseen.actions and made.actions[-1].startswith("create a certificate: ")
    assert [action.partition(":")[0] for action in made.actions[:-1]] == (["renew the authority with the same key"] if renewed else [])
    assert not ensure(request_, check_mode=False, now=NOW).changed
    new = files(request_)
    assert (new["ca.txt"] != old["ca.txt"]) is renewed and new["ca-key.txt"] == old["ca-key.txt"]
    assert handshake(folder, "127.0.0.1")
    if left > 0:
        # clients that have the old authority, and those that have the new one before the load balancer has the new certificate
        (folder / "ca.txt").write_text(old["ca.txt"], "ascii")
        assert handshake(folder, "127.0.0.1")


def test_a_certificate_does_not_outlive_its_authority(request_: EdgeRequest) -> None:
    request_ = dataclasses.replace(request_, days=3 * 3650, renew_days=10)
    ensure(request_, check_mode=False, now=NOW)
    certificate, ca = (io_certificates.expires(files(request_)[name], name) for name in ("certificate.txt", "ca.txt"))
    assert certificate <= ca
    assert not ensure(request_, check_mode=False, now=NOW).changed


def test_another_address_means_another_certificate(request_: EdgeRequest) -> None:
    ensure(request_, check_mode=False)
    other = dataclasses.replace(request_, names=("127.0.0.1", "192.0.2.7"))
    assert ensure(other, check_mode=False).actions == ("create a certificate: the current one does not name 192.0.2.7 and still names cloud.example.com",)
    assert not ensure(other, check_mode=False).changed


@pytest.mark.parametrize("lost", ["certificate.txt", "certificate-key.txt"])
def test_killed_in_between(request_: EdgeRequest, lost: str) -> None:
    ensure(request_, check_mode=False)
    (pathlib.Path(request_.directory) / lost).unlink()
    assert ensure(request_, check_mode=False).actions == ("create a certificate: none exists",)
    # a new key beside the old certificate
    stray = io_certificates.make_authority("stray", NOW, 10)
    (pathlib.Path(request_.directory) / "certificate-key.txt").write_text(stray.key, "ascii")
    assert ensure(request_, check_mode=False).actions == ("create a certificate: the key does not match the current one",)
    assert handshake(pathlib.Path(request_.directory), "127.0.0.1")


def test_an_authority_without_its_key_is_not_replaced_in_silence(request_: EdgeRequest) -> None:
    ensure(request_, check_mode=False)
    (pathlib.Path(request_.directory) / "ca-key.txt").unlink()
    with pytest.raises(RefusedError, match="ca-key.txt is missing"):
        ensure(request_, check_mode=False)
    (pathlib.Path(request_.directory) / "ca.txt").unlink()
    assert [action.partition(":")[2] for action in ensure(request_, check_mode=False).actions] == [
        " none exists", " another authority signed the current one",
    ]


def test_keys_are_closed_to_others(request_: EdgeRequest) -> None:
    ensure(request_, check_mode=False)
    key = pathlib.Path(request_.directory) / "certificate-key.txt"
    key.chmod(0o644)
    assert ensure(request_, check_mode=True).changed and key.stat().st_mode & 0o777 == 0o644
    assert ensure(request_, check_mode=False).changed and key.stat().st_mode & 0o777 == 0o600


def given(names: tuple[str, ...] = NAMES, days: int = 100, now: float = NOW) -> Pair:
    return io_certificates.make_certificate(io_certificates.make_authority("other", now, 1000), "x", names, now, days)


def test_a_given_one_is_only_looked_at(request_: EdgeRequest) -> None:
    result = ensure(dataclasses.replace(request_, given=given()), check_mode=False)
    assert not result.changed and not result.warnings and result.ca is None
    assert not pathlib.Path(request_.directory).exists()
    said = ensure(dataclasses.replace(request_, given=given(("*.example.com",), days=5)), check_mode=False).warnings
    assert len(said) == 2 and "127.0.0.1" in said[0] and "4 days" in said[1]


@pytest.mark.parametrize(
    ("pair", "path", "words"),
    [
        (Pair(given().certificate, given().key), "load_balancer_private_key", "does not match"),
        (given(now=NOW - 200 * DAY), "load_balancer_certificate", "has expired"),
        (given(now=NOW + 200 * DAY), "load_balancer_certificate", "not valid yet"),
        (Pair("rubbish", given().key), "load_balancer_certificate", "not a valid certificate"),
        (Pair(given().certificate, "rubbish"), "load_balancer_private_key", "not a valid private key"),
    ],
)
def test_a_given_one_that_is_bad(request_: EdgeRequest, pair: Pair, path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        ensure(dataclasses.replace(request_, given=pair), check_mode=False)
    assert caught.value.path == path and "BEGIN" not in str(caught.value)


def test_names_are_required(request_: EdgeRequest) -> None:
    with pytest.raises(InputError, match="names: is empty"):
        ensure(dataclasses.replace(request_, names=()), check_mode=False)
