# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a bridge takes over a port, in the words of what manages the host's network (X8)."""

from __future__ import annotations

import os
import re

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.network import Change

_NETWORKD_ETC = "/etc/systemd/network"
_NETWORKD_RUN = "/run/systemd/network"
_PREFIX = "00-reduced-footprint"
_TRIAL_INTERFACES = "/run/reduced.footprint/interfaces-{bridge}"


def networkd_change(bridge: str, port: str, mac: str, path: str, text: str) -> Change:
    """The bridge gets a copy of the port's configuration, the port a file that sorts before its own.

    Nothing of the user's is edited: removing our three files is the way back.

    :arg path: the file networkd configured the port from; ``text`` its content with drop-ins.
    :raises RefusedError: the port's own file would still come first, or puts it somewhere already.
    """
    if os.path.basename(path) < f"{_PREFIX}-":
        raise RefusedError(f"{path} comes before any file this collection writes.", "port", f"Rename it so that it sorts after {_PREFIX}.")
    sections = _sections(text)
    network = [line for name, lines in sections if name == "Network" for line in lines]
    for line in network:
        if re.match(r"\s*(Bridge|Bond|VRF|BatmanAdvanced)\s*=", line):
            raise RefusedError(f"{port} already belongs elsewhere: {line.strip()} in {path}.", "port", "Name another port, or undo that first.")
    link = [line for name, lines in sections if name == "Link" for line in lines if not re.match(r"\s*MACAddress\s*=", line)]
    rest = [f"[{name}]\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections if name not in ("Match", "Link")]
    head = f"# Made by reduced.footprint: {bridge} takes over {port}; its addresses come from {path}\n"
    link_text = "\n[Link]\n" + "".join(f"{line}\n" for line in link) if link else ""
    texts = {
        f"{_PREFIX}-{bridge}.netdev": f"{head}[NetDev]\nName={bridge}\nKind=bridge\nMACAddress={mac}\n\n[Bridge]\nSTP=no\nForwardDelaySec=0\n",
        f"{_PREFIX}-{bridge}.network": f"{head}[Match]\nName={bridge}\n{link_text}\n" + "\n".join(rest),
        f"{_PREFIX}-{port}.network": f"{head}[Match]\nName={port}\n{link_text}\n[Network]\nBridge={bridge}\nLinkLocalAddressing=no\n",
    }
    return Change(
        manager="networkd",
        trial={f"{_NETWORKD_RUN}/{name}": content for name, content in texts.items()},
        keep={f"{_NETWORKD_ETC}/{name}": content for name, content in texts.items()},
        apply=(("networkctl", "reload"), ("networkctl", "reconfigure", port)),
        revert=(("ip", "link", "delete", "dev", bridge), ("networkctl", "reload"), ("networkctl", "reconfigure", port)),
    )


def ifupdown_change(bridge: str, port: str, mac: str, path: str, text: str) -> Change:
    """The port's stanzas become the bridge's, the port itself is left to the bridge.

    :arg path: the file with the port's stanza; ``text`` its content.
    """
    stanzas = _stanzas(text)
    kept: list[str] = []
    moved: list[str] = []
    for stanza in stanzas:
        words = stanza[0].split()
        if words[:1] == ["iface"] and words[1:2] == [port]:
            first = not moved
            moved.append(re.sub(rf"\b{re.escape(port)}\b", bridge, stanza[0], count=1))
            moved += [line for line in stanza[1:] if line.strip()]
            if first:
                moved += [f"    bridge_ports {port}", "    bridge_stp off", "    bridge_fd 0", f"    bridge_hw {mac}"]
            moved.append("")
        elif words and (words[0] == "auto" or words[0].startswith("allow-")) and port in words[1:]:
            others = [word for word in words[1:] if word != port]
            if others:
                kept.append(" ".join([words[0]] + others))
            kept += stanza[1:]
        else:
            kept += stanza
    ours = [f"# Made by reduced.footprint: {bridge} takes over {port}", f"auto {bridge}"] + moved + [f"iface {port} inet manual", ""]
    trial = _TRIAL_INTERFACES.format(bridge=bridge)
    while kept and not kept[-1].strip():
        kept.pop()
    return Change(
        manager="ifupdown",
        trial={trial: "\n".join(ours)},
        keep={path: "\n".join(kept + [""] + ours) if kept else "\n".join(ours)},
        apply=(("ifdown", "--force", port), ("ifup", "--force", f"--interfaces={trial}", bridge)),
        # the trial's file is gone by then, so the bridge is taken down by hand
        revert=(("ip", "link", "delete", "dev", bridge), ("ifdown", "--force", port), ("ifup", "--force", port)),
    )


def _sections(text: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        header = re.match(r"\s*\[([A-Za-z0-9]+)\]\s*$", line)
        if header:
            found.append((header.group(1), []))
        elif found and line.strip() and not line.lstrip().startswith(("#", ";")):
            found[-1][1].append(line.rstrip())
    return found


def _stanzas(text: str) -> list[list[str]]:
    """The lines of an interfaces file in groups: a line that begins a stanza and what belongs to it."""
    groups: list[list[str]] = []
    for line in text.splitlines():
        words = line.split()
        begins = bool(words) and (
            words[0] in ("iface", "auto", "mapping", "source", "source-directory", "rename", "no-auto-down", "no-scripts", "template")
            or words[0].startswith(("allow-", "#"))
        )
        if begins or not groups:
            groups.append([line])
        else:
            groups[-1].append(line)
    return groups
