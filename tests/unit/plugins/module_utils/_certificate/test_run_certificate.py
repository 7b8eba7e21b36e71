# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Certificates are made once, signed by an authority that is made once, and believed by a real TLS handshake."""

from __future__ import annotations

import concurrent.futures
import ssl
import subprocess
import time
import types

import pytest
from cryptography import x509
from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates, run_certificate
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.run_certificate import certificate
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError

NOW, DAY = time.time(), 86400


def ask(directory, name="galera/metal1", authority="galera/ca", addresses=("192.0.2.7",), check_mode=False, decrypt=None, names=()):
    return certificate(name, authority, directory, addresses, check_mode=check_mode, decrypt=decrypt or (lambda path: "?"), names=names)


def context(directory, made, server):
    for part, text in made.items():
        (directory / part).write_text(text, encoding="ascii")
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    found.load_cert_chain(directory / "certificate", directory / "key")
    found.load_verify_locations(directory / "ca")
    found.verify_mode = ssl.CERT_REQUIRED
    return found


def shake_hands(tmp_path, server, client, name):
    """A handshake in memory in which both sides verify each other."""
    one, two = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        context(tmp_path, server, True).wrap_bio(one, two, server_side=True),
        context(tmp_path, client, False).wrap_bio(two, one, server_hostname=name),
    ]
    for unused in range(6):
        for side in reversed(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return [side.getpeercert() for side in sides]


@pytest.mark.parametrize("name", ["metal1", "192.0.2.7"])
def test_members_believe_each_other(tmp_path, name):
    one, two = ask(tmp_path / "s"), ask(tmp_path / "s", "galera/metal2", addresses=["192.0.2.8"])
    assert one["ca"] == two["ca"] and one["key"] != two["key"]
    peers = shake_hands(tmp_path, one, two, name)
    assert [dict(entry[0] for entry in peer["subject"])["commonName"] for peer in peers] == ["metal2", "metal1"]


def test_certificate_of_another_authority_is_rejected(tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path, ask(tmp_path / "a"), ask(tmp_path / "b", "galera/metal2"), "metal1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tmp_path, ask(tmp_path / "a"), ask(tmp_path / "a", "galera/metal2"), "metal3")


def test_file_is_created_once_and_private(tmp_path):
    first = ask(tmp_path)
    assert ask(tmp_path) == first
    files = sorted((tmp_path / "galera").iterdir())
    assert [path.name for path in files] == ["ca.pem.txt", "metal1.pem.txt"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    files[1].chmod(0o644)
    assert ask(tmp_path) == first
    assert files[1].stat().st_mode & 0o777 == 0o600
    files[1].unlink()
    renewed = ask(tmp_path)
    assert renewed["ca"] == first["ca"] and renewed["certificate"] != first["certificate"]


def test_all_who_ask_at_once_get_the_same(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda unused: ask(tmp_path)["certificate"] + ask(tmp_path)["ca"], range(16)))
    assert len(set(answers)) == 1


def test_certificate_without_an_address_or_name_is_created_again(tmp_path):
    first = ask(tmp_path)
    # check mode reports the change, and keeps the file
    tried = ask(tmp_path, addresses=["192.0.2.7", "192.0.2.20"], check_mode=True)
    assert tried["certificate"] != first["certificate"] and tried["key"] != first["key"] and tried["ca"] == first["ca"]
    assert ask(tmp_path) == first
    second = ask(tmp_path, addresses=["192.0.2.7", "192.0.2.20"], names=["cloud.example.net"])
    assert second["certificate"] != first["certificate"] and second["ca"] == first["ca"]
    for name in ("192.0.2.20", "cloud.example.net", "metal1"):
        assert shake_hands(tmp_path, second, ask(tmp_path, "galera/metal2"), name)
    # who asks for less, such as for the authority alone, changes nothing
    assert ask(tmp_path) == second == ask(tmp_path, addresses=[])
    path = tmp_path / "galera" / "metal1.pem.txt"
    assert path.stat().st_mode & 0o777 == 0o600
    plain = path.read_text(encoding="ascii")
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n", encoding="ascii")
    assert ask(tmp_path, addresses=["192.0.2.99"], decrypt=lambda unused: plain) == second
    path.write_text(plain, encoding="ascii")


def ask_days_ago(days, directory, monkeypatch, name="galera/metal1", **given):
    with monkeypatch.context() as patch:
        patch.setattr(run_certificate, "time", types.SimpleNamespace(time=lambda: NOW - days * DAY))
        return ask(directory, name, **given)


def test_certificate_that_expires_is_renewed_with_the_names_of_all_who_ask(tmp_path, monkeypatch):
    names = {"addresses": ["192.0.2.20"], "names": ["cloud.example.net"]}
    first = ask_days_ago(3630, tmp_path, monkeypatch, **names)
    assert ask_days_ago(31, tmp_path, monkeypatch, addresses=[]) != first, "the authority is renewed earlier"
    assert ask_days_ago(31, tmp_path, monkeypatch, addresses=[])["certificate"] == first["certificate"]
    second = ask(tmp_path, addresses=[])
    assert second["certificate"] != first["certificate"] and ask(tmp_path, **names) == second
    assert shake_hands(tmp_path, second, ask(tmp_path, "galera/metal2"), "cloud.example.net")


def verify(folder, ca, leaf):
    """OpenSSL's own verification, as a server does it; raises if the certificate is not accepted."""
    for part, text in (("ca", ca), ("leaf", leaf)):
        (folder / part).write_text(text, "ascii")
    subprocess.run(["openssl", "verify", "-x509_strict", "-CAfile", folder / "ca", folder / "leaf"], check=True, capture_output=True)


def identifiers(text):
    """Identifiers of the authority's key: in the authority, or in what it signed."""
    found = x509.load_pem_x509_certificate(text.encode("ascii"))
    try:
        return found.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    except x509.ExtensionNotFound:
        return found.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


@pytest.mark.parametrize("days, renewed", [(3650 - 731, False), (3650 - 729, True), (3650 - 1, True), (3650 + 100, True)])
def test_authority_is_renewed_two_years_before_its_end_and_the_members_accept_each_other(days, renewed, tmp_path, monkeypatch):
    store, work = tmp_path / "s", tmp_path / "w"
    work.mkdir()
    old = ask_days_ago(days, store, monkeypatch)
    tried = ask(store, "galera/metal2", check_mode=True)
    assert tried["certificate"] == "" and ask_days_ago(days, store, monkeypatch) == old
    assert (ask(store, check_mode=True)["ca"] != old["ca"]) is renewed and ask_days_ago(days, store, monkeypatch) == old
    new = ask(store, "galera/metal2", addresses=["192.0.2.8"])
    assert (new["ca"] != old["ca"]) is renewed and ask(store, "galera/metal2", addresses=["192.0.2.8"]) == new
    assert len({identifiers(text) for text in (old["ca"], old["certificate"], new["ca"], new["certificate"])}) == 1
    assert (store / "galera/ca.pem.txt").stat().st_mode & 0o777 == 0o600
    assert io_certificates.authorities(old["ca"], "old") == io_certificates.authorities(new["ca"], "new")
    if days < 3650:
        # a member that was not restarted yet has the old authority
        verify(work, new["ca"], old["certificate"])
        verify(work, old["ca"], new["certificate"])
        assert shake_hands(work, {**old, "ca": new["ca"]}, {**new, "ca": old["ca"]}, "metal1")
    verify(work, new["ca"], new["certificate"])
    ends = [io_certificates.expires(new[part], part) for part in ("certificate", "ca")]
    assert ends[0] <= ends[1] and (ends[1] > NOW + 3649 * DAY) is renewed


def test_all_who_ask_at_once_get_the_same_renewed_authority(tmp_path, monkeypatch):
    old = ask_days_ago(3000, tmp_path, monkeypatch)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda unused: ask(tmp_path)["ca"], range(16)))
    assert len(found) == 1 and found != {old["ca"]}


def test_authority_that_cannot_be_renewed(tmp_path, monkeypatch):
    made = ask_days_ago(3640, tmp_path, monkeypatch)
    path = tmp_path / "galera" / "ca.pem.txt"
    plain = path.read_text("ascii")
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n", "ascii")
    # a new certificate would not be valid for longer, so it is not made again in each run
    assert ask(tmp_path, decrypt=lambda unused: plain) == made
    other = ask(tmp_path, "galera/metal2", decrypt=lambda unused: plain)
    assert other["ca"] == made["ca"] and io_certificates.expires(other["certificate"], "") == io_certificates.expires(made["ca"], "")
    path.write_text(made["ca"], "ascii")
    assert ask(tmp_path) == made
    with monkeypatch.context() as patch, pytest.raises(InputError, match=r"ca\.pem\.txt: has expired\. Decrypt the file"):
        patch.setattr(run_certificate, "time", types.SimpleNamespace(time=lambda: NOW + 11 * DAY))
        ask(tmp_path)


def make_with_openssl(folder, *more):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/O=Shop/CN=ca", "-days", "9", *more]
    subprocess.run([*command, "-keyout", folder / "key", "-out", folder / "crt"], check=True, capture_output=True)
    return io_certificates.Pair((folder / "crt").read_text("ascii"), (folder / "key").read_text("ascii"))


def test_authority_that_another_one_has_signed_is_not_renewed(tmp_path):
    # without the other one, its successor would not be trusted
    root = io_certificates.make_authority("root", NOW, 10)
    (tmp_path / "root").write_text(root.key + root.certificate, "ascii")
    path = tmp_path / "galera" / "ca.pem.txt"
    path.parent.mkdir()
    for more, renewed in ((["-CA", tmp_path / "root", "-CAkey", tmp_path / "root"], False), ([], True)):
        pair = make_with_openssl(tmp_path, *more)
        path.write_text(pair.key + pair.certificate, "ascii")
        assert (ask(tmp_path)["ca"] != pair.certificate) is renewed


def test_renewed_authority_keeps_the_extensions_of_another_tool(tmp_path):
    more = ["-addext", "authorityKeyIdentifier=keyid:always,issuer:always", "-addext", "nameConstraints=permitted;DNS:metal1"]
    old = make_with_openssl(tmp_path, *more, "-addext", "keyUsage=critical,keyCertSign")
    new = io_certificates.renew_authority(old, NOW, 100)
    before, after = (x509.load_pem_x509_certificate(pair.certificate.encode("ascii")) for pair in (old, new))
    assert before.subject == after.subject == after.issuer and before.serial_number != after.serial_number
    kept = [extension for extension in before.extensions if not isinstance(extension.value, x509.AuthorityKeyIdentifier)]
    assert list(after.extensions) == kept and len(kept) >= 3
    verify(tmp_path, new.certificate, io_certificates.make_certificate(old, "metal1", ["metal1"], NOW, 5).certificate)


def test_check_mode_writes_nothing(tmp_path):
    assert ask(tmp_path / "s", check_mode=True) == {"key": "", "certificate": "", "ca": ""}
    assert not (tmp_path / "s").exists()
    made = ask(tmp_path / "s")
    assert ask(tmp_path / "s", check_mode=True) == made


def test_vault(tmp_path):
    made = ask(tmp_path)
    path = tmp_path / "galera" / "metal1.pem.txt"
    plain = path.read_text(encoding="ascii")
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n", encoding="ascii")
    asked = []
    assert ask(tmp_path, decrypt=lambda name: asked.append(name) or plain) == made
    assert asked == [str(path)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"names": ["two words"]}, "names: 'two words' is not a valid host name"),
        ({"addresses": ["host"]}, "addresses: 'host' is not a valid address"),
        ({"name": "../x"}, r"\.\./x"),
        ({"authority": ""}, "''"),
    ],
)
def test_bad_input(tmp_path, more, words):
    with pytest.raises(InputError, match=words):
        ask(tmp_path, **more)


def test_files_that_hold_something_else(tmp_path):
    first = ask(tmp_path)
    (tmp_path / "galera" / "metal1.pem.txt").write_text("nothing\n", encoding="ascii")
    with pytest.raises(InputError, match=r"metal1\.pem\.txt: contains no certificate in PEM format"):
        ask(tmp_path)
    (tmp_path / "galera" / "ca.pem.txt").write_text(first["ca"], encoding="ascii")
    with pytest.raises(InputError, match=r"ca\.pem\.txt: contains no private key in PEM format"):
        ask(tmp_path, "galera/new")
    made = ask(tmp_path / "s")
    (tmp_path / "s" / "galera" / "ca.pem.txt").write_text(made["key"] + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", encoding="ascii")
    for name in ("galera/metal1", "galera/new"):
        with pytest.raises(InputError, match=r"ca\.pem\.txt: is not a valid certificate in PEM format"):
            ask(tmp_path / "s", name)


def test_certificate_of_another_key_or_authority_is_created_again(tmp_path):
    first, other = ask(tmp_path), ask(tmp_path, "galera/metal2")
    path = tmp_path / "galera" / "metal1.pem.txt"
    path.write_text(other["key"] + first["certificate"], encoding="ascii")
    second = ask(tmp_path)
    assert second["key"] not in (first["key"], other["key"]) and shake_hands(tmp_path, second, other, "metal1")
    (tmp_path / "galera" / "ca.pem.txt").unlink()
    third = ask(tmp_path)
    assert third["ca"] != first["ca"]
    # with a new authority, each member gets a certificate that the others accept
    assert shake_hands(tmp_path, third, ask(tmp_path, "galera/metal2"), "metal1")
    # without its key the authority still verifies
    ca = tmp_path / "galera" / "ca.pem.txt"
    ca.write_text(third["ca"], encoding="ascii")
    assert ask(tmp_path) == third


def test_without_the_library(monkeypatch):
    monkeypatch.setattr(io_certificates, "x509", None)
    with pytest.raises(BackendError, match="cannot import cryptography"):
        io_certificates.make_authority("ca", 0, 1)
