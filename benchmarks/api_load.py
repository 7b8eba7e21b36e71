# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Send the same request as often as it is answered, from several threads; run on a controller with Python only.

Reads from the standard input a JSON object with ``url``, ``headers``, ``authority`` (PEM text, or empty), ``clients`` (threads) and
``seconds``; prints one with ``answered`` and ``failed`` (requests), ``seconds`` (elapsed), ``median`` and ``slow`` (seconds of a request, the
latter for 95 of 100). Each request has a connection of its own, as those of most OpenStack clients have.
"""

from __future__ import annotations

import json
import ssl
import statistics
import sys
import threading
import time
import typing as t
import urllib.request


def main() -> None:
    given = json.load(sys.stdin)
    handlers: list[t.Any] = [urllib.request.ProxyHandler({})]
    if given["authority"]:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=given["authority"])))
    opener = urllib.request.build_opener(*handlers)
    request = urllib.request.Request(given["url"], headers=given["headers"])
    times: list[float] = []
    failed: list[str] = []
    began = time.monotonic()

    def ask() -> None:
        while time.monotonic() - began < given["seconds"]:
            at = time.monotonic()
            try:
                with opener.open(request, timeout=30) as answer:
                    answer.read()
            except OSError as error:
                failed.append(repr(error))
            else:
                times.append(time.monotonic() - at)

    threads = [threading.Thread(target=ask) for unused in range(given["clients"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ordered = sorted(times) or [float("inf")]
    result = {
        "answered": len(times),
        "failed": len(failed),
        "errors": failed[:3],
        "seconds": time.monotonic() - began,
        "median": statistics.median(ordered),
        "slow": ordered[int(len(ordered) * 0.95)],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
