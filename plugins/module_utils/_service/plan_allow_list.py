# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ports of the control plane services, the addresses that may reach them, and the nftables rules that enforce this. No I/O."""

from __future__ import annotations

import hashlib
import re
import types
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import AllowList, Rule
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK

#: First source port of outgoing connections (net.ipv4.ip_local_port_range). From here on only new connections
#: are rejected, because replies to this host's own connections must pass.
EPHEMERAL = 32768
#: Before the filters of the operator, which still apply to packets accepted here.
PRIORITY = -10
PEERS, VOTERS, CLIENTS, SERVERS = "peers", "voters", "clients", "servers"


class Access(t.NamedTuple):
    """Ports of a service, and who may reach them.

    :arg audience: ``peers``, the members of the same service; ``voters``, these and the witnesses of the database; ``clients``, all hosts
        of the control plane and addresses added by the operator; or ``servers``, these and the compute servers and gateways of a cloud.
    :arg ports: numbers or ranges, or ``VARIABLE:DEFAULT`` for a port that a variable sets.
    """

    audience: str
    ports: tuple[str, ...] = ()
    protocol: str = "tcp"


class Listening(t.NamedTuple):
    """Ports of a service, and the units that listen on them."""

    access: tuple[Access, ...]
    units: tuple[str, ...]


SERVICES: t.Mapping[str, Listening] = types.MappingProxyType(
    {
        "galera": Listening(
            # 4567 replication, 4568 incremental and 4444 full state transfer
            (Access(PEERS, ("4444", "4568")), Access(VOTERS, ("4567",)), Access(CLIENTS, ("3306", "galera_check_port:9200"))),
            ("mariadb.service", "footprint-galera-check.socket"),
        ),
        "rabbitmq": Listening(
            # 4369 port mapper, 25672 connections between members, 25673 their guards, 26000 and up replication of streams, 35672 and up command line tools
            (
                Access(PEERS, ("4369", "rabbitmq_distribution_port:25672", "rabbitmq_guard_port:25673", "26000-26500", "35672-35682")),
                Access(SERVERS, ("rabbitmq_tls_port:5671", "rabbitmq_port:5672")),
            ),
            ("rabbitmq-server.service", "epmd.socket"),
        ),
        "witness": Listening((Access(VOTERS, ("4567",)),), ("garbd@.service",)),
        "memcached": Listening((Access(CLIENTS, ("memcached_port:11211",)),), ("memcached.service",)),
        "load_balancer": Listening(
            (Access(PEERS, ("load_balancer_peers_port:10240",)), Access(PEERS, protocol="vrrp")), ("haproxy.service", "keepalived.service")
        ),
        "keystone": Listening((Access(CLIENTS, ("keystone_port:5000",)),), ("keystone.service",)),
        "ovn_database": Listening(
            (
                # between members
                Access(PEERS, ("6643-6644",)),
                Access(CLIENTS, ("ovn_database_northbound_port:6641",)),
                Access(SERVERS, ("ovn_database_southbound_port:6642",)),
            ),
            ("ovn-ovsdb-server-nb.service", "ovn-ovsdb-server-sb.service"),
        ),
        **{
            one.name: Listening(
                (Access(CLIENTS, tuple(api.port for api in one.apis)), *((Access(PEERS, one.peer_ports),) if one.peer_ports else ())), one.units
            )
            for one in OPENSTACK.values()
            if one.apis
        },
    }
)


def all_units(instance: str) -> list[str]:
    """Return the units of all services, which a deployment repairs.

    :arg instance: the instance of services that a host may have several of.
    """
    found = [unit for service in SERVICES.values() for unit in service.units] + [unit for service in OPENSTACK.values() for unit in service.units]
    return list(dict.fromkeys(unit.replace("@.", f"@{instance}.") for unit in found))


def wanted(
    service: str,
    peers: t.Sequence[str],
    clients: t.Sequence[str],
    settings: t.Mapping[str, t.Any],
    voters: t.Sequence[str] = (),
    instance: str = "",
    servers: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the allow-list of a service in the format of the module ``service_allow_list``. It is the same on each of its members.

    :arg peers: the addresses of its members.
    :arg clients: addresses and networks of its clients.
    :arg settings: variables with ports that differ from the default.
    :arg voters: the addresses of the members of the same cluster that are not members of this service.
    :arg instance: the instance of the service, if a host may have several, each with its own list.
    :arg servers: addresses of the compute servers and gateways of a cloud.
    """
    listening = SERVICES[service]
    allowed = {PEERS: sorted(peers), VOTERS: sorted({*peers, *voters}), CLIENTS: sorted({*peers, *clients})}
    allowed[SERVERS] = sorted({*allowed[CLIENTS], *servers})
    return {
        "name": _name(service, instance),
        "served": sorted(peers),
        "rules": [
            {
                "protocol": access.protocol,
                "ports": [_port(port, settings) for port in access.ports],
                "allowed": allowed[access.audience],
            }
            for access in listening.access
        ],
        "units": [unit.replace("@.", f"@{instance}.") for unit in listening.units],
    }


def _name(service: str, instance: str) -> str:
    """The name of a list: at most 32 lower-case letters, digits and underscores, which differs for each instance."""
    plain = f"{service}_{instance}" if instance else service
    name = re.sub("[^a-z0-9_]", "_", plain.lower())
    return name if name == plain and len(name) <= 32 else f"{name[:23]}_{hashlib.sha256(plain.encode()).hexdigest()[:8]}"


def _port(entry: str, settings: t.Mapping[str, t.Any]) -> str:
    name, colon, default = entry.partition(":")
    return str(settings.get(name, default)) if colon else entry


def table_of(name: str) -> str:
    """Return the name of the nftables table of a list."""
    return f"footprint_{name}"


def ruleset(wish: AllowList) -> str:
    """Return the list as input for ``nft``. It replaces the table of the list in one transaction and changes no other table.

    The name of an empty chain contains a digest of the rules, so that an outdated table can be detected.
    """
    table = f"table inet {table_of(wish.name)}"
    jumps: list[str] = []
    chains: list[str] = []
    for number, rule in enumerate(wish.rules):
        jumps += [f"        {match} jump rule_{number}" for match in _matches(rule, wish.served)]
        chains += [f"    chain rule_{number} {{", *(f"        {line}" for line in _verdict(rule)), "    }"]
    body = [
        "    chain input {",
        f"        type filter hook input priority {PRIORITY}; policy accept;",
        "        iif lo accept",
        *jumps,
        "    }",
        *chains,
    ]
    digest = hashlib.sha256("\n".join(body).encode()).hexdigest()[:16]
    return "\n".join([table, f"delete {table}", f"{table} {{", f"    chain {revision_chain(digest)} {{", "    }", *body, "}", ""])


def revision_chain(digest: str) -> str:
    """Return the name of the chain with a digest."""
    return f"revision_{digest}"


def revision(text: str) -> str:
    """Return the name of the chain with the digest from the text of :func:`ruleset`."""
    return text.partition("chain revision_")[2].partition(" ")[0].join(("revision_", ""))


def _matches(rule: Rule, served: t.Sequence[str]) -> list[str]:
    four = [address for address in served if ":" not in address]
    if rule.protocol == "vrrp":
        return ["meta l4proto vrrp"]
    found = []
    for ports, syn in (
        ([one for one in rule.ports if one[0] < EPHEMERAL], ""),
        ([one for one in rule.ports if one[0] >= EPHEMERAL], "tcp flags & (fin | syn | rst | ack) == syn "),
    ):
        if ports:
            match = f"{rule.protocol} dport {_set(f'{first}-{last}' if last > first else str(first) for first, last in ports)}"
            # other addresses of this host may be virtual ones, at which the load balancer serves all clients
            found += [f"ip daddr {_set(four)} {match} {syn}".rstrip()] if four else []
            found.append(f"meta nfproto ipv6 {match} {syn}".rstrip())
    return found


def _verdict(rule: Rule) -> list[str]:
    four = [address for address in rule.allowed if ":" not in address]
    six = [address for address in rule.allowed if ":" in address]
    found = [f"ip saddr {_set(four)} accept"] if four else []
    found += [f"ip6 saddr {_set(six)} accept"] if six else []
    return [*found, "counter reject with tcp reset" if rule.protocol == "tcp" else "counter drop"]


def _set(entries: t.Iterable[str]) -> str:
    return f"{{ {', '.join(entries)} }}"
