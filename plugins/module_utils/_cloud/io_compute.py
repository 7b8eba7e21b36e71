# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and change instances and compute services through the API of Nova, with openstacksdk."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_instances import MIGRATE, START, STOP, Instance, Service
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

try:
    import openstack
    from keystoneauth1 import exceptions as login
except ImportError:  # reported when it is used
    openstack = None

#: Newest of what is used here: details of events.
_VERSION = "2.84"


@contextlib.contextmanager
def _errors(what: str) -> t.Iterator[None]:
    try:
        yield
    except (openstack.exceptions.SDKException, login.ClientException, OSError) as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise BackendError(f"cannot {what}: {text}.", hint="Check the API with the playbook status, then run this again.") from error


class Compute:
    """The API of Nova.

    :arg cloud: name of the login in ``clouds.yaml``.
    :raises BackendError: openstacksdk is missing, or the login fails. Every other method raises it if the API does not answer.
    """

    def __init__(self, cloud: str) -> None:
        if openstack is None:
            raise BackendError("Python cannot import openstack.", hint="Install openstacksdk in the environment that runs Ansible.")
        with _errors("log in to the cloud"):
            self._api = openstack.connect(cloud=cloud).compute

    def services(self) -> list[Service]:
        """Return all compute services."""
        with _errors("list the compute services"):
            found = list(self._api.services(binary="nova-compute"))
        return [Service(one.id, one.host, one.status == "enabled", one.state == "up", one.disabled_reason or "") for one in found]

    def instances(self, host: str) -> list[Instance]:
        """Return the instances of all projects on a server."""
        with _errors(f"list the instances of {host}"):
            found = [_instance(one) for one in self._api.servers(all_projects=True, compute_host=host)]
        return [one for one in found if one.host == host]

    def instance(self, server: str) -> Instance | None:
        """Return an instance by its ID, ``None`` if it was deleted."""
        with _errors(f"read the instance {server}"):
            try:
                return _instance(self._api.get_server(server))
            except openstack.exceptions.NotFoundException:
                return None

    def enable(self, service: Service, reason: str = "") -> None:
        """Enable a compute service, or disable it with a reason."""
        with _errors(f"change the compute service of {service.host}"):
            if reason:
                self._api.disable_service(service.id, disabled_reason=reason)
            else:
                self._api.enable_service(service.id)

    def act(self, verb: str, server: str, host: str = "") -> None:
        """Request that an instance is migrated live, to a server if one is given, stopped or started."""
        with _errors(f"{verb} the instance {server}"):
            if verb == MIGRATE:
                self._api.live_migrate_server(server, host=host or None, block_migration="auto")
            else:
                {STOP: self._api.stop_server, START: self._api.start_server}[verb](server)

    def reason(self, server: str) -> str:
        """Return why the last action of an instance failed, empty if that is unknown."""
        path = f"/servers/{server}/os-instance-actions"
        with contextlib.suppress(openstack.exceptions.SDKException, login.ClientException, OSError, KeyError, IndexError, TypeError, ValueError):
            last = self._api.get(path, microversion=_VERSION).json()["instanceActions"][0]["request_id"]
            events = self._api.get(f"{path}/{last}", microversion=_VERSION).json()["instanceAction"]["events"]
            return next((str(one["details"]) for one in events if one.get("details")), "")
        return ""


def _instance(found: t.Any) -> Instance:
    return Instance(found.id, found.name, found.compute_host or "", found.status, found.task_state or "")
