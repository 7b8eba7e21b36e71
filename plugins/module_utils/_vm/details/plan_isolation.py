# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warnings about the isolation of planned guests. No I/O."""

from __future__ import annotations

import typing as t


def container_warnings(planned: t.Iterable[tuple[str, str | None, bool]]) -> list[str]:
    """Return a warning if a run defines containers.

    :arg planned: name, type, and whether its root is mapped to another user of the host (``<idmap>``).
    """
    containers = [(name, mapped) for name, kind, mapped in planned if kind == "lxc"]
    if not containers:
        return []
    names = ", ".join(name for name, unused in containers)
    privileged = [name for name, mapped in containers if not mapped]
    privileges = ""
    if privileged:
        which = "Root in them" if len(privileged) == len(containers) else f"Root in {', '.join(privileged)}"
        privileges = f" {which} is root on the host (privileged); add an <idmap> to the template to change that."
    return [f"{names}: containers share the kernel of the host and do not isolate tenants from each other.{privileges}"]
