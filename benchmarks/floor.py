# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The floor: libvirt's Python binding and nothing else, one connection, one process, as a module would be.

    floor.py read|create|clean URI FILE

FILE holds ``{"prefix", "parallel", "start", "domains": [{"name", "uuid", "xml"}]}``. ``create`` does the calls that
cannot be left out (define, autostart, start, as many starts at once as our module makes), ``read`` looks at
every domain as often as comparing needs (what it is, what runs), ``clean`` removes what bears the prefix.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import sys
import typing as t

import libvirt


def create(connection: t.Any, wanted: dict[str, t.Any]) -> None:
    """Define all, then start all."""
    made = []
    for domain in wanted["domains"]:
        one = connection.defineXML(domain["xml"])
        one.setAutostart(1)
        made.append(one)
    if wanted["start"]:
        with concurrent.futures.ThreadPoolExecutor(wanted["parallel"]) as pool:
            list(pool.map(lambda one: one.create(), made))


def read(connection: t.Any) -> None:
    """Both documents of every domain."""
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
    """One action over one connection."""
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
        sys.exit(f"{action} is no action")
    connection.close()


if __name__ == "__main__":
    main()
