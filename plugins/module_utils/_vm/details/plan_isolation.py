# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guest is not kept apart from; said when it is planned. No I/O."""

from __future__ import annotations

import typing as t


def container_warnings(planned: t.Iterable[tuple[str, str | None, bool]]) -> list[str]:
    """One sentence for the containers among the guests that a run defines.

    :arg planned: name, type, and whether root in it is another user outside (``<idmap>``).
    """
    containers = [(name, mapped) for name, kind, mapped in planned if kind == "lxc"]
    if not containers:
        return []
    names = ", ".join(name for name, unused in containers)
    privileged = [name for name, mapped in containers if not mapped]
    whose = ""
    if privileged:
        which = "Root in them" if len(privileged) == len(containers) else f"Root in {', '.join(privileged)}"
        whose = f" {which} is root on the host (privileged); an <idmap> in the template changes that."
    return [f"{names}: containers share the kernel of the host and are no wall between tenants.{whose}"]
