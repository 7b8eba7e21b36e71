# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create the administrator and the endpoints of the identity service."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_keystone import Keystone, NotAnswering
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_keystone import Identity, why_bootstrap

_PAUSE = 1.0


def wanted(raw: t.Mapping[str, t.Any]) -> Identity:
    """Build the request from module parameters; the internal URL defaults to the public one, the admin URL to the internal one."""
    public = raw["public_url"]
    urls = {"public": public, "internal": raw.get("internal_url") or public, "admin": raw.get("admin_url") or raw.get("internal_url") or public}
    return Identity(raw["username"], raw["project"], raw["role"], raw["region"], urls)


def local_keystone(url: str) -> Keystone:
    """Return the keystone service of this host."""
    return Keystone(url)


def ensure(
    identity: Identity,
    password: str,
    keystone: Keystone,
    *,
    check_mode: bool,
    wait_timeout: float = 60,
    sleep: t.Callable[[float], None] = time.sleep,
) -> Changes:
    """Query the service for what is missing, and bootstrap it if needed.

    :arg wait_timeout: seconds to wait for a service that is starting.
    :raises BackendError: the service does not answer, or still differs after a bootstrap.
    """
    try:
        missing = _missing(identity, password, keystone, 0 if check_mode else wait_timeout, sleep)
    except NotAnswering:
        if not check_mode:
            raise
        # before the first run the service does not exist: everything would be created
        missing = why_bootstrap(identity, None)
    if not missing or check_mode:
        return Changes(missing)
    keystone.bootstrap(
        password,
        {
            "username": identity.username,
            "project-name": identity.project,
            "role-name": identity.role,
            "region-id": identity.region,
            **{f"{interface}-url": url for interface, url in identity.urls.items()},
        },
    )
    still = _missing(identity, password, keystone, wait_timeout, sleep)
    if still:
        raise BackendError(f"still required after keystone-manage bootstrap: {'; '.join(still)}.", hint="Check `journalctl -u keystone` on the host.")
    return Changes(missing)


def _missing(identity: Identity, password: str, keystone: Keystone, wait_timeout: float, sleep: t.Callable[[float], None]) -> tuple[str, ...]:
    waited = 0.0
    while True:
        try:
            return why_bootstrap(identity, keystone.token(identity.username, password, identity.project))
        except NotAnswering:
            if waited >= wait_timeout:
                raise
        sleep(_PAUSE)
        waited += _PAUSE
