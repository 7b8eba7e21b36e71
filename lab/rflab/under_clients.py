# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All kinds of clients of the cloud on two servers at the same time: of its database, its API, its instances, and its master."""

from __future__ import annotations

import time
import typing as t

from .cloud_clients import Cloud, Watch, http_answers, ssh_answers
from .settings import Lab


class UnderClients:
    """Clients that ask again and again while it is entered.

    :arg addresses: instance → its floating address.
    :arg name: prefix of the tables of the clients of the database.

    :ivar watches: what is asked → when it answered.
    """

    def __init__(self, lab: Lab, cloud: Cloud, addresses: t.Mapping[str, str], name: str) -> None:
        from . import transactions  # needs a package that the lab installs

        password = (lab.state / "app-password").read_text(encoding="utf-8").split()[0]
        self.virtual_address = f"{lab.net}.20"
        # a service of the control plane waits for a lock no longer
        self.sql = transactions.Clients(transactions.Account("app", password, "app"), self.virtual_address, name, timeout=1)
        self.watches = {"API": Watch(cloud.answers), "master": Watch(lambda: http_answers(f"http://{lab.net}.2:8080/health"))}
        for instance, address in addresses.items():
            self.watches[instance] = Watch(lambda address=address: ssh_answers(address))

    def __enter__(self) -> UnderClients:
        self.sql.prepare()
        self.sql.start()
        for watch in self.watches.values():
            watch.start()
        time.sleep(5)
        return self

    def __exit__(self, *unused: object) -> None:
        for watch in self.watches.values():
            watch.close()
        self.sql.stop()

    def reached_since(self, name: str, begin: float) -> bool:
        """Return whether something has answered after a point in time of the monotonic clock."""
        return any(at > begin for at in self.watches[name].reached)

    def gaps(self, begin: float, end: float) -> dict[str, float]:
        """Return the longest time without an answer between two points in time, in seconds."""
        return {"SQL": self.sql.gap(begin, end), **{name: watch.gap(begin, end) for name, watch in self.watches.items()}}

    def contradictions(self) -> list[str]:
        """Return what the database has lost or contradicts, after the end of all clients."""
        from . import history

        return [problem.text for problem in history.check(self.sql.history, self.sql.tables(self.virtual_address))]
