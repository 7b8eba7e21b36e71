# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide which commands of ``ovs-vsctl`` bring Open vSwitch of a chassis to its wanted state. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._ovn.model_chassis import INTEGRATION, OBSERVER, RESTART, UPLINK, Found, Wanted


def commands(wanted: Wanted, found: Found) -> list[list[str]]:
    """Return the commands; empty if nothing differs."""
    return [
        *_record("external_ids", wanted.external_ids, found.external_ids),
        *_record("other_config", wanted.other_config, found.other_config),
        *_managers(wanted, found),
        *_bridges(wanted, found),
        *_observer(wanted, found),
    ]


def _record(column: str, wanted: t.Mapping[str, str | None], found: t.Mapping[str, str]) -> list[list[str]]:
    keys = [["set", "Open_vSwitch", ".", f"{column}:{key}={_quoted(text)}"] for key, text in wanted.items() if text is not None and found.get(key) != text]
    return keys + [["remove", "Open_vSwitch", ".", column, key] for key, text in wanted.items() if text is None and key in found]


def _managers(wanted: Wanted, found: Found) -> list[list[str]]:
    return [["set-manager", *sorted({*found.managers, *wanted.managers})]] if set(wanted.managers) - set(found.managers) else []


def _bridges(wanted: Wanted, found: Found) -> list[list[str]]:
    result = []
    for bridge in wanted.bridges:
        datapath, ports = found.bridges.get(bridge.name, ("", ()))
        if bridge.name not in found.bridges:
            result.append(["--may-exist", "add-br", bridge.name])
        if (datapath or "system") != bridge.datapath:
            result.append(["set", "Bridge", bridge.name, f"datapath_type={bridge.datapath}"])
        # two uplinks in the same network would be a loop
        result += [["--if-exists", "del-port", bridge.name, port] for port in ports if port in found.uplinks and port not in bridge.ports]
        result += [["--may-exist", "add-port", bridge.name, port] for port in bridge.ports if port not in ports]
        result += [["set", "Port", port, f"external_ids:{UPLINK}=true"] for port in bridge.ports if port not in ports or port not in found.uplinks]
    return result


def _observer(wanted: Wanted, found: Found) -> list[list[str]]:
    if wanted.observer is None or wanted.observer == found.observer:
        return []
    if not wanted.observer:
        return [["--if-exists", "del-port", INTEGRATION, OBSERVER]]
    # as OVN creates it when it starts
    bridge = [["--may-exist", "add-br", INTEGRATION], ["set", "Bridge", INTEGRATION, f"datapath_type={_datapath(wanted)}", "fail_mode=secure"]]
    return [
        *(bridge if INTEGRATION not in found.bridges else []),
        ["--may-exist", "add-port", INTEGRATION, OBSERVER],
        ["set", "Interface", OBSERVER, "type=internal", f"external_ids:iface-id={_quoted(wanted.observer)}"],
    ]


def _datapath(wanted: Wanted) -> str:
    return wanted.external_ids.get("ovn-bridge-datapath-type") or "system"


def _quoted(text: str) -> str:
    """Return a value for a column: a comma or colon would otherwise separate values."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def restarts(wanted: Wanted, found: Found) -> bool:
    """Whether the switch reads a changed setting only when it starts, also one that a killed run has changed."""
    late = "userspace-tso-enable"
    return RESTART in found.external_ids or wanted.other_config.get(late, found.other_config.get(late)) != found.other_config.get(late)


def restart_due(due: bool) -> list[str]:
    """Return the command that notes that a restart is due, or that it is done."""
    return ["set", "Open_vSwitch", ".", f'external_ids:{RESTART}="true"'] if due else ["remove", "Open_vSwitch", ".", "external_ids", RESTART]
