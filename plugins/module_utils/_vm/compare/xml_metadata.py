# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The metadata of this collection in a domain's ``<metadata>``: its owner and the applied document."""

from __future__ import annotations

import json
import typing as t

try:
    from lxml import etree
except ImportError:
    # the missing library is reported by the parser (_vm.compare.xml_domain)
    etree = None

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_schema

_NAMESPACES = "https://reduced.footprint/xmlns/domain/"
NAMESPACE = f"{_NAMESPACES}{model_schema.DOMAIN_METADATA.number}"
_PREFIX = "footprint"
_ELEMENT = f"{{{NAMESPACE}}}vm"
_APPLIED = f"{{{NAMESPACE}}}applied"
_PREVIOUS = f"{{{NAMESPACE}}}previous"
_ECHO = f"{{{NAMESPACE}}}echo"
_PROTECTED_DISK = f"{{{NAMESPACE}}}protected_disk"
_PENDING_DISK = f"{{{NAMESPACE}}}pending_disk"

# changes the running guest refused; only in the live document, so they are removed when the guest stops
LIVE_NAMESPACE = f"https://reduced.footprint/xmlns/live/{model_schema.LIVE_METADATA.number}"
_NOTED = f"{{{LIVE_NAMESPACE}}}refused"
# in the definition, during a restart
_RESTARTING = f"{{{LIVE_NAMESPACE}}}restarting"
RESTARTING_TEXT = "<restarting/>"

#: Mark of a seed that the guest has not read; only in the live document, so that it is removed when the guest stops.
SEED_NAMESPACE = f"https://reduced.footprint/xmlns/seed/{model_schema.SEED_METADATA.number}"

# element names for setMetadata, which adds prefix and namespace itself
ELEMENTS: t.Mapping[str, str] = {NAMESPACE: _PREFIX, LIVE_NAMESPACE: "footprint-live"}

# the source of a VM: the list of a host (or a migration)
ORIGIN_LIST = "vm_define"


class Ownership(t.NamedTuple):
    """The metadata of a managed domain.

    ``applied`` is the document rendered for the last definition, in canonical form,
    ``previous`` the one before it. ``echo`` are the values of ``applied`` that libvirt changed
    (path → value, ``None`` where it was dropped), ``None`` if not recorded. ``adopted`` domains were not created by this
    collection; they keep their UUID, MACs and disks. ``protected_disks`` are ``pool/volume``.
    ``back``: it was rolled back to ``applied``, so a repeated rollback changes nothing. ``pending_disks``
    are paths of volumes that did not exist yet when it was defined; all other volumes existed.
    ``applied`` and ``previous`` have no passwords (see :mod:`xml_hidden`).
    """

    cluster: str
    id: str
    protected: bool
    origin: str
    applied: str
    previous: str | None = None
    echo: t.Mapping[str, str | None] | None = None
    adopted: bool = False
    protected_disks: tuple[str, ...] = ()
    back: bool = False
    pending_disks: tuple[str, ...] = ()


def attach(document: t.Any, ownership: Ownership) -> None:
    """Add the element to a parsed domain document, next to other metadata of the template."""
    metadata = document.find("metadata")
    if metadata is None:
        metadata = document.makeelement("metadata", {})
        # the position is irrelevant to libvirt; after the names it is easy to find
        place = max([-1] + [document.index(element) for element in document if element.tag in ("name", "uuid", "title", "description")])
        document.insert(place + 1, metadata)
    for old in metadata.findall(_ELEMENT):
        metadata.remove(old)
    metadata.append(_element(metadata, ownership, f"{{{NAMESPACE}}}", {_PREFIX: NAMESPACE}))


def element_text(document: t.Any, ownership: Ownership) -> str:
    """The element without the namespace, as setMetadata expects it."""
    return etree.tostring(_element(document, ownership, "", None), encoding="unicode")


def note_text(document: t.Any, noted: t.Mapping[str, str | None]) -> str:
    """The element that records the changes a running guest refused, without its namespace."""
    element = document.makeelement("refused", {})
    element.text = json.dumps(dict(noted), sort_keys=True)
    return etree.tostring(element, encoding="unicode")


def noted_of(document: t.Any) -> dict[str, str | None]:
    """The changes the running guest refused, from its live document (path → requested value)."""
    return _mapping(document.findtext(f"metadata/{_NOTED}"))


def is_restarting(document: t.Any) -> bool:
    """Whether the definition records a started restart."""
    return document.find(f"metadata/{_RESTARTING}") is not None


def strip(document: t.Any, *namespaces: str) -> None:
    """Remove the metadata of this collection, or of some namespaces, from a document, and an empty ``<metadata>``."""
    metadata = document.find("metadata")
    if metadata is None:
        return
    for element in list(metadata):
        if isinstance(element.tag, str) and element.tag[1:].partition("}")[0] in (namespaces or ELEMENTS):
            metadata.remove(element)
    if not len(metadata):
        document.remove(metadata)


def read(document: t.Any) -> Ownership | None:
    """The metadata of a parsed domain document, ``None`` where the domain is not managed."""
    element = document.find(f"metadata/{_ELEMENT}")
    if element is None:
        _refuse_newer(document)
        return None
    applied, previous = element.findtext(_APPLIED) or "", element.findtext(_PREVIOUS) or None
    echo = None if element.find(_ECHO) is None else _mapping(element.findtext(_ECHO))
    return Ownership(
        cluster=element.get("cluster", ""),
        id=element.get("id", ""),
        protected=element.get("protected") == "yes",
        origin=element.get("origin", ORIGIN_LIST),
        applied=applied,
        previous=previous,
        echo=echo,
        adopted=element.get("adopted") == "yes",
        back=element.get("back") == "yes",
        protected_disks=tuple(element.text or "" for element in element.iterfind(_PROTECTED_DISK)),
        pending_disks=tuple(element.text or "" for element in element.iterfind(_PENDING_DISK)),
    )


def _refuse_newer(document: t.Any) -> None:
    for child in document.iterfind("metadata/*"):
        if isinstance(child.tag, str) and child.tag.startswith(f"{{{_NAMESPACES}"):
            number = child.tag[1:].partition("}")[0][len(_NAMESPACES) :]
            model_schema.DOMAIN_METADATA.check(int(number) if number.isdecimal() else number, document.findtext("name"))


def _element(parent: t.Any, ownership: Ownership, namespace: str, nsmap: t.Mapping[str, str] | None) -> t.Any:
    attributes = {
        "cluster": ownership.cluster,
        "id": ownership.id,
        "protected": "yes" if ownership.protected else "no",
        "origin": ownership.origin,
    }
    if ownership.adopted:
        attributes["adopted"] = "yes"
    if ownership.back:
        attributes["back"] = "yes"
    element = parent.makeelement(f"{namespace}vm", attributes, nsmap=nsmap)

    def add(tag: str, text: str) -> None:
        child = element.makeelement(namespace + tag, {})
        child.text = text
        element.append(child)

    add("applied", ownership.applied)
    if ownership.previous is not None:
        add("previous", ownership.previous)
    if ownership.echo is not None:
        add("echo", json.dumps(dict(ownership.echo), sort_keys=True))
    for disk in ownership.protected_disks:
        add("protected_disk", disk)
    for path in ownership.pending_disks:
        add("pending_disk", path)
    return element


def _mapping(text: str | None) -> dict[str, str | None]:
    """A mapping from its JSON text; empty for invalid text."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(key): each for key, each in value.items() if each is None or isinstance(each, str)} if isinstance(value, dict) else {}
