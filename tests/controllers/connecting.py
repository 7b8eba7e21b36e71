# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients that connect to the database while its members fail."""

from __future__ import annotations

import threading
import time

import pymysql
from controllers_lab import ControllersLab


class Connecting:
    """Clients that connect again and again, without a time limit for an answer, as most have none.

    :ivar longest: seconds of the longest attempt, successful or not.
    """

    def __init__(self, lab: ControllersLab, clients: int = 8) -> None:
        password = (lab.state / "writer-password").read_text(encoding="utf-8").strip()
        self.account = {"host": lab.virtual_address, "user": "writer", "password": password, "database": "footprint"}
        self.longest = 0.0
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._connect, daemon=True) for unused in range(clients)]

    def __enter__(self) -> Connecting:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()

    def waiting(self, seconds: float) -> int:
        """Return how many clients still wait for an answer after this time."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return sum(thread.is_alive() for thread in self._threads)

    def _connect(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                pymysql.connect(**self.account).close()
            except (pymysql.Error, OSError):
                time.sleep(0.1)
            self.longest = max(self.longest, time.monotonic() - began)
