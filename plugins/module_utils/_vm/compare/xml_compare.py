# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the wanted, last applied, defined and running documents of one domain, path by path.

Elements that neither the wanted nor the applied document contains are ignored (see :mod:`xml_rules`);
order and notation make no difference (see :mod:`xml_normal`).
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_flatten, xml_rules

_KIB = re.compile(r"\A([0-9]+) KiB\Z")
_NO_ECHO: xml_rules.Echo = {}


class Difference(t.NamedTuple):
    """A path whose value must be corrected.

    ``path`` names a value (``memory``, ``vcpu/@current``), or a whole element with one line of XML as
    its value (``devices/disk[vdb]``). ``wanted`` is ``None`` for a value to remove, ``config`` and
    ``live`` for a missing value. ``outside``: it was changed outside the collection since it was applied.
    """

    path: str
    applied: str | None
    wanted: str | None
    config: str | None
    live: str | None
    outside: bool
    config_differs: bool
    live_differs: bool


class Comparison(t.NamedTuple):
    """The differences by path, and the paths owned by a BMC emulator that are kept as found."""

    differences: tuple[Difference, ...]
    kept: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class _Five:
    """The same element in five documents."""

    wanted: xml_flatten.Node | None
    applied: xml_flatten.Node | None
    config: xml_flatten.Node | None
    live: xml_flatten.Node | None
    live_applied: xml_flatten.Node | None

    def child(self, name: str) -> _Five:
        wanted = None if self.wanted is None else self.wanted.children.get(name)
        applied = wanted if self.applied is self.wanted else None if self.applied is None else self.applied.children.get(name)
        started = wanted if self.live_applied is self.wanted else None if self.live_applied is None else self.live_applied.children.get(name)
        config = None if self.config is None else self.config.children.get(name)
        live = None if self.live is None else self.live.children.get(name)
        return _Five(wanted, applied, config, live, started)


def compare(
    wanted: t.Any, applied: t.Any | None, config: t.Any, live: t.Any | None = None, live_applied: t.Any | None = None, echo: xml_rules.Echo | None = None
) -> Comparison:
    """The differences that must be corrected.

    All documents are elements as ``xml_domain.parse`` returns them. Without ``echo`` (``None``: the changes libvirt made were not recorded)
    devices that the template does not name are ignored.

    :arg applied: the document of the last definition; ``None`` for an unmanaged domain.
    :arg live: the running configuration; ``None`` when it is off.
    :arg live_applied: the document applied when it was started; ``None`` when unknown.
    :arg echo: where the definition differed from ``applied`` right after it was defined, see :func:`echo_of`.
    """
    root = xml_flatten.Node(wanted)
    before = _node_of(applied, wanted, root)
    comparer = _Comparer(live is not None, applied is not None, live_applied is not None, _NO_ECHO if echo is None else echo, echo is not None)
    started = before if live_applied is applied else _node_of(live_applied, wanted, root)
    five = _Five(root, before, xml_flatten.Node(config), None if live is None else xml_flatten.Node(live), None if live is None else started)
    comparer.kinds = xml_rules.specified_kinds(root, before) if before is not root else xml_rules.specified_kinds(root)
    cpu = root.children.get("cpu")
    comparer.host_model = cpu is not None and cpu.attributes.get("mode") == "host-model"
    comparer.max_memory = None if live is None or five.live is None else _text(five.live.children.get("memory"))
    comparer.boot(five)
    comparer.inside("", five)
    return Comparison(tuple(sorted(comparer.found, key=lambda difference: difference.path)), tuple(sorted(set(comparer.kept))))


def _node_of(document: t.Any | None, wanted: t.Any, root: xml_flatten.Node) -> xml_flatten.Node | None:
    if document is None:
        return None
    if document is wanted or xml_flatten.LXML_ERROR is None and xml_flatten.etree.tostring(document) == xml_flatten.etree.tostring(wanted):
        return root
    return xml_flatten.Node(document)


class _Comparer:
    def __init__(self, running: bool, known: bool, start_known: bool, echo: xml_rules.Echo, echoed: bool) -> None:
        self.running = running
        self.known = known
        self.start_known = start_known
        self.echo = echo
        self.echoed = echoed
        self.host_model = False
        self.max_memory: str | None = None
        self.kinds: set[str] = set()
        self.found: list[Difference] = []
        self.kept: list[str] = []

    def boot(self, five: _Five) -> None:
        """Compare the boot order as a whole: a BMC emulator changes either of its two forms."""
        wanted, applied, config, live, started = [
            None if node is None else node.boot() or None for node in (five.wanted, five.applied, five.config, five.live, five.live_applied)
        ]
        if wanted == applied and self.known or wanted is None and not self.known:
            if wanted is not None and config != wanted:
                self.kept.append(xml_flatten.BOOT)
        else:
            self._value(xml_flatten.BOOT, wanted, applied, config, live, started)
            return
        if self.running and self.start_known and started != wanted and live not in (wanted, config):
            self._add(xml_flatten.BOOT, applied, wanted, config, live, False, False, True)

    def inside(self, path: str, five: _Five) -> None:
        """Compare an existing element with its attributes and children, as far as the template specifies them."""
        wanted, applied, config, live, started = five.wanted, five.applied, five.config, five.live, five.live_applied
        group = xml_rules.group_of(path, wanted, applied)
        skip = group if group is not None and self._is_kept(path, five, group) else _nothing
        prefix = f"{path}/" if path else ""
        specified = [node for node in _distinct(wanted, applied, started) if node is not None]
        if path:
            texts = [_text(node) for node in (wanted, applied, config, live, started)]
            if texts[0] or texts[1] or texts[4]:
                self._value(path, *texts)
        names: dict[str, None] = {}
        for node in specified:
            names.update(dict.fromkeys(node.attributes))
        for name in names:
            if not skip(f"@{name}"):
                values = [None if node is None else node.attributes.get(name) for node in (wanted, applied, config, live, started)]
                self._value(f"{prefix}@{name}", *values)
        names = {}
        for node in specified:
            names.update(dict.fromkeys(node.children))
        if path == "devices" and self.kinds and self.known and self.echoed:
            for node in (config, live):
                if node is not None:
                    names.update((name, None) for name, child in node.children.items() if xml_rules.owned_kind(name, child) in self.kinds)
        for name in names:
            if not skip(name):
                self._element(prefix + name, name, five.child(name))

    def _is_kept(self, path: str, five: _Five, group: xml_rules.Group) -> bool:
        """Whether the part of this element that a BMC emulator owns is kept as found."""
        wanted = xml_rules.parts(five.wanted, group)
        if not xml_rules.unchanged(wanted, five.wanted, five.applied, group, self.known):
            return False
        found = xml_rules.parts(five.config, group)
        for name in {**wanted, **found}:
            # values filled in by libvirt cannot be distinguished from changes, except for a medium in an empty drive
            if (name in wanted or name == "source") and self._other(f"{path}/{name}", wanted.get(name), found.get(name)):
                self.kept.append(f"{path}/{name}")
        if self.running and self.start_known and five.live_applied is not five.wanted:
            self._waiting(path, five, group)
        return True

    def _waiting(self, path: str, five: _Five, group: xml_rules.Group) -> None:
        """Values that the template changed and the running domain does not have yet."""
        wanted, config, live, started = (xml_rules.parts(node, group) for node in (five.wanted, five.config, five.live, five.live_applied))
        for name in {**wanted, **started}:
            full, mine, runs = f"{path}/{name}", wanted.get(name), live.get(name)
            if not self._differ(full, mine, started.get(name)):
                continue
            if self._differ(full, mine, runs) if mine is not None else runs is not None and name not in config:
                self._add(full, _shown(mine), _shown(mine), _shown(config.get(name)), _shown(runs), False, False, True)

    def _differ(self, path: str, one: xml_flatten.Node | str | None, other: xml_flatten.Node | str | None) -> bool:
        if one is None or other is None:
            return one is not other
        return self._other(path, one, other)

    def _other(self, path: str, applied: xml_flatten.Node | str | None, config: xml_flatten.Node | str | None) -> bool:
        """Whether a part of the definition differs from the applied one as libvirt stored it."""
        if isinstance(applied, xml_flatten.Node) and isinstance(config, xml_flatten.Node):
            inner = _Comparer(False, True, False, self.echo, False)
            inner.inside(path, _Five(applied, applied, config, None, None))
            return bool(inner.found)
        if config is None or isinstance(config, str):
            return (
                xml_rules.target(path, "", "", config, self.echo)[0]
                if isinstance(applied, xml_flatten.Node)
                else xml_rules.target(path, applied, applied, config, self.echo)[0]
            )
        return True

    def _element(self, path: str, name: str, five: _Five) -> None:
        wanted, applied, config, live, started = five.wanted, five.applied, five.config, five.live, five.live_applied
        if path == "metadata" and self.running:
            # metadata does not affect the running domain
            self._compare_definition(path, name, five)
        elif wanted is not None and config is not None:
            if self.running and live is None:
                self._missing_live(path, five)
                self._compare_definition(path, name, five)
            else:
                self.inside(path, five)
        elif wanted is not None:
            unchanged = applied is wanted or xml_flatten.same(wanted, applied)
            dropped = unchanged and path in self.echo and self.echo[path] is None
            live_differs = self._live_differs(path, five)
            if not dropped or live_differs:
                self._add(
                    path,
                    xml_flatten.shown(applied),
                    xml_flatten.shown(wanted),
                    None,
                    xml_flatten.shown(live),
                    applied is not None and not dropped,
                    not dropped,
                    live_differs,
                )
        elif applied is None and started is None:
            self._extra(path, config, live)
        elif name in xml_rules.CONTAINERS:
            self.inside(path, five)
        elif applied is not None:
            live_differs = self.running and live is not None
            if config is not None or live_differs:
                outside = config is not None and self._other(path, applied, config)
                self._add(path, xml_flatten.shown(applied), None, xml_flatten.shown(config), xml_flatten.shown(live), outside, config is not None, live_differs)
        elif config is None:
            # compared as if the domain were off: the running domain keeps it until the next start
            if self.running and live is not None:
                self._add(path, None, None, None, xml_flatten.shown(live), False, False, True)
        elif xml_rules.owned_kind(name, config) in self.kinds:
            self._extra(path, config, live)
        elif live is not None:
            self.inside(path, five)

    def _compare_definition(self, path: str, name: str, five: _Five) -> None:
        """Compare only the definition."""
        self.running = False
        self._element(path, name, five)
        self.running = True

    def _extra(self, path: str, config: xml_flatten.Node | None, live: xml_flatten.Node | None) -> None:
        if config is not None and path in self.echo:
            return
        self._add(path, None, None, xml_flatten.shown(config), xml_flatten.shown(live), True, config is not None, live is not None)

    def _missing_live(self, path: str, five: _Five) -> None:
        """An element that the definition has and the running domain has not."""
        if self._live_differs(path, five):
            outside = xml_rules.well_understood(path) and five.live_applied is not None
            self._add(path, xml_flatten.shown(five.applied), xml_flatten.shown(five.wanted), xml_flatten.shown(five.config), None, outside, False, True)

    def _live_differs(self, path: str, five: _Five) -> bool:
        """Whether a whole element of the running domain differs from the wanted one."""
        if not self.running:
            return False
        if five.live is None:
            if path in self.echo and self.echo[path] is None:
                return False
            if xml_rules.well_understood(path):
                return True
            if self.start_known:
                return not xml_flatten.same(five.wanted, five.live_applied)
            return not xml_rules.per_start(path, self.host_model)
        inner = _Comparer(True, self.known, self.start_known, self.echo, False)
        inner.host_model = self.host_model
        inner.inside(path, _Five(five.wanted, five.wanted, five.wanted, five.live, five.live_applied))
        return any(difference.live_differs for difference in inner.found)

    def _value(self, path: str, wanted: str | None, applied: str | None, config: str | None, live: str | None, started: str | None) -> None:
        if wanted is None and applied is None:
            # removed from the template long ago; the running domain may still have it
            if self.running and live is not None and config is None:
                self._add(path, None, None, None, live, False, False, True)
            return
        differs, unused = xml_rules.target(path, wanted, applied, config, self.echo)
        usual = xml_rules.expected(path, applied, self.echo)
        outside = applied is not None and config not in (applied, usual, wanted)
        live_differs = False
        if self.running and live != wanted and not (live == config and not differs):
            if xml_rules.well_understood(path) and path not in self.echo:
                # a guest started with less than its maximum memory has all of it until its balloon driver responds
                waits = started == wanted and live == _whole(self.max_memory)
                live_differs = not (path == "currentMemory" and (_whole(wanted) == live or waits))
                outside = outside or live_differs and live not in (started, applied, wanted) and started is not None
            elif self.start_known:
                live_differs = wanted != started
            else:
                live_differs = live != usual and not xml_rules.per_start(path, self.host_model)
        if differs or live_differs:
            self._add(path, applied, wanted, config, live, outside, differs, live_differs)

    def _add(self, *values: t.Any) -> None:
        self.found.append(Difference(*values))


def _nothing(name: str) -> bool:
    return False


def _distinct(*nodes: xml_flatten.Node | None) -> list[xml_flatten.Node | None]:
    found: list[xml_flatten.Node | None] = []
    for node in nodes:
        if not any(node is other for other in found):
            found.append(node)
    return found


def _text(node: xml_flatten.Node | None) -> str | None:
    return None if node is None else node.text or None


def _shown(part: xml_flatten.Node | str | None) -> str | None:
    return part if part is None or isinstance(part, str) else xml_flatten.shown(part)


def _whole(size: str | None) -> str | None:
    """A size rounded up to whole MiB, as QEMU does."""
    found = _KIB.match(size or "")
    return f"{-(-int(found.group(1)) // 1024) * 1024} KiB" if found else size


def echo_of(applied: t.Any, config: t.Any) -> dict[str, str | None]:
    """Where a definition differs from the applied document, read back right after it was defined: path → value, ``None`` for dropped elements.

    Parts owned by a BMC emulator are not recorded: libvirt does not change them, so a difference there is the emulator's.
    Devices that the template does not name, although it has others of their kind, are recorded
    too: they existed when the domain was adopted, and are kept.
    """
    root, found = xml_flatten.Node(applied), xml_flatten.Node(config)
    echo: dict[str, str | None] = {}
    kinds = xml_rules.specified_kinds(root)
    _echo("", root, found, kinds, echo)
    return echo


def _echo(path: str, applied: xml_flatten.Node, config: xml_flatten.Node, kinds: set[str], echo: dict[str, str | None]) -> None:
    prefix = f"{path}/" if path else ""
    skip = xml_rules.group_of(path, applied) or _nothing
    if applied.text and applied.text != config.text:
        echo[path] = config.text or None
    for name, value in applied.attributes.items():
        found = config.attributes.get(name)
        if found != value and not skip(f"@{name}"):
            echo[f"{prefix}@{name}"] = found
    for name, child in applied.children.items():
        other = config.children.get(name)
        if skip(name):
            continue
        if other is None:
            echo[prefix + name] = None
        else:
            _echo(prefix + name, child, other, kinds, echo)
    if path == "devices":
        for name, child in config.children.items():
            if name not in applied.children and xml_rules.owned_kind(name, child) in kinds:
                echo[prefix + name] = xml_flatten.shown(child)
