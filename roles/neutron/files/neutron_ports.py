# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Let neutron know about every port that OVN has connected, also after the loss of a controller.

Neutron distributes the events of OVN over the API workers of all controllers by a hash, and counts the workers of a lost controller as alive for up to
three minutes. The events for them are lost: a port that OVN has connected stays down in neutron, and the creation of its instance fails after
``vif_plugging_timeout``. In neutron-api (:func:`wrap`) workers count as lost earlier. As a program it repeats the event of each port that is up in OVN
and down in neutron.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import typing as t

#: Constants of neutron in seconds. Each worker confirms every 15 seconds that it is alive; the second must be longer than that.
TIMES = {"HASH_RING_NODES_TIMEOUT": 45, "HASH_RING_CACHE_TIMEOUT": 20}
#: Seconds for which a port must differ before its event is repeated for the first time, and at most between two times.
FIRST, LONGEST = 10.0, 600.0
#: Seconds until OVN is asked again about a port that it has not connected.
UNCONNECTED = 30.0
#: Ports of instances that are connected on a server but down.
DOWN = (
    "SELECT DISTINCT p.id FROM ports p JOIN ml2_port_bindings b ON b.port_id = p.id WHERE p.status = 'DOWN' AND p.admin_state_up = 1"
    " AND LEFT(p.device_owner, 8) = 'compute:' AND b.status = 'ACTIVE' AND b.vif_type = 'ovs'"
)
Run = t.Callable[[t.Sequence[str]], str]


def wrap(service: t.Any, unused_settings: t.Mapping[str, t.Any], unused_database: t.Any) -> t.Any:
    """Shorten the times after which the workers of a lost controller get no events any more; return the service."""
    from neutron.common.ovn import constants  # type: ignore[import-not-found]  # pylint: disable=import-outside-toplevel,import-error

    for name, seconds in TIMES.items():
        if getattr(constants, name, 0) > seconds:
            setattr(constants, name, seconds)
    return service


class Waiting:
    """The ports that are down in neutron, and when the event of each is repeated: after 10 seconds, then ever more rarely."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[float, float]] = {}

    def due(self, ports: t.Iterable[str], now: float) -> list[str]:
        """Return the ports whose events may be repeated now.

        :arg ports: all that are down.
        :arg now: seconds of a clock that is not set back.
        """
        self._next = {port: self._next.get(port, (now + FIRST, FIRST)) for port in ports}
        return [port for port, (moment, _pause) in self._next.items() if now >= moment]

    def unconnected(self, ports: t.Iterable[str], now: float) -> None:
        """Note that OVN has not connected these ports."""
        for port in ports:
            self._next[port] = (now + UNCONNECTED, FIRST)

    def repeated(self, ports: t.Iterable[str], now: float) -> None:
        """Note that the events of these ports were repeated."""
        for port in ports:
            pause = min(2 * self._next[port][1], LONGEST)
            self._next[port] = (now + pause, pause)


def turn(waiting: Waiting, ask: t.Callable[[str], t.Sequence[t.Sequence[t.Any]]], run: Run, now: float) -> list[str]:
    """Repeat the events that are due; return their ports.

    :arg ask: runs a query in neutron's database.
    :arg run: runs ``ovn-nbctl`` with arguments and returns its output.
    """
    due = waiting.due([str(row[0]) for row in ask(DOWN)], now)
    if not due:
        return []
    found = json.loads(run(["--no-leader-only", "--format=json", "--columns=name,up", "--if-exists", "list", "Logical_Switch_Port", *due]))
    connected = [str(name) for name, up in found["data"] if up is True]
    waiting.unconnected(set(due) - set(connected), now)
    if connected:
        # ovn-northd sets it again, which neutron sees as a new event
        run([word for port in connected for word in ("--", "--if-exists", "set", "Logical_Switch_Port", port, "up=false")])
        waiting.repeated(connected, now)
    return connected


def main() -> None:
    """Compare from time to time."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import openstack_wsgi  # type: ignore[import-not-found]  # pylint: disable=import-outside-toplevel,import-error

    wish = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    keys = ["-p", wish["key"], "-c", wish["certificate"], "-C", wish["ca"]]

    def run(words: t.Sequence[str]) -> str:
        argv = ["ovn-nbctl", "--timeout=10", f"--db={wish['northbound']}", *keys, *words]
        return subprocess.run(argv, check=True, stdout=subprocess.PIPE, encoding="utf-8", timeout=30).stdout

    database, waiting, problem = openstack_wsgi.Database(wish["database"]), Waiting(), ""
    while True:
        try:
            for port in turn(waiting, database.rows, run, time.monotonic()):
                print(f"the port {port} is up in OVN and down in neutron: its event is repeated", flush=True)
            problem = ""
        except Exception as error:  # pylint: disable=broad-except  # the next turn may succeed
            # said once
            if problem != (problem := f"{type(error).__name__}: {error}"):
                print(problem, flush=True)
        time.sleep(float(wish["interval"]))


if __name__ == "__main__":
    main()
