# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's mirror of packages and images: plain HTTP on the host's lab address only."""

from __future__ import annotations

import functools
import http.server
import os
import signal
import sys

from . import procs
from .settings import MIRROR_PORT, current


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass


def main() -> int:
    lab = current()
    handler = functools.partial(Handler, directory=str(lab.state / "www"))
    server = http.server.ThreadingHTTPServer((lab.host_address, MIRROR_PORT), handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    procs.note(lab, "mirror")
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
