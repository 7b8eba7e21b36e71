# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create, renew or check the TLS certificate of the load balancer."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.io_certificates import Pair
from ansible_collections.reduced.footprint.plugins.module_utils._certificate.plan_certificate import (
    AUTHORITY_DAYS,
    AUTHORITY_RENEW_DAYS,
    DAY,
    Found,
    complaints,
    why_new,
    why_new_authority,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc

# Ansible ignores .txt files in a directory that is used as inventory.
CA, CA_KEY, CERTIFICATE, KEY = "ca.txt", "ca-key.txt", "certificate.txt", "certificate-key.txt"


@dataclasses.dataclass(frozen=True)
class EdgeRequest:
    """The wanted certificate.

    :arg directory: directory of a created certificate.
    :arg common: its common name.
    :arg names: its subject alternative names, DNS names and addresses.
    :arg given: a certificate given by the operator, which is only checked.
    """

    directory: str
    common: str
    names: tuple[str, ...]
    given: Pair | None = None
    days: int = 397
    renew_days: int = 60


@dataclasses.dataclass(frozen=True)
class EdgeResult:
    """What was done, or would be done in check mode."""

    changed: bool
    actions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    certificate: str | None = None
    private_key: str | None = None
    ca: str | None = None
    not_after: str | None = None
    fingerprint: str | None = None

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the module."""
        diff = {"before": "", "after": "".join(f"{action}\n" for action in self.actions)}
        return {**dataclasses.asdict(self), "actions": list(self.actions), "diff": diff}


def ensure(request: EdgeRequest, *, check_mode: bool, now: float | None = None) -> EdgeResult:
    """Check the given certificate, or create or renew one.

    :raises InputError: the given certificate or key is invalid or expired, or they do not match.
    :raises RefusedError: the key of the existing authority is missing.
    """
    io_certificates.need_cryptography()
    if not request.names:
        raise InputError("is empty.", path="names", hint="Add at least one name or address.")
    now = time.time() if now is None else now
    return _check(request, request.given, now) if request.given else _make(request, check_mode, now)


def _check(request: EdgeRequest, given: Pair, now: float) -> EdgeResult:
    hint = "Put the server certificate first, followed by the intermediate certificates."
    seen = io_certificates.read(given, "load_balancer_certificate", "load_balancer_private_key", hint)
    if not seen.fits:
        raise InputError("does not match the certificate.", path="load_balancer_private_key", hint="Use the key of load_balancer_certificate.")
    if seen.not_after <= now:
        raise InputError("has expired.", path="load_balancer_certificate", hint="Use a valid certificate, or none to create one.")
    if seen.not_before > now:
        raise InputError("is not valid yet.", path="load_balancer_certificate", hint="Use a valid certificate, or correct the clock of this host.")
    found = Found(True, True, seen.not_after, seen.names)
    # the operator renews this certificate: warn one week before it expires
    warnings = complaints(found, request.names, now, 7 * DAY)
    return EdgeResult(False, warnings=warnings, not_after=utc(seen.not_after), fingerprint=seen.fingerprint)


def _make(request: EdgeRequest, check_mode: bool, now: float) -> EdgeResult:
    folder = pathlib.Path(request.directory)
    actions: list[str] = []
    authority = _pair(folder, CA, CA_KEY)
    found = _found(authority, folder, CA, CA_KEY)
    certificate = _pair(folder, CERTIFICATE, KEY)
    if authority is None and (folder / CA).exists() and not (folder / CA_KEY).exists():
        raise RefusedError(
            f"{folder / CA_KEY} is missing: no certificate can be signed, and clients would not trust a new authority.",
            hint=f"Restore it, or remove {folder / CA} to create a new authority.",
        )
    own = authority and io_certificates.signed_by(authority.certificate, authority.certificate, str(folder / CA))
    renewable = bool(own and found and found.fits and found.signed)
    # one that another authority has signed is replaced when a certificate would outlive it
    reason = why_new_authority(found, now, (AUTHORITY_RENEW_DAYS if renewable else request.days + request.renew_days) * DAY)
    if reason and renewable and authority:
        actions.append(f"renew the authority with the same key: {reason}")
        # the current certificate and the new ones are valid with both
        if not check_mode:
            authority = io_certificates.renew_authority(authority, now, AUTHORITY_DAYS)
            _keep(folder, CA, CA_KEY, authority)
    elif reason:
        actions.append(f"create an authority: {reason}")
        authority = None if check_mode else io_certificates.make_authority(f"{request.common} authority", now, AUTHORITY_DAYS)
        _keep(folder, CA, CA_KEY, authority)
    seen = _found(certificate, folder, CERTIFICATE, KEY, authority)
    latest = io_certificates.expires(authority.certificate, str(folder / CA)) if authority and not reason else math.inf
    reason = why_new(seen, request.names, now, request.renew_days * DAY, latest)
    if reason:
        actions.append(f"create a certificate: {reason}")
        certificate = (
            io_certificates.make_certificate(authority, request.common, request.names, now, request.days) if authority and not check_mode else None
        )
        _keep(folder, CERTIFICATE, KEY, certificate)
        seen = None
    actions += _tidy(folder, check_mode)
    current = io_certificates.read(certificate, str(folder / CERTIFICATE), str(folder / KEY)) if certificate else None
    return EdgeResult(
        bool(actions),
        tuple(actions),
        certificate=str(folder / CERTIFICATE),
        private_key=str(folder / KEY),
        ca=str(folder / CA),
        not_after=utc(current.not_after) if current else None,
        fingerprint=current.fingerprint if current else None,
    )


def _pair(folder: pathlib.Path, certificate: str, key: str) -> Pair | None:
    texts = read_text(folder / certificate), read_text(folder / key)
    return Pair(*texts) if texts[0] and texts[1] else None


def _found(pair: Pair | None, folder: pathlib.Path, name: str, key: str, authority: Pair | None = None) -> Found | None:
    if pair is None:
        return None
    seen = io_certificates.read(pair, str(folder / name), str(folder / key))
    signed = io_certificates.signed_by(pair.certificate, authority.certificate, str(folder / CA)) if authority else name == CA and seen.authority
    return Found(seen.fits, signed, seen.not_after, seen.names)


def _keep(folder: pathlib.Path, certificate: str, key: str, pair: Pair | None) -> None:
    """Write the key first: a key that does not match is replaced by the next run, a certificate without its key is an error."""
    if pair:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(folder / key, pair.key, 0o600)
        write_atomic(folder / certificate, pair.certificate, 0o600)


def _tidy(folder: pathlib.Path, check_mode: bool) -> list[str]:
    """Set the mode of keys that are readable by others; returns the actions."""
    done = []
    for name in (CA_KEY, KEY):
        path = folder / name
        if path.exists() and path.stat().st_mode & 0o077:
            done.append(f"set the mode of {path} to 0600")
            if not check_mode:
                os.chmod(path, 0o600)
    return done
