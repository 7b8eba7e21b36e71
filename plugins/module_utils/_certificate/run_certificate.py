# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create a certificate and its authority once, in files that the operator owns, and renew the certificate."""

from __future__ import annotations

import ipaddress
import pathlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_secret_file
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import secret_name
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import kept

# Ansible ignores files with this suffix in a directory that is used as inventory.
_SUFFIX = ".pem.txt"
_VAULT = "$ANSIBLE_VAULT;"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
#: A certificate is renewed this many days before it expires.
RENEW_DAYS = 30


def certificate(
    name: t.Any,
    authority: t.Any,
    directory: pathlib.Path,
    addresses: t.Sequence[str],
    *,
    check_mode: bool,
    decrypt: t.Callable[[str], str],
    names: t.Sequence[str] = (),
) -> dict[str, str]:
    """Return ``key``, ``certificate`` and ``ca`` (certificate of the authority) of a name; creates them if they do not exist.

    A certificate that lacks an address or a name, or expires soon, is renewed, unless its file is encrypted.

    :arg authority: name of the signing authority, whose key is in the same directory.
    :arg check_mode: write nothing; missing values are empty.
    :raises InputError: an invalid name or address, or an invalid file.
    """
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise InputError(f"{address!r} is not a valid address.", path="addresses", hint="Use an IP address, e.g. 192.0.2.7.") from error
    for one in names:
        if not _NAME.fullmatch(str(one)):
            raise InputError(f"{one!r} is not a valid host name.", path="names", hint="Use letters, digits, '.', '_' and '-'.")

    def text_of(name: t.Any, make: t.Callable[[], str]) -> str:
        return kept(directory / f"{secret_name(name)}{_SUFFIX}", make, check_mode=check_mode, decrypt=decrypt)

    title = str(name).rpartition("/")[2]
    signer = text_of(authority, lambda: io_certificates.make_authority(str(authority)))
    own = text_of(name, lambda: io_certificates.make_certificate(signer, title, addresses, names)) if signer else ""
    if not own:
        return {"key": "", "certificate": "", "ca": ""}
    path = directory / f"{secret_name(name)}{_SUFFIX}"
    try:
        key = io_certificates.key_of(own)
        encrypted = (io_secret_file.read(path) or "").startswith(_VAULT)
        if not check_mode and not encrypted and io_certificates.lacking(own, addresses, names, RENEW_DAYS):
            own = io_certificates.make_certificate(signer, title, addresses, names)
            key = io_certificates.key_of(own)
            io_secret_file.replace(path, own)
        return {"key": key, "certificate": io_certificates.certificate_of(own), "ca": io_certificates.certificate_of(signer)}
    except BackendError as error:
        raise InputError(error.message, str(path), error.hint) from error
