# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and change the database of Open vSwitch on this host."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.model_chassis import OBSERVER, UPLINK, Found

_SWITCH = "ovs-vswitchd.service"


class Switch:
    """Open vSwitch, managed with ``ovs-vsctl``."""

    def installed(self) -> bool:
        """Return whether it is installed."""
        return os.path.exists("/usr/bin/ovs-vsctl")

    def read(self) -> Found:
        """Return the present state."""
        top = self._rows("Open_vSwitch", "external_ids,other_config")[0]
        managers = tuple(str(row["target"]) for row in self._rows("Manager", "target"))
        rows = self._rows("Port", "_uuid,name,external_ids")
        ports = {str(row["_uuid"][1]): str(row["name"]) for row in rows}
        uplinks = frozenset(str(row["name"]) for row in rows if UPLINK in _map(row["external_ids"]))
        bridges = {}
        for row in self._rows("Bridge", "name,datapath_type,ports"):
            bridges[str(row["name"])] = (str(row["datapath_type"]), tuple(ports[uuid] for uuid in _uuids(row["ports"]) if uuid in ports))
        interfaces = self._rows("Interface", "name,external_ids")
        observer = next((_map(row["external_ids"]).get("iface-id", "") for row in interfaces if row["name"] == OBSERVER), "")
        return Found(_map(top["external_ids"]), _map(top["other_config"]), managers, bridges, uplinks, observer)

    def change(self, commands: t.Sequence[t.Sequence[str]]) -> None:
        """Run commands in one transaction and wait until the switch has applied them."""
        argv = ["ovs-vsctl", "--timeout=30"]
        for command in commands:
            argv += ["--", *command]
        run(argv, timeout=60, hint=f"Check `journalctl -u {_SWITCH}` and /var/log/openvswitch on the host.")

    def restart(self) -> None:
        """Restart the switch; its traffic stops for seconds."""
        run(["systemctl", "restart", "--", _SWITCH], timeout=120, hint=f"Check `journalctl -u {_SWITCH}` on the host.")

    def kernel(self) -> tuple[bool, str]:
        """Return whether the kernel has the datapath of Open vSwitch, and the answer of the kernel."""
        run(["modprobe", "--quiet", "openvswitch"], timeout=60, ok=range(256))
        done = run(["ovs-dpctl", "dump-dps"], timeout=30, ok=range(256))
        return done.rc == 0, " ".join((done.stderr or done.stdout).split())

    def _rows(self, table: str, columns: str) -> list[dict[str, t.Any]]:
        done = run(["ovs-vsctl", "--timeout=30", "--format=json", f"--columns={columns}", "list", table], timeout=60)
        try:
            found = json.loads(done.stdout)
            return [dict(zip(found["headings"], row)) for row in found["data"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BackendError(f"ovs-vsctl returned no valid table {table}: {done.stdout[:200]!r}") from error


def _map(value: t.Any) -> dict[str, str]:
    return {str(key): str(text) for key, text in value[1]}


def _uuids(value: t.Any) -> list[str]:
    return [str(value[1])] if value[0] == "uuid" else [str(one[1]) for one in value[1]]
