# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the account of a service and its entries in the catalog, over keystone's API."""

from __future__ import annotations

import time
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_keystone import Keystone, NotAnswering
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_catalog import CatalogSeen, ServiceAccount, Step, steps

_DOMAIN = "default"
_PAUSE = 1.0


def wanted(raw: t.Mapping[str, t.Any]) -> ServiceAccount:
    """Build the request from module parameters; the internal URL defaults to the public one, the admin URL to the internal one."""
    public = raw.get("public_url") or ""
    internal = raw.get("internal_url") or public
    urls = {"public": public, "internal": internal, "admin": internal} if raw.get("type") else {}
    return ServiceAccount(
        raw["name"], raw.get("type") or "", raw.get("description") or "", raw["region"], urls, raw["project"], tuple(dict.fromkeys(raw["roles"]))
    )


class Catalog:
    """Reads and changes accounts and the catalog as the administrator.

    :arg login: user name, password and project of the administrator.
    """

    def __init__(self, keystone: Keystone, login: tuple[str, str, str]) -> None:
        self.keystone = keystone
        self.token = keystone.token_id(*login)
        if self.token is None:
            raise BackendError(f"the password of {login[0]} is not valid.", "admin_password", "Run the role keystone first, which sets it.")

    def _call(self, method: str, path: str, body: t.Any = None) -> t.Any:
        return self.keystone.call(method, path, self.token or "", body)

    def _first(self, kind: str, **query: str) -> dict[str, t.Any] | None:
        return next(iter(self._call("GET", f"/{kind}?{urllib.parse.urlencode(query)}")[kind]), None)

    def look(self, account: ServiceAccount, password: str) -> CatalogSeen:
        """Return what exists of an account."""
        project = self._first("projects", name=account.project, domain_id=_DOMAIN)
        user = self._first("users", name=account.name, domain_id=_DOMAIN)
        roles = {role["name"]: role["id"] for role in self._call("GET", "/roles")["roles"]}
        assigned: frozenset[str] = frozenset()
        if project and user:
            assigned = frozenset(role["id"] for role in self._call("GET", f"/projects/{project['id']}/users/{user['id']}/roles")["roles"])
        login = bool(assigned) and self.keystone.token(account.name, password, account.project) is not None
        service = self._first("services", type=account.type) if account.type else None
        endpoints = self._call("GET", f"/endpoints?service_id={service['id']}")["endpoints"] if service else []
        return CatalogSeen(project and project["id"], user and user["id"], login, roles, assigned, service, endpoints)

    def apply(self, step: Step, account: ServiceAccount, password: str, seen: CatalogSeen) -> None:
        """Make one change."""
        if step.kind == "project":
            self._call("POST", "/projects", {"project": {"name": account.project, "domain_id": _DOMAIN, "description": "Accounts of services"}})
        elif step.kind == "user":
            self._call("POST", "/users", {"user": {"name": account.name, "domain_id": _DOMAIN, "password": password}})
        elif step.kind == "password":
            self._call("PATCH", f"/users/{seen.user}", {"user": {"password": password, "enabled": True}})
        elif step.kind == "role":
            self._call("POST", "/roles", {"role": {"name": step.what}})
        elif step.kind == "assign":
            self._call("PUT", f"/projects/{seen.project}/users/{seen.user}/roles/{seen.roles[step.what]}")
        elif step.kind in ("service", "rename"):
            body = {"service": {"name": account.name, "type": account.type, "description": account.description, "enabled": True}}
            self._call("POST" if seen.service is None else "PATCH", "/services" + (f"/{seen.service['id']}" if seen.service else ""), body)
        else:
            self._endpoint(step.what, account, seen)

    def _endpoint(self, interface: str, account: ServiceAccount, seen: CatalogSeen) -> None:
        old = [one for one in seen.endpoints if one["interface"] == interface and (one.get("region_id") or one.get("region")) == account.region]
        fields = {"interface": interface, "url": account.urls[interface], "region_id": account.region, "service_id": (seen.service or {}).get("id")}
        body = {"endpoint": {**fields, "enabled": True}}
        self._call("PATCH" if old else "POST", "/endpoints" + (f"/{old[0]['id']}" if old else ""), body)


def ensure_all(
    accounts: t.Sequence[tuple[ServiceAccount, str]],
    connect: t.Callable[[], Catalog],
    *,
    check_mode: bool,
    wait_timeout: float = 60,
    sleep: t.Callable[[float], None] = time.sleep,
) -> tuple[str, ...]:
    """Change what differs and return it; in check mode only return it.

    :arg accounts: each with its password.
    :arg connect: logs in as the administrator.
    :arg wait_timeout: seconds to wait for a keystone that is starting.
    :raises BackendError: keystone does not answer, refuses the administrator, or still differs afterwards.
    """
    catalog = _connected(connect, check_mode, wait_timeout, sleep)
    done: dict[str, None] = {}
    for account, password in accounts:
        done.update(dict.fromkeys(_ensure(catalog, account, password, check_mode)))
    return tuple(done)


def _ensure(catalog: Catalog | None, account: ServiceAccount, password: str, check_mode: bool) -> list[str]:
    if catalog is None:
        # keystone does not exist before the first run: everything would be created
        return [step.text for step in steps(account, CatalogSeen())]
    seen = catalog.look(account, password)
    found = steps(account, seen)
    done = [step.text for step in found]
    while found and not check_mode:
        catalog.apply(found[0], account, password, seen)
        seen = catalog.look(account, password)
        left = steps(account, seen)
        if found[0] in left:
            raise BackendError(f"keystone accepted this, but it had no effect: {found[0].text}.", hint="Check `journalctl -u keystone` on the host.")
        done += [step.text for step in left if step.text not in done]
        found = left
    return done


def _connected(connect: t.Callable[[], Catalog], check_mode: bool, wait_timeout: float, sleep: t.Callable[[float], None]) -> Catalog | None:
    waited = 0.0
    while True:
        try:
            return connect()
        except NotAnswering:
            if check_mode:
                return None
            if waited >= wait_timeout:
                raise
        sleep(_PAUSE)
        waited += _PAUSE
