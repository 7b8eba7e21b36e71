# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Our own corner of a domain's ``<metadata>``: whose it is and what was applied to it."""

from __future__ import annotations

import json
import typing as t

try:
    from lxml import etree
except ImportError:
    # whoever parses a document (_vm.compare.xml_domain) says so
    etree = None

NAMESPACE = "https://reduced.footprint/xmlns/domain/1"
_PREFIX = "footprint"
_ELEMENT = f"{{{NAMESPACE}}}vm"
_APPLIED = f"{{{NAMESPACE}}}applied"
_PREVIOUS = f"{{{NAMESPACE}}}previous"
_ECHO = f"{{{NAMESPACE}}}echo"
_PROTECTED_DISK = f"{{{NAMESPACE}}}protected_disk"
_PENDING_DISK = f"{{{NAMESPACE}}}pending_disk"

# what a running guest would not do; it stands in the live document alone and so ends with the run
LIVE_NAMESPACE = "https://reduced.footprint/xmlns/live/1"
_NOTED = f"{{{LIVE_NAMESPACE}}}refused"
# in the definition, for as long as a restart takes
_RESTARTING = f"{{{LIVE_NAMESPACE}}}restarting"
RESTARTING_TEXT = "<restarting/>"

# the names of the elements for libvirt's own call, which adds prefix and namespace itself
ELEMENTS: t.Mapping[str, str] = {NAMESPACE: _PREFIX, LIVE_NAMESPACE: "footprint-live"}

# who keeps a VM: the list of a host, or a migration
ORIGIN_LIST = "vm_define"


class Ownership(t.NamedTuple):
    """What stands in the metadata of a domain of ours.

    ``applied`` is the document as it was rendered when it was last defined, in canonical form,
    ``previous`` the one before it. ``echo`` is what libvirt made of ``applied`` where that is
    something else (path → value, ``None`` where it was dropped), ``None`` where nobody wrote that down. ``adopted`` domains were made by
    somebody else, whose UUID, MACs and disks they keep. ``protected_disks`` are ``pool/volume``.
    ``back``: it was asked back to ``applied``, so that asking again is no way forward. ``pending_disks``
    are paths of volumes that were yet to be created when it was defined; any other it names has existed.
    ``applied`` and ``previous`` have no passwords (see :mod:`hidden`); ``clear``: the element still has some, of an earlier release.
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
    clear: bool = False


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
    metadata.append(_element(metadata, ownership, f"{{{NAMESPACE}}}", {_PREFIX: NAMESPACE}))


def element_text(document: t.Any, ownership: Ownership) -> str:
    """Our element alone, without the namespace, as libvirt wants it for a change of the metadata.

    :arg document: any element; it lends its library.
    """
    return etree.tostring(_element(document, ownership, "", None), encoding="unicode")


def note_text(document: t.Any, noted: t.Mapping[str, str | None]) -> str:
    """The element that notes what a running guest refused, without its namespace."""
    element = document.makeelement("refused", {})
    element.text = json.dumps(dict(noted), sort_keys=True)
    return etree.tostring(element, encoding="unicode")


def noted_of(document: t.Any) -> dict[str, str | None]:
    """What the running guest refused, from its live document (path → the value it was to get)."""
    return _mapping(document.findtext(f"metadata/{_NOTED}"))


def is_restarting(document: t.Any) -> bool:
    """Whether the definition says that a restart was begun."""
    return document.find(f"metadata/{_RESTARTING}") is not None


def strip(document: t.Any) -> None:
    """Take everything of ours out of a document, and ``<metadata>`` with it when nothing else is there."""
    metadata = document.find("metadata")
    if metadata is None:
        return
    for element in list(metadata):
        if isinstance(element.tag, str) and element.tag.startswith((f"{{{NAMESPACE}}}", f"{{{LIVE_NAMESPACE}}}")):
            metadata.remove(element)
    if not len(metadata):
        document.remove(metadata)


def read(document: t.Any) -> Ownership | None:
    """Our element of a parsed domain document, ``None`` where the domain is not ours."""
    ours = document.find(f"metadata/{_ELEMENT}")
    if ours is None:
        return None
    applied, previous = ours.findtext(_APPLIED) or "", ours.findtext(_PREVIOUS) or None
    echo = None if ours.find(_ECHO) is None else _mapping(ours.findtext(_ECHO))
    clear = False
    if "passwd" in applied or previous is not None and "passwd" in previous:
        # only for those that have any: each import costs every run
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import concealed

        found = (applied, previous)
        applied, previous = concealed(applied), previous and concealed(previous)
        clear = found != (applied, previous)
        # that libvirt did not show it is not that libvirt dropped it
        echo = echo and {path: value for path, value in echo.items() if not path.endswith("/@passwd")}
    return Ownership(
        cluster=ours.get("cluster", ""),
        id=ours.get("id", ""),
        protected=ours.get("protected") == "yes",
        origin=ours.get("origin", ORIGIN_LIST),
        applied=applied,
        previous=previous,
        echo=echo,
        clear=clear,
        adopted=ours.get("adopted") == "yes",
        back=ours.get("back") == "yes",
        protected_disks=tuple(element.text or "" for element in ours.iterfind(_PROTECTED_DISK)),
        pending_disks=tuple(element.text or "" for element in ours.iterfind(_PENDING_DISK)),
    )


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
    ours = parent.makeelement(f"{namespace}vm", attributes, nsmap=nsmap)

    def add(tag: str, text: str) -> None:
        child = ours.makeelement(namespace + tag, {})
        child.text = text
        ours.append(child)

    add("applied", ownership.applied)
    if ownership.previous is not None:
        add("previous", ownership.previous)
    if ownership.echo is not None:
        add("echo", json.dumps(dict(ownership.echo), sort_keys=True))
    for disk in ownership.protected_disks:
        add("protected_disk", disk)
    for path in ownership.pending_disks:
        add("pending_disk", path)
    return ours


def _mapping(text: str | None) -> dict[str, str | None]:
    """A mapping kept as JSON; somebody else's scribbling counts as none."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return {str(key): each for key, each in value.items() if each is None or isinstance(each, str)} if isinstance(value, dict) else {}
