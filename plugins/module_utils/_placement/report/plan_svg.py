# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Draw the report of a plan: servers as boxes, VMs in them with a height proportional to their memory.

The SVG is self-contained: it has no scripts, fonts or references to files.
"""

from __future__ import annotations

import html
import textwrap
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

_PALETTE = (
    ("#cfe3f7", "#2f6ea5"), ("#d5ecd2", "#3f7d3a"), ("#fde3c0", "#b36b00"), ("#e6dbf3", "#6b4a9b"),
    ("#f8d7dc", "#a8485a"), ("#d3eeee", "#2d7f80"), ("#f3efc4", "#857a1c"), ("#eadccf", "#80583a"),
)  # fmt: skip
_OTHER = ("#e7e9ec", "#6b7480")
_OTHERS = "other"
_MARK_COLOURS = {"red": "#c62828", "amber": "#e08a00", "green": "#2e7d32"}
_MARK_WORDS = {
    "red": "if this server is lost, the control plane stops",
    "amber": "if it is lost, the quorum is kept, but a service is down or its VMs fit on no other server",
    "green": "if it is lost, all services continue, and its VMs fit on other servers",
}
_GRADE_MARK = {"quorum": "green", "restart": "amber", "none": "red"}
_STYLE = (
    "text{font-family:sans-serif;fill:#1f2933}.t{font-size:20px;font-weight:bold}.h{font-size:14px;font-weight:bold}"
    ".s{font-size:11px}.n{font-size:11px;fill:#52606d}.metal{fill:#f4f6f8;stroke:#51606f;stroke-width:1.5}"
    ".room{fill:#fff;stroke:#9aa5b1}.host{fill:#dde2e7}.move{stroke-dasharray:4 3;stroke-width:2}.gone{fill:#fff;stroke:#c62828;stroke-dasharray:5 4}"
)

_MARGIN, _GAP = 24, 16
_HEAD, _FOOT = 46, 42
_LINE = 15
_MOST_HIGH, _LEAST_HIGH = 420, 130
_MOST_UNPLACED = 12


def plan_svg(report: t.Mapping[str, t.Any]) -> str:
    """Return the report as the text of an SVG file."""
    servers = report["servers"]
    columns, width = _grid(len(servers))
    canvas = max(_MARGIN * 2 + columns * width + (columns - 1) * _GAP, 720)
    entries = {entry["name"]: entry for entry in report["placements"]}
    colours = _colours(report["placements"])
    scale = _scale(servers, entries)
    parts, y = _title(report, canvas)
    legend, y = _legend(colours, report, y, canvas)
    parts += legend
    for start in range(0, len(servers), columns):
        row = servers[start : start + columns]
        # the height of a row is that of its largest server
        box = _HEAD + max([30.0, *(server["memory_mib"]["total"] * scale for server in row if server["carries"])]) + _FOOT
        for column, server in enumerate(row):
            parts.append("".join(_server(server, entries, colours, scale, _MARGIN + column * (width + _GAP), y, width, box)))
        y += box + _GAP
    bottom, y = _unplaced(report, y, canvas)
    parts += bottom
    height = round(y + 8)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {canvas} {height}" width="{canvas}" height="{height}" role="img">'
    words = html.escape(f"Plan for cluster {report['cluster']}, high availability: {report['ha_grade']}")
    back = f'<rect width="{canvas}" height="{height}" fill="#fff"/>'
    return "\n".join([head, f"<title>{words}</title>", f"<style>{_STYLE}</style>", back, *parts, "</svg>", ""])


def _grid(count: int) -> tuple[int, int]:
    """Return the number of columns and the width of each."""
    if count <= 3:
        return max(1, count), 300
    if count <= 8:
        return 4, 250
    return (6, 190) if count <= 60 else (10, 170)


def _scale(servers: t.Sequence[t.Mapping[str, t.Any]], entries: t.Mapping[str, t.Mapping[str, t.Any]]) -> float:
    """Return pixels per MiB, so that small VMs have a line of text if the largest server fits on the page."""
    largest = max((server["memory_mib"]["total"] for server in servers if server["carries"]), default=1)
    smallest = min((entry["memory_mib"] for entry in entries.values()), default=largest)
    return min(_MOST_HIGH / largest, max(_LEAST_HIGH / largest, (_LINE + 2) / smallest))


def _colours(placements: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, tuple[str, str]]:
    """Return a colour for each of the largest groups; the others share one."""
    count: dict[str, int] = {}
    for entry in placements:
        count[_group(entry)] = count.get(_group(entry), 0) + 1
    names = sorted((name for name in count if name != _OTHERS), key=lambda name: (-count[name], name))[: len(_PALETTE)]
    found = dict(zip(sorted(names), _PALETTE))
    if len(found) < len(count):
        found[_OTHERS] = _OTHER
    return found


def _group(entry: t.Mapping[str, t.Any]) -> str:
    return next(iter([*entry["roles"], *entry["anti_affinity"]]), _OTHERS)


def _title(report: t.Mapping[str, t.Any], canvas: float) -> tuple[list[str], float]:
    parts = [_text(_MARGIN, 36, f"Plan for cluster {report['cluster']}", "t")]
    parts += [_mark(_GRADE_MARK[report["ha_grade"]], _MARGIN + 8, 58, "")]
    y = 62.0
    for words in (f"High availability {report['ha'][0]}", *report["ha"][1:]):
        for line in textwrap.wrap(words, int((canvas - _MARGIN * 2 - 24) / 6.1)):
            parts.append(_text(_MARGIN + 24, y, line, "s"))
            y += _LINE
    return parts, y + 4


def _legend(colours: t.Mapping[str, tuple[str, str]], report: t.Mapping[str, t.Any], y: float, canvas: float) -> tuple[list[str], float]:
    parts: list[str] = []
    x = float(_MARGIN)
    names = [*colours.items()]
    if any(entry["action"] == "move" for entry in report["placements"]):
        names.append(("moves here", ("#fff", "#1f2933")))
    names += [("reserved for the host and others", ("#dde2e7", "#dde2e7")), ("free for VMs", ("#fff", "#9aa5b1"))]
    for name, (fill, line) in names:
        wide = 24 + _wide(name) + 14
        if x + wide > canvas - _MARGIN:
            x, y = float(_MARGIN), y + 20
        dashed = ' class="move"' if name == "moves here" else ""
        parts.append(f'<rect x="{_n(x)}" y="{_n(y)}" width="18" height="12" rx="2" fill="{fill}" stroke="{line}"{dashed}/>')
        parts.append(_text(x + 24, y + 10, name, "s"))
        x += wide
    y += 24
    for name, words in _MARK_WORDS.items():
        parts.append(_mark(name, _MARGIN + 8, y + 4, ""))
        parts.append(_text(_MARGIN + 24, y + 8, words, "n"))
        y += 18
    return parts, y + 10


def _server(
    server: t.Mapping[str, t.Any], entries: t.Mapping[str, t.Any], colours: t.Mapping[str, tuple[str, str]],
    scale: float, x: float, y: float, width: float, height: float,
) -> list[str]:  # fmt: skip
    lost, memory = server["lost"], server.get("memory_mib")
    parts = [f'<g><rect class="metal" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}" rx="6"/>']
    parts.append(_mark(lost["severity"], x + 16, y + 16, lost["sentence"]))
    parts.append(_text(x + 32, y + 21, _cut(server["name"], width - 42, 8), "h"))
    parts.append(_text(x + 32, y + 37, _cut(_subtitle(server), width - 42), "n"))
    base = y + height - _FOOT
    if memory and server["carries"]:
        total = memory["total"] * scale
        parts.append(f'<rect class="room" x="{_n(x + 8)}" y="{_n(base - total)}" width="{_n(width - 16)}" height="{_n(total)}"/>')
        kept = (memory["total"] - memory["limit"]) * scale
        level = base - kept
        if kept >= 0.5:
            words = f"{_size(memory['total'] - memory['limit'])} reserved for the host and others"
            parts.append(f'<rect class="host" x="{_n(x + 8)}" y="{_n(level)}" width="{_n(width - 16)}" height="{_n(kept)}"><title>{words}</title></rect>')
        for name in server["vms"]:
            entry = entries[name]
            high = entry["memory_mib"] * scale
            level -= high
            parts += _vm(entry, colours, x + 8, level, width - 16, high)
    elif server["wanted_by"]:
        parts.append(_text(x + 12, base - 10, _cut(f"assigned whole to {server['wanted_by']}", width - 24), "s"))
    elif server["vms"]:
        parts.append(_text(x + 12, base - 10, _cut(", ".join(server["vms"]), width - 24), "s"))
    parts.append(_text(x + 10, base + 16, _load(server, width - 18), "n"))
    parts.append(_text(x + 10, base + 32, _cut(_if_lost(server), width - 18), "s"))
    return [*parts, "</g>"]


def _subtitle(server: t.Mapping[str, t.Any]) -> str:
    return ", ".join(server["roles"]) or "no roles"


def _load(server: t.Mapping[str, t.Any], width: float) -> str:
    """Return what the VMs use of a server: ``18 of 63 GiB, 8 of 64 vCPUs``, in a narrow box ``18/63 GiB, 8/64 vCPUs``."""
    memory, vcpus = server.get("memory_mib"), server.get("vcpus")
    if not memory:
        return "not measured"
    if not server["carries"]:
        return _cut(f"{_size(memory['total'])}, {vcpus['cpus']} CPUs", width)
    long, short = (f"{_share(memory['used'], memory['limit'], of)}, {vcpus['used']}{of}{vcpus['limit']} vCPUs" for of in (" of ", "/"))
    return long if _wide(long) <= width else _cut(short, width)


def _share(used: int, limit: int, of: str) -> str:
    """Return ``18 of 63 GiB``, with both units only if they differ."""
    few, many = _size(used), _size(limit)
    number, unused, unit = few.partition(" ")
    return f"{number}{of}{many}" if not unit or many.endswith(f" {unit}") else f"{few}{of}{many}"


def _if_lost(server: t.Mapping[str, t.Any]) -> str:
    """Return the effect of losing a server as short text below its box."""
    lost = server["lost"]
    if lost["quorums_lost"]:
        return f"lost: {', '.join(lost['quorums_lost'])} stops"
    if lost["services_down"]:
        return f"lost: {', '.join(lost['services_down'])} down"
    if lost["stuck"]:
        return f"lost: no capacity for {', '.join(lost['stuck'])}"
    return "lost: services continue" if server["vms"] else "lost: nothing stops"


def _vm(entry: t.Mapping[str, t.Any], colours: t.Mapping[str, tuple[str, str]], x: float, y: float, width: float, height: float) -> list[str]:
    group = _group(entry)
    fill, line = colours.get(group) or colours[_OTHERS]
    moved = entry["action"] == "move"
    words = html.escape(f"{entry['name']}: {_size(entry['memory_mib'])}, {entry['vcpus']} vCPUs, {entry['hypervisor']}; {entry['reason']}")
    style = ' class="move"' if moved else ""
    gap = 1 if height > 4 else 0
    parts = [
        f'<rect x="{_n(x + 2)}" y="{_n(y + gap / 2)}" width="{_n(width - 4)}" height="{_n(max(height - gap, 0.5))}" rx="{2 if height > 8 else 0}" '
        f'fill="{fill}" stroke="{line}"{style}><title>{words}</title></rect>'
    ]
    if height >= 12:
        size = _size(entry["memory_mib"])
        name = entry["name"] + (f" from {entry['previous']}" if moved else "")
        parts.append(_text(x + 8, y + min(height / 2 + 4, 16), _cut(name, width - 24 - _wide(size)), "s"))
        parts.append(f'<text class="n" x="{_n(x + width - 8)}" y="{_n(y + min(height / 2 + 4, 16))}" text-anchor="end">{size}</text>')
    return parts


def _unplaced(report: t.Mapping[str, t.Any], y: float, canvas: float) -> tuple[list[str], float]:
    """Return what has no server, and a change that would help."""
    missing = [(one["name"], one["reasons"][0]) for one in report["unplaced"]]
    missing += [(one["name"], one["reason"]) for one in report["wanted"] if not one["server"]]
    if not missing:
        return [], y
    rows = [f"{name}: {why}" for name, why in missing[:_MOST_UNPLACED]]
    if len(missing) > _MOST_UNPLACED:
        rows.append(f"and {len(missing) - _MOST_UNPLACED} more")
    if report["changes"]:
        rows.append(f"All VMs would fit after this change: {report['changes'][0]}")
    high = 34 + len(rows) * _LINE
    parts = [f'<rect class="gone" x="{_MARGIN}" y="{_n(y)}" width="{_n(canvas - _MARGIN * 2)}" height="{high}" rx="6"/>']
    parts.append(_text(_MARGIN + 12, y + 20, "Without a server", "h"))
    parts += [_text(_MARGIN + 12, y + 38 + index * _LINE, _cut(row, canvas - _MARGIN * 2 - 24), "s") for index, row in enumerate(rows)]
    return parts, y + high + _GAP


def _mark(kind: str, x: float, y: float, words: str) -> str:
    """Draw a mark that differs in shape and colour."""
    colour = _MARK_COLOURS[kind]
    title = f"<title>{html.escape(words)}</title>" if words else ""
    if kind == "green":
        shape = f'<circle cx="{_n(x)}" cy="{_n(y)}" r="8" fill="{colour}"/>'
        sign = f'<path d="M{_n(x - 4)} {_n(y)}l3 3l5-6" fill="none" stroke="#fff" stroke-width="2"/>'
    elif kind == "amber":
        shape = f'<path d="M{_n(x)} {_n(y - 9)}l9 16h-18z" fill="{colour}"/>'
        sign = f'<path d="M{_n(x)} {_n(y - 3)}v5m0 1.500v2" stroke="#fff" stroke-width="2"/>'
    else:
        shape = f'<rect x="{_n(x - 8)}" y="{_n(y - 8)}" width="16" height="16" rx="2" fill="{colour}"/>'
        sign = f'<path d="M{_n(x - 4)} {_n(y - 4)}l8 8m0-8l-8 8" stroke="#fff" stroke-width="2"/>'
    return f"<g>{title}{shape}{sign}</g>"


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{html.escape(words)}</text>'


def _wide(words: str, letter: float = 6.1) -> float:
    return len(words) * letter


def _cut(words: str, width: float, letter: float = 6.1) -> str:
    most = max(1, int(width / letter))
    return words if len(words) <= most else f"{words[: most - 1].rstrip()}…"


def _n(number: float) -> str:
    """Return a number as short text, the same on every machine."""
    return f"{number:.1f}".rstrip("0").rstrip(".")


def _size(mib: int) -> str:
    return size_text(mib * MIB) if mib > 0 else "0"
