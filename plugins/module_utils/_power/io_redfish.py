# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server at a management controller with Redfish.

Only what power control requires: the newest clients for Redfish would be a dependency of the control node, and fencing must not depend on one.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import time
import typing as t
import urllib.error

from ansible.module_utils.urls import open_url
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc, model_power, model_redfish

_POLL = 2.0
_POLL_CYCLE = 0.5
_POLL_STORED = 0.5
# seconds until a controller shows boot settings that it has accepted
_STORED = 5.0
_MOST = 4 * 1024 * 1024
_ROOT = "/redfish/v1/"
_HEADERS = {"Accept": "application/json", "OData-Version": "4.0"}


class NotAnsweringError(BackendError):
    """The controller does not answer, or not in a way that can be understood; it may be busy."""


class PreconditionError(BackendError):
    """The controller requires another version of the resource, or none."""


class RedfishServer:
    """One system of a controller.

    :arg own: names and addresses of the server itself.
    :raises RefusedError: the controller is at one of them.
    """

    def __init__(self, bmc: model_bmc.Bmc, password: str, own: t.Sequence[str], request_timeout: int) -> None:
        model_bmc.refuse_own(bmc, own)
        if isinstance(bmc.verify_ca, str) and not os.path.isfile(bmc.verify_ca):
            raise InputError(f"{bmc.verify_ca} is not a file on the machine that runs the task.", "bmc.verify_ca", "Give the path of a PEM file there.")
        self._refuse_resolved(bmc, own)
        self._bmc = bmc
        self._password = password
        self._timeout = request_timeout
        self._path: str | None = None

    def system_path(self) -> str:
        """Return the path of the system.

        :raises BackendError: the controller does not answer, or has no such system.
        """
        return self._where()

    def read(self) -> model_power.Power:
        """Return the state of the server; boot settings that cannot be read are unknown.

        :raises BackendError: the controller does not answer, or has no such system.
        """
        system = self._system()
        try:
            return model_redfish.power(self._with_pending(system))
        except (BackendError, RefusedError):
            return model_redfish.power(system)._replace(boot_device=None, boot_once=False, boot_mode=None)

    def check(self, boot: model_power.Boot | None, operation: str | None) -> None:
        """Check that the firmware has a boot device and a boot mode.

        :raises UnsupportedError: it does not.
        """
        if boot:
            model_redfish.boot_request(boot, self._with_pending(self._system()))

    def set_boot(self, change: model_power.Boot) -> model_power.Power:
        """Set boot device and boot mode, and return what the controller has stored.

        Only what changes is requested first: some controllers refuse a boot mode. Others reset what is missing in a request, so all settings follow.
        """
        before = self._with_pending(self._system())
        wanted = model_redfish.boot_request(change, before)
        places = [path for path in (before.get(model_redfish.PENDING), self._where()) if path]
        refused: BackendError | None = None
        for place in places:
            for body in (wanted, model_redfish.complete(wanted, before)):
                try:
                    self._patch(place, body)
                except NotAnsweringError:
                    raise
                except BackendError as error:
                    refused = error
                    continue
                found = self._stored(change, before)
                if found:
                    return found
        raise refused or model_redfish.not_stored(change, self._with_pending(self._system()))

    def _stored(self, change: model_power.Boot, before: model_redfish.Resource) -> model_power.Power | None:
        """What was stored, ``None`` if it is not the change after a moment."""
        deadline = time.monotonic() + _STORED
        while True:
            system = self._with_pending(self._system())
            if model_redfish.is_stored(change, before, system):
                return model_redfish.power(system)
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_STORED)

    def _patch(self, path: str, body: t.Any) -> None:
        """Change a resource; some controllers require its version, and some of them not the one that they send."""
        resource, header = self._answer("GET", path)
        versions = model_redfish.versions(header, resource.get("@odata.etag"))
        for version in versions:
            try:
                self._request("PATCH", path, body, {"If-Match": version} if version else None)
                return
            except PreconditionError:
                if version == versions[-1]:
                    raise

    def set_power(self, operation: str) -> None:
        """Request a change of the power state; it takes effect later."""
        system = self._system()
        target, kind = model_redfish.reset(operation, system)
        self._request("POST", model_redfish.local(target), {"ResetType": kind})

    def cycle(self, timeout: float) -> None:
        """Power the server off, wait until it is off, and request that it is powered on.

        Off and on are requested separately where possible: it is not known when a controller starts a power cycle, and the server may be off too shortly
        to be seen.

        :raises BackendError: it was not seen off within the timeout, or could not be powered on afterwards.
        """
        if not model_redfish.switches(self._system()):
            self.set_power(model_power.CYCLE)
            self.wait(model_power.OFF, timeout, _POLL_CYCLE)
            return
        self.set_power(model_power.OFF)
        self.wait(model_power.OFF, timeout)
        deadline = time.monotonic() + timeout
        while True:
            try:
                # another client may have done it
                if self.read().state != model_power.ON:
                    self.set_power(model_power.ON)
                return
            except BackendError as error:
                # some controllers refuse it for a moment after the server was powered off
                if time.monotonic() >= deadline:
                    hint = "Power it on with state: on, or check its BMC."
                    raise BackendError(f"the server was powered off, and was not powered on again within {timeout:g} s: {error}", hint=hint) from error
            time.sleep(_POLL)

    def wait(self, state: str, timeout: float, poll: float = _POLL) -> model_power.Power:
        """Wait for a power state; a controller that is busy meanwhile is queried again.

        :arg poll: seconds between two queries.
        :raises BackendError: the state is another one after the timeout.
        """
        deadline = time.monotonic() + timeout
        while True:
            last = ""
            try:
                found = self.read()
                if found.state == state:
                    return found
                last = f"it is {found.state}"
            except NotAnsweringError as error:
                last = str(error)
            if time.monotonic() >= deadline:
                raise BackendError(f"the server is not {state} after {timeout:g} s: {last}.", hint="Raise wait_timeout, or check the server.")
            time.sleep(poll)

    def _where(self) -> str:
        if self._path is None:
            systems = model_redfish.link(self._request("GET", _ROOT), "Systems")
            paths = model_redfish.members(self._request("GET", systems))
            wanted = self._bmc.system
            self._path = model_redfish.choose(paths, wanted, lambda path: self._request("GET", path))
        return self._path

    def _system(self) -> dict[str, t.Any]:
        return self._request("GET", self._where())

    def _with_pending(self, system: dict[str, t.Any]) -> dict[str, t.Any]:
        """The system with the boot settings of its next boot, which some controllers have in a resource of their own."""
        path = model_redfish.pending(system)
        return model_redfish.with_pending(system, path, self._request("GET", path)) if path else system

    def _request(self, method: str, path: str, body: t.Any = None, headers: t.Mapping[str, str] | None = None) -> dict[str, t.Any]:
        return self._answer(method, path, body, headers)[0]

    def _answer(
        self, method: str, path: str, body: t.Any = None, headers: t.Mapping[str, str] | None = None
    ) -> tuple[dict[str, t.Any], str | None]:
        """The body of an answer, and the version of the resource in its header."""
        verify = self._bmc.verify_ca
        try:
            with open_url(
                f"{self._bmc.url}{path}",
                data=None if body is None else json.dumps(body),
                headers={**_HEADERS, **({} if body is None else {"Content-Type": "application/json"}), **(headers or {})},
                method=method,
                url_username=self._bmc.user,
                url_password=self._password,
                # without it each request would first be refused, and controllers count these
                force_basic_auth=True,
                validate_certs=verify is not False,
                ca_path=verify if isinstance(verify, str) else None,
                # credentials go to the controller only
                follow_redirects="none",
                use_proxy=False,
                use_netrc=False,
                timeout=self._timeout,
            ) as answer:
                data, version = answer.read(_MOST), answer.headers.get("ETag")
        except urllib.error.HTTPError as error:
            raise self._refused(error, method, path) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._failed(error) from None
        if not data.strip():
            return {}, version
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise NotAnsweringError("the answer is not Redfish.", "bmc.address", "Check address and port; the BMC must have Redfish, and it must be enabled.")
        return found, version

    @staticmethod
    def _refused(error: urllib.error.HTTPError, method: str, path: str) -> BackendError | RefusedError:
        if error.code in (401, 403):
            why = "refuses the user or its password" if error.code == 401 else "does not allow this to the user"
            return RefusedError(
                f"the BMC {why} (HTTP {error.code}).", "bmc.user", "Correct user and secret; there was one attempt only, so that the account is not locked."
            )
        try:
            text = model_redfish.message(json.loads(error.read(_MOST)))
        except (OSError, http.client.HTTPException, ValueError):
            text = ""
        what = f"{method} {path} failed with HTTP {error.code}{f': {text}' if text else ''}"
        if 300 <= error.code < 400:
            return BackendError(f"{what}: the BMC redirects.", "bmc.address", "Give the address that it redirects to; credentials are not sent elsewhere.")
        if error.code in (412, 428):
            return PreconditionError(f"{what}.")
        return NotAnsweringError(f"{what}.") if error.code in (408, 429, 500, 502, 503, 504) else BackendError(f"{what}.")

    @staticmethod
    def _failed(error: BaseException) -> BackendError | RefusedError:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ssl.SSLCertVerificationError) or "certificate verify failed" in str(error).lower():
            detail = getattr(reason, "verify_message", "") or "verification failed"
            return RefusedError(
                f"the certificate of the BMC is not trusted: {detail}.",
                "bmc.verify_ca",
                "Give the path of the authority's certificate; verify_ca: false accepts any certificate.",
            )
        why = str(reason).strip() or type(reason).__name__
        return NotAnsweringError(f"the BMC does not answer: {why}.", "bmc.address", "Check its address, and that this machine reaches it.")

    @staticmethod
    def _refuse_resolved(bmc: model_bmc.Bmc, own: t.Sequence[str]) -> None:
        """Compare what names resolve to: the names may differ."""

        def resolved(name: str) -> set[str]:
            try:
                return {str(entry[4][0]) for entry in socket.getaddrinfo(name.strip("[]"), None)}
            except OSError:
                return set()

        mine = {address for name in own if name for address in resolved(str(name))}
        for address in resolved(bmc.host) if mine else ():
            model_bmc.refuse_own(bmc._replace(host=address), mine)
