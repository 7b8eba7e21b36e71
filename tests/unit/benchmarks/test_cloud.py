# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the cloud makes of its samples."""

from __future__ import annotations

import http.server
import io
import json
import threading

import pytest
from benchmarks import api_load, cloud
from benchmarks.cloud import ALL, DIRECT, Rate


def test_rates_are_compared_with_those_of_the_same_round() -> None:
    def rate(target: str, number: int, value: float, failed: int = 0) -> Rate:
        return Rate("nova", target, number, value, 0.1, 0.2, failed)

    # in the second round the machine is half as fast
    rates = [rate(DIRECT, 0, 100), rate(ALL, 0, 80), rate(ALL, 1, 40, failed=1), rate(DIRECT, 1, 50)]
    assert cloud.api_rows(rates) == [
        ["nova", DIRECT, "75.0", "1.00", "100", "200", "0"],
        ["nova", ALL, "60.0", "0.80", "100", "200", "1"],
    ]
    assert cloud.api_rows([rate(ALL, 0, 80)]) == [["nova", ALL, "80.0", "", "100", "200", "0"]]


def test_every_api_has_a_name_and_a_unit() -> None:
    assert set(cloud.NAMES) == set(cloud.UNITS) == set(cloud.REQUESTS)


def test_load_counts_answers_and_failures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # pylint: disable=invalid-name
            good = self.path == "/good" and self.headers["X-Auth-Token"] == "t"
            self.send_response(200 if good else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # pylint: disable=redefined-builtin
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found = {}
        for path in ("good", "bad"):
            wish = {"url": f"http://127.0.0.1:{server.server_port}/{path}", "headers": {"X-Auth-Token": "t"}, "authority": "", "clients": 2, "seconds": 0.2}
            monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(wish)))
            api_load.main()
            found[path] = json.loads(capsys.readouterr().out)
        server.shutdown()
    assert found["good"]["answered"] > 1 and found["good"]["failed"] == 0
    assert found["bad"]["answered"] == 0 and found["bad"]["failed"] > 1 and "503" in found["bad"]["errors"][0]
