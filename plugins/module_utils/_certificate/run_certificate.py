# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create a certificate and its authority once, in files that the operator owns, and renew the certificate."""

from __future__ import annotations

import ipaddress
import pathlib
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.plan_certificate import DAY, Found, why_new
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_secret_file
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import secret_name
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import Permit, kept

# Ansible ignores files with this suffix in a directory that is used as inventory.
_SUFFIX = ".pem.txt"
_VAULT = "$ANSIBLE_VAULT;"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
#: Validity of authorities and certificates; certificates are renewed ``RENEW_DAYS`` before they expire.
DAYS, RENEW_DAYS = 3650, 30


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
    unless its file is encrypted. More names are kept: another caller may need them.

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
    signer = kept(authority_path, lambda: _text(io_certificates.make_authority(str(authority), now, DAYS)), **given)
    own = kept(path, make, **given) if signer else ""
    if not own:
        return {"key": "", "certificate": "", "ca": ""}
    pair, ca = io_certificates.pair_of(own, str(path)), io_certificates.certificate_of(signer, str(authority_path))
    if not (io_secret_file.read(path) or "").startswith(_VAULT):
        seen = io_certificates.read(pair, str(path), str(path))
        signed = io_certificates.signed_by(pair.certificate, ca, str(authority_path))
        if why_new(Found(seen.fits, signed, seen.not_after, seen.names & wanted), wanted, now, RENEW_DAYS * DAY):
            if permit:
                permit.check(path, check_mode=check_mode, decrypt=decrypt)
            # who asks for fewer names, such as for the authority alone, takes none away
            own = make(seen.names if seen.names >= wanted else frozenset(wanted))
            if not check_mode:
                io_secret_file.replace(path, own)
            pair = io_certificates.pair_of(own, str(path))
    return {"key": pair.key, "certificate": pair.certificate, "ca": ca}


def _text(pair: io_certificates.Pair) -> str:
    """One text for the file, which is written at once."""
    return pair.key + pair.certificate
