# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own corner of a domain's ``<metadata>``: whose it is and what was applied to it (X1, X6)."""

from __future__ import annotations

import dataclasses
import typing as t

NAMESPACE = "https://reduced.footprint/xmlns/domain/1"
_PREFIX = "footprint"
_ELEMENT = f"{{{NAMESPACE}}}vm"
_APPLIED = f"{{{NAMESPACE}}}applied"

# who keeps a VM: the list of a host, or a migration
ORIGIN_LIST = "vm_define"


@dataclasses.dataclass(frozen=True)
class Ownership:
    """What stands in the metadata of a domain of ours.

    ``applied`` is the document as it was rendered when it was last defined, in canonical form.
    """

    cluster: str
    id: str
    protected: bool
    origin: str
    applied: str


def attach(document: t.Any, ownership: Ownership) -> None:
    """Put our element into a parsed domain document, beside whatever metadata the template has."""
    metadata = document.find("metadata")
    if metadata is None:
        metadata = document.makeelement("metadata", {})
        # libvirt does not care where it stands; after the names it is where a person looks for it
        place = max([-1] + [document.index(element) for element in document if element.tag in ("name", "uuid", "title", "description")])
        document.insert(place + 1, metadata)
    for old in metadata.findall(_ELEMENT):
        metadata.remove(old)
    ours = metadata.makeelement(
        _ELEMENT,
        {
            "cluster": ownership.cluster,
            "id": ownership.id,
            "protected": "yes" if ownership.protected else "no",
            "origin": ownership.origin,
        },
        nsmap={_PREFIX: NAMESPACE},
    )
    applied = ours.makeelement(_APPLIED, {})
    applied.text = ownership.applied
    ours.append(applied)
    metadata.append(ours)


def read(document: t.Any) -> Ownership | None:
    """Our element of a parsed domain document, ``None`` where the domain is not ours."""
    ours = document.find(f"metadata/{_ELEMENT}")
    if ours is None:
        return None
    return Ownership(
        cluster=ours.get("cluster", ""),
        id=ours.get("id", ""),
        protected=ours.get("protected") == "yes",
        origin=ours.get("origin", ORIGIN_LIST),
        applied=ours.findtext(_APPLIED) or "",
    )
