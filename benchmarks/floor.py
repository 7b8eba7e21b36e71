# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The floor: only libvirt's Python binding, with one connection and one process, like a module.

    floor.py read|create|clean URI FILE

FILE contains ``{"prefix", "parallel", "start", "domains": [{"name", "uuid", "xml"}]}``. ``create`` runs the required calls (define,
autostart, start, with as many parallel starts as the module), ``read`` reads the definition and the live document of every domain,
``clean`` removes domains with the prefix.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import sys
import typing as t

import libvirt


def create(connection: t.Any, wanted: dict[str, t.Any]) -> None:
    """Define all domains, then start them."""
    made = []
    for domain in wanted["domains"]:
        one = connection.defineXML(domain["xml"])
        one.setAutostart(1)
        made.append(one)
    if wanted["start"]:
        with concurrent.futures.ThreadPoolExecutor(wanted["parallel"]) as pool:
            list(pool.map(lambda one: one.create(), made))


def read(connection: t.Any) -> None:
    """Read both documents of every domain."""
    for domain in connection.listAllDomains(0):
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        if domain.isActive():
            domain.XMLDesc(0)


def clean(connection: t.Any, prefix: str) -> None:
    """Remove the benchmark's domains."""
    for domain in connection.listAllDomains(0):
        if domain.name().startswith(prefix):
            with contextlib.suppress(libvirt.libvirtError):
                domain.destroy()
            domain.undefine()


def main() -> None:
    """Run one action with one connection."""
    action, uri, file = sys.argv[1:]
    libvirt.registerErrorHandler(lambda unused, error: None, None)
    with open(file, encoding="utf-8") as stream:
        wanted = json.load(stream)
    connection = libvirt.open(uri)
    if action == "create":
        create(connection, wanted)
    elif action == "read":
        read(connection)
    elif action == "clean":
        clean(connection, wanted["prefix"])
    else:
        sys.exit(f"unknown action {action}")
    connection.close()


if __name__ == "__main__":
    main()
