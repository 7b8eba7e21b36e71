# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health check in front of an OpenStack service."""

from __future__ import annotations

import pathlib
import threading
import time
import typing as t

import pytest

from tests.support.program import load


@pytest.fixture(name="wsgi")
def fixture_wsgi(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    monkeypatch.delenv("FOOTPRINT_WSGI", raising=False)
    return load("roles/openstack_service/files/openstack_wsgi.py")


class Connection:
    """Rows by query; a query that is not there fails."""

    def __init__(self, rows: dict[str, list[tuple[t.Any, ...]]]) -> None:
        self.found = rows
        self.asked: list[str] = []
        self.now: list[tuple[t.Any, ...]] = []

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *unused: t.Any) -> None:
        pass

    def execute(self, query: str, values: t.Any = ()) -> None:
        assert ("%s" in query) == bool(values)
        self.asked.append(query)
        if query not in self.found:
            raise OSError("lost")
        self.now = self.found[query]

    def fetchall(self) -> list[tuple[t.Any, ...]]:
        return self.now

    def close(self) -> None:
        pass


def database(wsgi: t.Any, rows: dict[str, list[tuple[t.Any, ...]]], clock: t.Callable[[], float] = lambda: 0.0) -> t.Any:
    found = wsgi.Database({"queries": ["version"], "problems": ["late %s"]}, clock)
    found.connect = lambda: Connection(rows)
    return found


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"version": [("a",)], "late %s": []}, ""),
        ({"version": [], "late %s": []}, "no row: version"),
        ({"version": [("a",)], "late %s": [("nova-conductor is late",)]}, "nova-conductor is late"),
        ({"late %s": []}, "database: OSError: lost"),
    ],
)
def test_problems(wsgi: t.Any, rows: t.Any, problem: str) -> None:
    assert database(wsgi, rows).problem() == problem


def test_answer_counts_for_some_seconds_and_a_lost_connection_is_made_again(wsgi: t.Any) -> None:
    now = [0.0]
    rows: dict[str, list[tuple[t.Any, ...]]] = {"late %s": []}
    one = database(wsgi, rows, lambda: now[0])
    assert "lost" in one.problem()
    rows["version"] = [("a",)]
    assert "lost" in one.problem()
    now[0] = 6.0
    assert one.problem() == ""


@pytest.mark.parametrize(("again", "problem"), [(False, ""), (True, "database: OSError: lost")], ids=["usable", "lost"])
def test_a_kept_connection_that_was_closed_is_no_problem_of_the_database(wsgi: t.Any, again: bool, problem: str) -> None:
    """A load balancer closes idle ones, and the connections to a member that another one replaced."""
    now = [0.0]
    good: dict[str, list[tuple[t.Any, ...]]] = {"version": [("a",)], "late %s": []}
    made: list[Connection] = []

    def connect() -> Connection:
        made.append(Connection({} if made and again else dict(good)))
        return made[-1]

    one = wsgi.Database({"queries": ["version"], "problems": ["late %s"]}, lambda: now[0])
    one.connect = connect
    assert one.problem() == ""
    made[0].found.clear()
    now[0] = 6.0
    assert one.problem() == problem and len(made) == 2


def test_threads_ask_one_after_the_other(wsgi: t.Any) -> None:
    # they share the connection, whose answers would be mixed
    inside: list[int] = []

    class Slow(Connection):
        def execute(self, query: str, values: t.Any = ()) -> None:
            inside.append(1)
            time.sleep(0.05)
            super().execute(query, values)
            inside.pop()

    one = wsgi.Database({"queries": ["version"]}, lambda: 0.0)
    one.connect = lambda: Slow({"version": [("a",)]})
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(one.problem())) for _number in range(4)]
    lengths: list[int] = []
    for thread in threads:
        thread.start()
        lengths.append(len(inside))
    for thread in threads:
        thread.join()
    assert found == [""] * 4 and max(lengths) <= 1


def test_paths(wsgi: t.Any, tmp_path: pathlib.Path) -> None:
    rows: dict[str, list[tuple[t.Any, ...]]] = {"version": [], "late %s": []}
    application = wsgi.checked(lambda environ, start: [b"service"], tmp_path / "drain", database(wsgi, rows))

    def get(path: str, **more: str) -> tuple[str, bytes]:
        reported: list[str] = []
        body = b"".join(application({"PATH_INFO": path, **more}, lambda status, headers: reported.append(status)))
        return (reported or [""])[0], body

    assert get("/v2.1") == ("", b"service")
    assert get("/healthcheck")[0].startswith("200")
    assert get("/healthcheck/database") == ("503 Service Unavailable", b"no row: version\n")
    # through the load balancer
    assert get("/healthcheck/database", HTTP_X_FORWARDED_PROTO="https") == ("", b"service")
    (tmp_path / "drain").touch()
    assert get("/healthcheck")[0].startswith("404")
    application = wsgi.checked(lambda environ, start: [b"service"], tmp_path / "drain", database(wsgi, {"version": [("a",)], "late %s": []}))
    assert get("/healthcheck/database") == ("200 OK", b"OK, but drained\n")
    (tmp_path / "drain").unlink()
    assert get("/healthcheck/database") == ("200 OK", b"OK\n")


def test_program_and_wrapper_are_loaded(wsgi: t.Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "program").write_text("assert __name__ != '__main__'\napplication = lambda environ, start: [b'inner']\n")
    (tmp_path / "wrapper").write_text("def wrap(service, settings, connect):\n    return lambda environ, start: service(environ, start) + [b'wrapped']\n")
    settings = {"program": str(tmp_path / "program"), "wrapper": str(tmp_path / "wrapper"), "drain": str(tmp_path / "drain"), "database": {}}
    assert wsgi.load(settings)({"PATH_INFO": "/"}, None) == [b"inner", b"wrapped"]
