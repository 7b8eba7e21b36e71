# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Configured or derived MAC addresses of interfaces, which must be different in the copy.

A parked source keeps running on the same network. A MAC that does not come from the card (a spoofed one,
one derived from the machine-id, one of a bond or bridge) would be copied with the files. Text only.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_yaml_scan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import missing_libraries
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_interfaces_file

#: Interfaces on top of a card that may have their own MAC.
STACKED = ("bridge", "bond", "team", "vlan", "macvlan")
# derived from a key in the copied files: the same on both machines
_DERIVED = ("stable", "stable-ssid")
_OWN = "permanent"
_MAC = r"[0-9A-Fa-f]{1,2}(?:[:-][0-9A-Fa-f]{1,2}){5}|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){2}"
_WHOLE = re.compile(rf"(?:{_MAC})\Z")
#: Scripts and units that may set the MAC of an interface.
SCRIPTS = (
    "/etc/network/if-*.d/*",
    "/etc/NetworkManager/dispatcher.d/*",
    "/etc/networkd-dispatcher/*/*",
    "/etc/rc.local",
    "/etc/rc.d/rc.local",
    "/etc/systemd/system/*.service",
)
# in a command: the interface before or after its MAC
_INTERFACE = re.compile(r"\b(?:set\s+(?:dev\s+)?|ifconfig\s+|dev\s+)([^\s$%\"']+)|\s([a-z][\w.-]*)\s*(?:$|[;&|\"'])")
# not lladdr, which is the MAC of another machine
_COMMAND = re.compile(rf"(?:\b(?:address|hw\s+ether)|\bmacchanger\b.*?\s(?:--mac|-m)[= ]?)\s*({_MAC})\b")


class Setting(t.NamedTuple):
    """A MAC setting in a file, with the interface's ``name`` or its permanent MAC (``match``) if the file has them."""

    name: str | None
    match: str | None
    value: str
    start: int
    end: int


class StackChange(t.NamedTuple):
    """An interface on top of a card with its own MAC on the source, and its new MAC."""

    name: str
    old_mac: str
    new_mac: str


def normal(mac: str) -> str | None:
    """Return a MAC in lower case with colons, ``None`` for an invalid one."""
    if not _WHOLE.match(mac):
        return None
    if "." in mac:
        digits = mac.replace(".", "")
    else:
        digits = "".join(part.zfill(2) for part in re.split("[:-]", mac))
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2)).lower()


def generated(old: str, base: str) -> str:
    """Return the replacement of a MAC whose card is unknown; the same in every run, and not replaced again."""
    return f"{_tag(base)}:{_hash(old)}"


def is_generated(mac: str, base: str) -> bool:
    """Whether a MAC was created by :func:`generated`."""
    return mac.startswith(_tag(base) + ":")


def _tag(base: str) -> str:
    # locally administered, specific to one machine
    return "0a:" + _hash(base)[:5]


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ":".join(digest[at : at + 2] for at in (0, 2, 4))


def settings(path: str, text: str) -> list[Setting]:
    """Return all MAC settings of a network manager's file, without those that only match a MAC."""
    if is_script(path):
        return _script(text)
    if path.startswith("/etc/netplan/"):
        return _netplan(text)
    if path.startswith("/etc/systemd/network/"):
        return _ini(text, {("link", "macaddress"), ("netdev", "macaddress"), ("peer", "macaddress")})
    if path.startswith("/etc/NetworkManager/"):
        return _ini(text, None)
    if path.startswith("/etc/network/"):
        return _ifupdown(text)
    if path.startswith("/etc/sysconfig/network-scripts/"):
        return _ifcfg(text)
    if path.startswith("/etc/udev/rules.d/"):
        return _udev(text)
    return []


def is_script(path: str) -> bool:
    """Whether a file is one of :data:`SCRIPTS`."""
    return any(fnmatch.fnmatchcase(path, each) for each in SCRIPTS)


def names_mac(text: str) -> bool:
    """Whether a text contains a MAC."""
    return re.search(rf"\b(?:{_MAC})\b", text) is not None


def _netplan(text: str) -> list[Setting]:
    found, matches = [], {}
    try:
        scalars = model_yaml_scan.scalars(text)
    except ImportError as error:
        raise missing_libraries("yaml") from error
    except ValueError:
        # netplan ignores it, too
        return []
    for keys, start, end in scalars:
        value = text[start:end].strip("\"'")
        if keys[-2:] == ("match", "macaddress") and len(keys) > 2:
            matches[keys[-3]] = value
        elif keys[-1:] == ("macaddress",) and len(keys) > 1:
            found.append((keys[-2], value, start, end))
    return [Setting(name, matches.get(name), value, start, end) for name, value, start, end in found]


def _lines(text: str) -> t.Iterator[tuple[int, str]]:
    position = 0
    for line in text.splitlines(keepends=True):
        yield position, line
        position += len(line)


def _ini(text: str, wanted: t.Collection[tuple[str, str]] | None) -> list[Setting]:
    """MAC settings of systemd (``wanted``: section and key) or of NetworkManager."""
    section, name, match, found = "", None, None, []
    for position, line in _lines(text):
        head = re.match(r"\s*\[([^\]]*)\]", line)
        given = re.match(r"\s*([^=\s#;][^=]*?)\s*=[ \t]*([^\s#;]*)", line)
        if head:
            section = head.group(1).lower()
        elif given:
            key, value = given.group(1).lower(), given.group(2)
            if (section, key) in (("match", "name"), ("match", "originalname"), ("netdev", "name"), ("connection", "interface-name")):
                name = value
            elif (section, key) in (("match", "macaddress"), ("match", "permanentmacaddress")) or key == "mac-address" and section != "bridge":
                match = value
            elif (section, key) in wanted if wanted else key.split(".")[-1] == "cloned-mac-address" or (section, key) == ("bridge", "mac-address"):
                found.append((value, position + given.start(2), position + given.end(2)))
    return [Setting(name, match, *each) for each in found]


def _ifupdown(text: str) -> list[Setting]:
    name, found = None, []
    for position, line in _lines(text):
        words = line.split()
        if words[:1] and words[0] in model_interfaces_file.BEGINNINGS:
            name = words[1] if words[0] == "iface" and len(words) > 1 else None
        given = re.match(r"\s*(?:hwaddress(?:[ \t]+ether)?|bridge[_-]hw)[ \t]+(\S+)", line)
        if given is None and words[:1] and words[0] in ("up", "pre-up", "post-up", "down", "pre-down", "post-down"):
            given = _COMMAND.search(line)
        if given:
            found.append(Setting(name, None, given.group(1), position + given.start(1), position + given.end(1)))
    return found


def _script(text: str) -> list[Setting]:
    found = []
    for position, line in _lines(text):
        for given in _COMMAND.finditer(line) if not line.lstrip().startswith(("#", ";")) else ():
            name = _INTERFACE.search(line)
            found.append(Setting(name and (name.group(1) or name.group(2)), None, given.group(1), position + given.start(1), position + given.end(1)))
    return found


def _ifcfg(text: str) -> list[Setting]:
    values = {each.group(1): each for each in re.finditer(r"(?m)^\s*(DEVICE|HWADDR|MACADDR|GENERATE_MAC_ADDRESS)=[\"']?([^\s\"'#]*)", text)}
    name, match = (values[key].group(2) if key in values else None for key in ("DEVICE", "HWADDR"))
    return [Setting(name, match, values[key].group(2), *values[key].span(2)) for key in ("MACADDR", "GENERATE_MAC_ADDRESS") if key in values]


def _udev(text: str) -> list[Setting]:
    found = []
    for position, line in _lines(text):
        if line.lstrip().startswith("#"):
            continue
        name = re.search(r'NAME=(?!=)"([^"]*)"', line) or re.search(r'(?:KERNEL|NAME)=="([^"]*)"', line)
        match = re.search(r'ATTRS?\{address\}=="([^"]*)"', line)
        places = [_COMMAND.search(line, each.start()) for each in re.finditer(r"RUN\b|PROGRAM\b", line)]
        places.append(re.search(r'ATTR\{address\}:?=(?!=)"([^"]*)"', line))
        spans = {each.span(1): each.group(1) for each in places if each}
        found += [Setting(name and name.group(1), match and match.group(1), value, position + a, position + b) for (a, b), value in spans.items()]
    return found


class Macs:
    """The mapping of old to new MACs.

    :arg cards: name, permanent MAC, current MAC (or empty), and the MAC of the replacing card.
    """

    def __init__(self, cards: t.Sequence[tuple[str, str, str, str]], stacked: t.Sequence[StackChange] = ()) -> None:
        self.new = {new for unused, unused_own, unused_worn, new in cards}
        self.base = min(self.new, default="")
        self.by_name = {name: new for name, unused, unused_worn, new in cards} | {each.name: each.new_mac for each in stacked}
        self.by_mac: dict[str, str] = {}
        for old, new in [(own, new) for unused, own, unused_worn, new in cards] + [(worn, new) for unused, unused_own, worn, new in cards]:
            if old:
                self.by_mac.setdefault(old.lower(), new)
        for each in stacked:
            self.by_mac.setdefault(each.old_mac.lower(), each.new_mac)

    def of(self, setting: Setting) -> str:
        """Return the new value of a setting; the old value when it needs no change."""
        if setting.value.lower() in _DERIVED:
            return _OWN
        old = normal(setting.value)
        if old is None or not self.base or old in self.new or is_generated(old, self.base):
            return setting.value
        known = (self.by_name.get(setting.name or ""), self.by_mac.get(normal(setting.match or "") or ""), self.by_mac.get(old))
        return next(filter(None, known), None) or generated(old, self.base)

    def learn(self, tree: t.Mapping[str, str]) -> list[tuple[str, str, str]]:
        """Return path, old and new value of every setting that changes, and map the old MACs for other files."""
        changes = []
        for path, text in sorted(tree.items()):
            for setting in settings(path, text):
                new, old = self.of(setting), normal(setting.value)
                if new != setting.value:
                    changes.append((path, setting.value, new))
                    if old is not None:
                        self.by_mac.setdefault(old, new)
        return changes

    def fix(self, path: str, text: str) -> str:
        """Return a file with new MACs instead of the source's; outside of settings their separators are kept."""
        for setting in sorted(settings(path, text), key=lambda each: -each.start):
            new = self.of(setting)
            if new != setting.value:
                quote = text[setting.start] if text[setting.start] in "\"'" else ""
                text = f"{text[: setting.start]}{quote}{new}{quote}{text[setting.end :]}"
        for old, new in self.by_mac.items():
            for separator in (":", "-"):
                pattern = re.escape(old.replace(":", separator))
                text = re.sub(rf"(?i)(?<![0-9a-f]){pattern}(?![0-9a-f])", new.replace(":", separator), text)
        return text
