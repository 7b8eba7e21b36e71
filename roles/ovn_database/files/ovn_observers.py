# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let chassis that are not gateways observe the gateways of all provider networks, so that the last of these gateways takes over.

Started by a timer on each server with ``ovn-northd``. A gateway takes a router over if it reaches another chassis that OVN associates with the
router: another gateway of it, or a chassis with a port in one of its networks. Otherwise the gateway may itself be the one that is cut off, and does
nothing. With two gateways, none is left to be reached. A chassis that is not a gateway, such as a witness, has an interface without addresses for
this (role ``ovn_chassis``); here it gets a port in each provider network as a part of that interface. No frame reaches it.
"""

from __future__ import annotations

import json
import subprocess
import typing as t

#: The switch of the interfaces, and the first part of the names of all ports.
SWITCH, PORT = "footprint-observers", "footprint-observer-"
GATEWAY = "enable-chassis-as-gw"
Rows = t.Sequence[t.Mapping[str, t.Any]]


def observers(chassis: Rows) -> list[str]:
    """Return the host names of chassis that are not gateways.

    :arg chassis: rows of the table Chassis with ``hostname`` and ``other_config``.
    """
    options = {str(row["hostname"]): str(row["other_config"].get("ovn-cms-options", "")) for row in chassis}
    return sorted(name for name, text in options.items() if name and GATEWAY not in text.split(","))


def commands(hosts: t.Sequence[str], switches: Rows, ports: Rows) -> list[list[str]]:
    """Return the commands of ``ovn-nbctl`` that add missing ports and remove those of other hosts; empty if nothing differs.

    :arg hosts: the observers.
    :arg switches: rows of the table Logical_Switch with ``_uuid``, ``name`` and ``ports``.
    :arg ports: rows of the table Logical_Switch_Port with ``_uuid``, ``name`` and ``type``.
    """
    physical = {row["_uuid"] for row in ports if row["type"] == "localnet"}
    provider = [row["_uuid"] for row in switches if physical & set(row["ports"])]
    parents = {f"{PORT}{host}": [SWITCH, f"{PORT}{host}"] for host in hosts}
    # tag 0: OVN chooses one that is unique for the interface
    children = {f"{parent}-{switch}": [switch, f"{parent}-{switch}", parent, "0"] for parent in parents for switch in provider}
    wanted = {**parents, **children}
    found = {str(row["name"]) for row in ports if str(row["name"]).startswith(PORT)}
    result = [["--may-exist", "ls-add", SWITCH]] if parents and all(row["name"] != SWITCH for row in switches) else []
    result += [["--if-exists", "lsp-del", name] for name in sorted(found - set(wanted))]
    return result + [["--may-exist", "lsp-add", *words] for name, words in wanted.items() if name not in found]


def plain(value: t.Any) -> t.Any:
    """Return a value of the database as a text, list or mapping."""
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind == "set":
        return [plain(one) for one in content]
    return dict(content) if kind == "map" else content


def rows(program: str, table: str, columns: str) -> list[dict[str, t.Any]]:
    """Return rows of a table of the local member."""
    argv = [program, "--no-leader-only", "--timeout=20", "--format=json", f"--columns={columns}", "list", table]
    found = json.loads(subprocess.run(argv, check=True, capture_output=True, encoding="utf-8", timeout=30).stdout)
    result = [{name: plain(value) for name, value in zip(found["headings"], row)} for row in found["data"]]
    # a set with one element is that element
    return [{name: [value] if name == "ports" and isinstance(value, str) else value for name, value in row.items()} for row in result]


def main() -> None:
    """Compare and change."""
    hosts = observers(rows("ovn-sbctl", "Chassis", "hostname,other_config"))
    todo = commands(hosts, rows("ovn-nbctl", "Logical_Switch", "_uuid,name,ports"), rows("ovn-nbctl", "Logical_Switch_Port", "_uuid,name,type"))
    argv = ["ovn-nbctl", "--no-leader-only", "--timeout=20"]
    for words in todo:
        argv += ["--", *words]
    if todo:
        subprocess.run(argv, check=True, timeout=30)


if __name__ == "__main__":
    main()
