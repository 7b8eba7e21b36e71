# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status report as one HTML page, for people who would rather look at it than read it.

The page is self-contained: it has no fonts or references to files. All values are escaped. Its only script, which contains none of them, marks a page that
is old; without scripts it shows its time alone.
"""

from __future__ import annotations

import html
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

#: Minutes after which a page is stale: three runs of a timer of five minutes are missing.
_STALE = 15
_SCRIPT = f"""
var time = document.querySelector("time");
function age() {{
  var minutes = Math.floor((Date.now() - Date.parse(time.dateTime)) / 60000);
  if (!(minutes >= {_STALE})) return;
  document.body.className = "stale";
  document.getElementById("age").textContent = "Stale: " + (minutes < 120 ? minutes + " minutes" : Math.floor(minutes / 60) + " hours") + " old. ";
}}
age();
setInterval(age, 30000);
"""
_STYLE = """
:root{color-scheme:light}
body{font:15px/1.45 sans-serif;color:#1f2933;background:#f4f6f8;margin:0 auto;padding:16px 24px;max-width:1200px}
h1{font-size:24px;margin:8px 0;padding-top:8px;border-top:6px solid #52606d}h1.ok{border-color:#2e7d32}h1.wip{border-color:#2f6ea5}
h1.degraded{border-color:#9a5b00}h1.down{border-color:#c62828}h2{font-size:18px;margin:28px 0 8px}h3{font-size:16px;margin:0}
.mark{display:inline-block;padding:0 8px;border-radius:4px;font-size:13px;font-weight:bold;color:#fff;background:#52606d}
.mark.ok{background:#2e7d32}.mark.wip{background:#2f6ea5}.mark.degraded,.mark.note{background:#9a5b00}.mark.down{background:#c62828}
.servers{display:flex;flex-wrap:wrap;gap:16px}
.server{flex:1 1 260px;max-width:380px;box-sizing:border-box;background:#fff;border:1.5px solid #51606f;border-radius:6px;padding:12px;
display:flex;flex-direction:column}
.server.down{border-color:#c62828;border-style:dashed}
.vms{list-style:none;margin:auto 0 8px;padding:8px 0 0}
.vm{box-sizing:border-box;border:1px solid #3f7d3a;background:#d5ecd2;border-radius:4px;padding:4px 8px;margin-top:4px;overflow-wrap:anywhere}
.vm.down{border-color:#c62828;background:#f8d7dc}.vm.note{border-color:#b36b00;background:#fde3c0}
.vm.moved{border:1px dashed #6b7480;background:#e7e9ec}
small,.loss,.none{font-size:13px;color:#46525e}.loss{margin:4px 0 0}
table{border-collapse:collapse;width:100%;background:#fff}
th,td{border:1px solid #c5ced6;padding:4px 8px;text-align:left;vertical-align:top;overflow-wrap:anywhere}th{background:#e4e9ed}
pre{background:#fff;border:1px solid #c5ced6;padding:8px;white-space:pre-wrap;overflow-wrap:anywhere}
body.stale{background:#e2e2e2}.stale h1 .mark,.stale .servers,.stale table{filter:grayscale(1)}#age{color:#c62828;font-weight:bold}
@media(max-width:600px){body{padding:8px 12px}.server{max-width:none}table,tbody,tr,td{display:block;width:auto}tr:first-child{display:none}
tr{border:1px solid #c5ced6;margin-top:8px}td{border:0}}
"""
#: Pixels per GiB, and the limits of the height of a VM.
_SCALE, _LOW, _HIGH = 14, 30, 170


def status_html(report: t.Mapping[str, t.Any], title: str = "", time: str = "") -> str:
    """Return the page of a report of :func:`plan_status.build_status`.

    :arg title: name of the footprint, such as that of its cluster.
    :arg time: time of the report.
    """
    name = _text(f"Status of {title}" if title else "Status")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">',
        # the file may be written again
        '<meta http-equiv="refresh" content="60">',
        f"<title>{name}: {_text(report['state'])}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f'<h1 class="{_text(report["state"])}">{name} {_mark(report["state"])}</h1>',
        f"<p>{_summary(report, time)}</p>",
        *_placement(report),
        *_services(report),
        *_drift(report),
        f"<h2>All findings</h2>\n<pre>{_text(chr(10).join(report['lines']) or 'none')}</pre>",
        *([f"<script>{_SCRIPT}</script>"] if time else []),
        "</body>\n</html>\n",
    ]
    return "\n".join(parts)


def _summary(report: t.Mapping[str, t.Any], time: str) -> str:
    servers, vms = report["servers"], report["vms"]
    count = f"{servers['reachable']} of {servers['all']} servers answer, {vms['running']} of {vms['all']} virtual machines are running."
    moment = _text(time.replace(" UTC", "Z").replace(" ", "T"))
    return f'<span id="age"></span>{count} As of <time datetime="{moment}">{_text(time)}</time>.' if time else count


def _placement(report: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    yield "<h2>Placement</h2>"
    if report["ha"]:
        yield f"<p>High availability {_text(report['ha'][0])}.</p>"
    yield '<div class="servers">'
    for server in report["placement"]:
        state = "down" if server["error"] else "degraded" if any(_kind(vm) == "down" for vm in server["vms"]) else "ok"
        yield f'<section class="server {state}">\n<h3>{_text(server["name"])} {_mark(state)}</h3>'
        if server["error"]:
            yield f"<small>{_text(server['error'])}</small>"
        if server["services"]:
            yield f"<small>{_text(', '.join(server['services']))}</small>"
        if not server["error"]:
            yield f"<small>{_text(_room(server))}</small>"
        yield '<ul class="vms">'
        yield from (_vm(vm) for vm in server["vms"])
        yield "</ul>"
        if server["loss"]:
            yield f'<p class="loss">{_text(server["loss"])}</p>'
        yield "</section>"
    yield "</div>" if report["placement"] else '</div>\n<p class="none">The inventory has no servers with virtual machines.</p>'


def _room(server: t.Mapping[str, t.Any]) -> str:
    sizes = [("memory", server["memory"]), *((f"pool {pool['name']}", pool) for pool in server["pools"] or () if pool["active"])]
    unknown = [f"{name}: unknown" for name in ("memory", "pools") if server[name] is None]
    return ", ".join([f"{name}: {size_text(size['free_bytes'])} of {size_text(size['size_bytes'])} free" for name, size in sizes if size] + unknown)


def _vm(vm: t.Mapping[str, t.Any]) -> str:
    """Return a box with a height proportional to the memory of the VM."""
    notes = [vm["state"], *(["changed outside"] if vm["drift"] else []), *(["requires a restart"] if vm["pending"] else [])]
    if vm["moved"]:
        notes = [f"old copy, moved to {vm['moved']}"]
    size = [size_text(vm["memory_mib"] * MIB)] if vm["memory_mib"] else []
    size += [f"{vm['cpu']} vCPUs"] if vm["cpu"] else []
    words = "; ".join(filter(None, [", ".join([*size, *filter(None, [vm["hypervisor"]])]), ", ".join(notes), ", ".join(vm["services"])]))
    high = min(_HIGH, max(_LOW, round(vm["memory_mib"] / 1024 * _SCALE)))
    return f'<li class="vm {_kind(vm)}" style="min-height:{high}px"><b>{_text(vm["name"])}</b> <small>{_text(words)}</small></li>'


def _kind(vm: t.Mapping[str, t.Any]) -> str:
    if vm["moved"]:
        return "moved"
    if vm["state"] != "running":
        return "down"
    return "note" if vm["drift"] or vm["pending"] else "ok"


def _services(report: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    rows = [
        [_text(name), _mark(one["state"]), "<br>".join(_members(one)), "<br>".join(_text(words) for words in _details(one))]
        for name, one in report["services"].items()
    ]
    yield "<h2>Services</h2>"
    yield _table(("service", "state", "members", "details"), rows) if rows else '<p class="none">No service of the control plane is installed.</p>'


def _members(one: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    for host, member in one["members"].items():
        yield f"{_mark(member['state'])} {_text(': '.join(filter(None, [host, ', '.join(member['why'])])))}"


def _details(one: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    yield from one["why"]
    yield from (f"clients of {name} are sent to {member}" for name, member in one["writer"].items())
    yield from (f"{address} is on {' and '.join(names) or 'no host'}" for address, names in one["virtual_addresses"].items())
    yield from filter(None, [one["position"], one["clear"]])
    yield from one["links"]


def _drift(report: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    rows = []
    for server in report["placement"]:
        for vm in server["vms"]:
            for key, words in (("drift", "changed outside of this collection; spawn_vms restores it"), ("pending", "takes effect after a restart")):
                if vm[key]:
                    rows.append([_text(vm["name"]), _text(server["name"]), _text(words), _text(", ".join(vm[key]))])
    yield "<h2>Drift</h2>"
    yield _table(("virtual machine", "server", "finding", "paths"), rows) if rows else '<p class="none">No virtual machine differs from its definition.</p>'


def _table(heads: t.Sequence[str], rows: t.Sequence[t.Sequence[str]]) -> str:
    """Return a table; cells are HTML already."""
    head = "".join(f"<th>{_text(name)}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def _mark(state: str) -> str:
    return f'<span class="mark {_text(state)}">{_text(state)}</span>'


def _text(words: t.Any) -> str:
    return html.escape(str(words))
