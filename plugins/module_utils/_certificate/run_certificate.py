# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create a certificate and its authority once, in files that the operator owns, and renew both."""

from __future__ import annotations

import ipaddress
import math
import pathlib
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.plan_certificate import (
    AUTHORITY_DAYS,
    AUTHORITY_RENEW_DAYS,
    DAY,
    Found,
    why_new,
    why_new_authority,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock, io_secret_file
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import secret_name
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import Permit, kept

# Ansible ignores files with this suffix in a directory that is used as inventory.
_SUFFIX = ".pem.txt"
_VAULT = "$ANSIBLE_VAULT;"
# corosync-qnetd requires a name with a space
_NAME = re.compile(r"Qnetd Server|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
#: Validity of certificates; they are renewed ``RENEW_DAYS`` before they expire.
DAYS, RENEW_DAYS = 3650, 30
_TIMEOUT = 60


def certificate(
    name: t.Any,
    authority: t.Any,
    directory: pathlib.Path,
    addresses: t.Sequence[str],
    *,
    check_mode: bool,
    decrypt: t.Callable[[str], str],
    names: t.Sequence[str] = (),
    permit: Permit | None = None,
) -> dict[str, str]:
    """Return ``key``, ``certificate`` and ``ca`` (certificate of the authority) of a name; creates them if they do not exist.

    A certificate that lacks an address or a name, expires soon, or does not match its key or the authority is renewed,
    unless its file is encrypted. More names are kept: another caller may need them. The authority is renewed earlier, with the same key.

    :arg authority: name of the signing authority, whose key is in the same directory.
    :arg check_mode: write nothing; missing values are empty, and one that would be renewed differs from the existing one.
    :arg permit: whether a certificate may be created or renewed; ``None`` for always.
    :raises InputError: an invalid name or address, or an invalid file.
    """
    title = str(name).rpartition("/")[2]
    wanted = {title}
    for address in addresses:
        try:
            wanted.add(str(ipaddress.ip_address(address)))
        except ValueError as error:
            raise InputError(f"{address!r} is not a valid address.", path="addresses", hint="Use an IP address, e.g. 192.0.2.7.") from error
    for one in names:
        if not _NAME.fullmatch(str(one)):
            raise InputError(f"{one!r} is not a valid host name.", path="names", hint="Use letters, digits, '.', '_' and '-'.")
        wanted.add(str(one))
    path, authority_path = (directory / f"{secret_name(each)}{_SUFFIX}" for each in (name, authority))
    now = time.time()

    def make(listed: t.AbstractSet[str] = frozenset(wanted)) -> str:
        pair = io_certificates.pair_of(signer, str(authority_path))
        io_certificates.read(pair, str(authority_path), str(authority_path))
        return _text(io_certificates.make_certificate(pair, title, listed, now, DAYS, client=True))

    given: dict[str, t.Any] = {"check_mode": check_mode, "decrypt": decrypt, "permit": permit}
    signer = kept(authority_path, lambda: _text(io_certificates.make_authority(str(authority), now, AUTHORITY_DAYS)), **given)
    signer = _renewed(authority_path, signer, now, **given)
    latest = io_certificates.expires(io_certificates.certificate_of(signer, str(authority_path)), str(authority_path)) if signer else math.inf
    if latest <= now:
        raise InputError("has expired.", str(authority_path), "Decrypt the file, or add the private key to it, so that this run renews it.")
    own = kept(path, make, **given) if signer else ""
    if not own:
        return {"key": "", "certificate": "", "ca": ""}
    pair, ca = io_certificates.pair_of(own, str(path)), io_certificates.certificate_of(signer, str(authority_path))
    if not (io_secret_file.read(path) or "").startswith(_VAULT):
        seen = io_certificates.read(pair, str(path), str(path))
        signed = io_certificates.signed_by(pair.certificate, ca, str(authority_path))
        if why_new(Found(seen.fits, signed, seen.not_after, seen.names & wanted), wanted, now, RENEW_DAYS * DAY, latest):
            if permit:
                permit.check(path, check_mode=check_mode, decrypt=decrypt)
            # who asks for fewer names, such as for the authority alone, takes none away
            own = make(seen.names if seen.names >= wanted else frozenset(wanted))
            if not check_mode:
                io_secret_file.replace(path, own)
            pair = io_certificates.pair_of(own, str(path))
    return {"key": pair.key, "certificate": pair.certificate, "ca": ca}


def same_authority(present: str, wanted: str) -> bool:
    """Whether members with either authority accept each other: one of the texts has the names and keys of all authorities of the other.

    :arg present, wanted: certificates in PEM format; an empty text is not known yet, and no reason against it.
    :raises InputError: one of them is invalid.
    """
    old, new = (io_certificates.authorities(text, what) for text, what in ((present, "the present authority"), (wanted, "the wanted authority")))
    return old <= new or new <= old


def _renewed(path: pathlib.Path, text: str, now: float, *, check_mode: bool, decrypt: t.Callable[[str], str], permit: Permit | None) -> str:
    """Return the text of an authority, renewed if it ends soon; one that is encrypted, or kept without its key, is not changed."""
    if not _due(path, text, now):
        return text
    try:
        if permit:
            permit.check(path, check_mode=check_mode, decrypt=decrypt)
    except RefusedError:
        if _due(path, text, now, RENEW_DAYS):
            raise
        return text  # e.g. in a job of AWX; there is still time for a run that may
    # all hosts ask at once, and must get the same one
    with io_lock.host_lock("authorities", _TIMEOUT):
        text = io_secret_file.read(path) or text
        if _due(path, text, now):
            text = _text(io_certificates.renew_authority(io_certificates.pair_of(text, str(path)), now, AUTHORITY_DAYS))
            if not check_mode:
                io_secret_file.replace(path, text)
    return text


def _due(path: pathlib.Path, text: str, now: float, days: int = AUTHORITY_RENEW_DAYS) -> bool:
    if "PRIVATE KEY" not in text or (io_secret_file.read(path) or "").startswith(_VAULT):
        return False
    pair = io_certificates.pair_of(text, str(path))
    seen = io_certificates.read(pair, str(path), str(path))
    own = seen.fits and seen.authority and io_certificates.signed_by(pair.certificate, pair.certificate, str(path))
    return own and why_new_authority(Found(True, True, seen.not_after), now, days * DAY) is not None


def _text(pair: io_certificates.Pair) -> str:
    """One text for the file, which is written at once."""
    return pair.key + pair.certificate
