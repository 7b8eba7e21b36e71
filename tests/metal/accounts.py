# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of the role redfish_emulator behind accounts, for gunicorn: what reaches it is what the role's proxy lets through."""

from __future__ import annotations

import base64
import binascii
import json
import os
import typing as t

import footprint_redfish

#: Password and VMs of each account.
ACCOUNTS: t.Mapping[str, tuple[str, str]] = json.loads(os.environ["ACCOUNTS"])
# of proxy.cfg.j2
PUBLIC = ("/redfish", "/redfish/", "/redfish/v1", "/redfish/v1/")
HEADER = "HTTP_" + footprint_redfish.HEADER.upper().replace("-", "_")


def _vms(authorization: str) -> str | None:
    kind, _space, text = authorization.partition(" ")
    try:
        user, _colon, password = base64.b64decode(text).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    known = ACCOUNTS.get(user)
    return known[1] if kind == "Basic" and known and known[0] == password else None


def app(environ: dict[str, t.Any], start_response: t.Callable[..., t.Any]) -> t.Iterable[bytes]:
    """Answer a request, if its account is known."""
    vms = _vms(environ.pop("HTTP_AUTHORIZATION", ""))
    environ.pop(HEADER, None)
    if vms is not None:
        environ[HEADER] = vms
    elif environ["PATH_INFO"] not in PUBLIC:
        start_response("401 Unauthorized", [("WWW-Authenticate", 'Basic realm="Redfish"'), ("Content-Length", "0")])
        return []
    return t.cast(t.Iterable[bytes], footprint_redfish.app(environ, start_response))
