# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The replacement of a server: request, what is known and found, and the decision."""

from __future__ import annotations

import dataclasses
import typing as t

NONE, REPLACE = "none", "replace"
#: What becomes of a VM: joins its peers again; is started from its copy and moved; is moved from its standby; is created with empty disks; runs on
#: another server; is not created.
CONTROLLER, STANDBY, RETURN, RECREATE, ELSEWHERE, LOST = "controller", "standby", "return", "recreate", "elsewhere", "lost"
#: Proofs that the earlier machine is off.
BMC, PERSON = "bmc", "person"
#: Start of the names of its variables.
PREFIX = "replace_server"


class Request(t.NamedTuple):
    """The wishes of the operator.

    :arg confirm: the name of the server, as typed by a person who made sure that the earlier machine is off.
    :arg bmc: host of the inventory whose management controller is asked whether the earlier machine is off.
    :arg recreate: VMs that are created with empty disks.
    """

    name: str
    confirm: str = ""
    bmc: str = ""
    recreate: t.Sequence[str] = ()


class Known(t.NamedTuple):
    """What the inventory contains.

    :arg members: service → its hosts.
    :arg places: controller → its server, empty for one that is a server itself.
    :arg servers: virt host → its address.
    :arg vms: VM details of the server, and ``extra`` those of VMs that are not in its list.
    :arg master: name of the master, if this server is the destination of its migration.
    """

    environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]]
    places: t.Mapping[str, str]
    servers: t.Mapping[str, str]
    hosts: t.Sequence[str]
    vms: t.Any = ()
    extra: t.Any = ()
    cluster: str = "default"
    master: str = ""


class Found(t.NamedTuple):
    """What was found.

    :arg looks: host of the control plane → ``controlplane`` as returned by ``controlplane_info``.
    :arg servers: virt host → ``vms``, ``standbys`` and ``identity``, empty for one that does not answer.
    :arg machine: the machine that answers under the name, empty if none does.
    :arg answering: addresses of earlier machines at which something answers.
    :arg power: state that the management controller of :attr:`Request.bmc` reports, or its error.
    :arg power_uuid: UUID of the machine that it manages, empty if unknown.
    :arg errors: virt host → why it could not be read.
    """

    looks: t.Mapping[str, t.Optional[t.Mapping[str, t.Any]]]
    servers: t.Mapping[str, t.Mapping[str, t.Any]]
    machine: t.Mapping[str, str]
    answering: t.Sequence[str] = ()
    power: str = ""
    errors: t.Mapping[str, str] = {}
    power_uuid: str = ""


def machines(identities: t.Mapping[str, t.Mapping[str, t.Any]], addresses: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
    """Return the machine of each server with its name and address, as ``server_identity`` records it; without those that are not known.

    :arg identities: server → ``identity`` as returned by ``server_identity_info``, empty for one that does not answer.
    """
    found = {name: identity.get("here") or {} for name, identity in identities.items()}
    return [{**here, "name": name, "address": addresses.get(name) or name} for name, here in found.items() if here.get("machine_id")]


class Way(t.NamedTuple):
    """What becomes of a VM.

    :arg server: its standby, or the server that it is on.
    :arg copy: the verified copy from which it is started, ``witnesses`` the machines on which its start is recorded first.
    """

    id: str
    name: str
    way: str
    text: str
    server: str = ""
    copy: str = ""
    witnesses: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """The decision.

    :arg why: the reasons against it.
    :arg proof: kind and name, separated by a space.
    """

    action: str
    why: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    at: str = ""
    proof: str = ""
    ways: tuple[Way, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        ways = [{**way._asdict(), "witnesses": list(way.witnesses)} for way in self.ways]
        return {**dataclasses.asdict(self), "why": list(self.why), "lines": list(self.lines), "ways": ways, "ok": not self.why}
