# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keystone service of this host: its API and ``keystone-manage``."""

from __future__ import annotations

import json
import typing as t
import urllib.error

from ansible.module_utils.urls import open_url

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_HINT = "Check `journalctl -u keystone` on the host."


class NotAnswering(BackendError):
    """The service does not answer."""


class Keystone:
    """One keystone service.

    :arg url: URL of its API on this host, for example ``http://192.0.2.11:5000/v3``.
    :arg user: system user it runs as.
    """

    def __init__(self, url: str, user: str = "keystone", timeout: float = 30) -> None:
        self.url = url.rstrip("/")
        self.user = user
        self.timeout = timeout

    def token(self, username: str, password: str, project: str) -> dict[str, t.Any] | None:
        """Request a token for a user in a project and return its content, ``None`` if authentication fails.

        :raises NotAnswering: the service does not answer.
        :raises BackendError: the service returns an error.
        """
        found = self._log_in(username, password, project)
        return found[1] if found else None

    def token_id(self, username: str, password: str, project: str) -> str | None:
        """Request a token for a user in a project and return it, ``None`` if authentication fails.

        :raises NotAnswering: the service does not answer.
        :raises BackendError: the service returns an error.
        """
        found = self._log_in(username, password, project)
        return found[0] if found else None

    def _log_in(self, username: str, password: str, project: str) -> tuple[str, dict[str, t.Any]] | None:
        domain = {"id": "default"}
        login = {"methods": ["password"], "password": {"user": {"name": username, "domain": domain, "password": password}}}
        body = {"auth": {"identity": login, "scope": {"project": {"name": project, "domain": domain}}}}
        try:
            with self._open("POST", "/auth/tokens", body) as answer:
                return str(answer.headers.get("X-Subject-Token") or ""), dict(json.loads(answer.read())["token"])
        except urllib.error.HTTPError as error:
            if error.code == 401:
                return None
            raise BackendError(f"keystone at {self.url} returned {error.code}: {error.reason}.", hint=_HINT) from error
        except (OSError, ValueError, KeyError) as error:
            raise NotAnswering(f"keystone does not answer at {self.url}: {error}.", hint=_HINT) from error

    def call(self, method: str, path: str, token: str, body: t.Any = None) -> t.Any:
        """Send a request with a token and return the content of the answer.

        :raises NotAnswering: the service does not answer.
        :raises BackendError: the service returns an error.
        """
        try:
            with self._open(method, path, body, token) as answer:
                text = answer.read()
                return json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            raise BackendError(f"keystone at {self.url} returned {error.code} to {method} {path}: {error.reason}.", hint=_HINT) from error
        except (OSError, ValueError) as error:
            raise NotAnswering(f"keystone does not answer at {self.url}: {error}.", hint=_HINT) from error

    def _open(self, method: str, path: str, body: t.Any = None, token: str = "") -> t.Any:
        return open_url(
            f"{self.url}{path}",
            data=json.dumps(body) if body is not None else None,
            headers={"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})},
            method=method,
            timeout=self.timeout,
            # connect directly even if this host uses a proxy
            use_proxy=False,
        )

    def bootstrap(self, password: str, options: t.Mapping[str, str]) -> None:
        """Run ``keystone-manage bootstrap``, which creates or updates the administrator and the endpoints.

        :raises CommandError: the command fails.
        """
        arguments = [word for name, value in options.items() for word in (f"--bootstrap-{name}", value)]
        argv = ["runuser", "-u", self.user, "--", "keystone-manage", "bootstrap", *arguments]
        # all users can read the command line of a process, but only its user can read the environment
        run(argv, variables={"OS_BOOTSTRAP_PASSWORD": password}, timeout=300, hint=_HINT)
