# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compute services and chassis, as their databases report them."""

from __future__ import annotations

import json
import pathlib
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_cloud
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError


class Database:
    """Answers with rows, or not."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)

    def query(self, _sql: str, _timeout: float) -> t.Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def row(host: str, disabled: str = "0", forced: str = "0", seconds: str = "3", reason: str = "") -> list[str]:
    return [host.encode().hex().upper(), disabled, forced, seconds, *([reason.encode().hex()] if reason else [])]


def test_compute_services() -> None:
    rows = [row("m1"), row("m2", seconds="76"), row("m3", forced="1"), row("m4", disabled="1", reason="disk\t1\nbad"), row("m5", seconds="-200")]
    found = io_cloud.compute_services(5, t.cast(t.Any, Database([["1"]], rows)))
    assert [(one["host"], one["up"], one["disabled"]) for one in found] == [
        ("m1", True, False), ("m2", False, False), ("m3", False, False), ("m4", True, True), ("m5", False, False),
    ]  # fmt: skip
    assert found[1]["seconds"] == 76 and found[3]["reason"] == "disk\t1\nbad"


def test_without_nova_there_are_none_and_a_silent_database_is_an_error() -> None:
    assert io_cloud.compute_services(5, t.cast(t.Any, Database([["0"]]))) == []
    for answers in ([CommandError(["mariadb"], None, "late")], [[["1"]], CommandError(["mariadb"], 1, "WSREP has not yet prepared node")]):
        with pytest.raises(CommandError):
            io_cloud.compute_services(5, t.cast(t.Any, Database(*answers)))


def table(columns: str, *rows: t.Sequence[t.Any]) -> str:
    return json.dumps({"headings": columns.split(","), "data": rows})


@pytest.mark.parametrize(("age", "agents"), [(100, [True, False, None, False]), (10, [True, True, None, False])])
def test_chassis_that_do_not_answer(age: int, agents: list[bool | None], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter was 7 before the request."""
    monkeypatch.setattr(io_cloud, "QUIET_SECONDS", 0.1)
    asked = [["m1", 8, 7], ["m2", 8, 4], ["w", 7, None], ["gone", 8, 1]]
    private = [[name, cfg, ["map", [] if agent is None else [["neutron:ovn-metadata-sb-cfg", str(agent)]]]] for name, cfg, agent in asked]
    known = [[name, f"{name}.lan", ["map", [["ovn-cms-options", options]]]] for name, options in (("m1", "a,enable-chassis-as-gw"), ("m2", ""), ("w", ""))]
    stamp = int((time.time() - age) * 1000)
    tables = {
        "NB_Global": table("nb_cfg,nb_cfg_timestamp", [7, stamp]),
        "Chassis": table("name,hostname,other_config", *known),
        "Chassis_Private": table("name,nb_cfg,external_ids", *private),
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text, "ascii")
    for program in ("ovn-nbctl", "ovn-sbctl"):
        text = f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nfor last; do :; done\n[ "$last" = sync ] && kill -ALRM $$\ncat {tmp_path}/$last\n'
        (tmp_path / program).write_text(text, "ascii")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = io_cloud.chassis(7)
    assert [(one["host"], one["up"], one["gateway"]) for one in found] == [
        ("gone", False, False), ("m1.lan", True, True), ("m2.lan", True, False), ("w.lan", False, False),
    ]  # fmt: skip
    assert [one["agent"] for one in (found[1], found[2], found[3], found[0])] == agents
    assert "--timeout=4 --wait=sb sync" in (tmp_path / "calls").read_text("ascii")
    (tmp_path / "NB_Global").unlink()
    with pytest.raises(CommandError):
        io_cloud.chassis(7)


@pytest.mark.parametrize(("silent", "late", "least"), [(True, False, 1.0), (True, True, 2.5), (False, True, 0.7)])
def test_chassis_are_waited_for_while_others_answer(
    silent: bool, late: bool, least: float, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is lost does not take the whole time limit, and one on a busy machine is not taken for lost."""
    monkeypatch.setattr(io_cloud, "QUIET_SECONDS", 1.0)
    (tmp_path / "NB_Global").write_text(table("nb_cfg,nb_cfg_timestamp", [7, 1]), "ascii")
    names = ["m1", "m2", *(["lost"] if silent else [])]
    (tmp_path / "Chassis").write_text(table("name,hostname,other_config", *([name, name, ["map", []]] for name in names)), "ascii")
    for second in (7, 8):
        rows = [[name, cfg, ["map", []]] for name, cfg in (("m1", 8), ("m2", second if late else 8), ("lost", 7)) if name in names]
        (tmp_path / f"private{second}").write_text(table("name,nb_cfg,external_ids", *rows), "ascii")
    began = tmp_path / "began"
    later = 'at=$(( ${EPOCHREALTIME/./} + 700000 ))'
    begin = f'[ "$last" = sync ] && {{ {later}; exec touch -d "@${{at:0:10}}.${{at:10}}" {began}; }}\n'
    private = f'touch {tmp_path}/now\n[ "$last" = Chassis_Private ] && {{ last=private7; [ {tmp_path}/now -nt {began} ] && last=private8; }}\n'
    for program in ("ovn-nbctl", "ovn-sbctl"):
        (tmp_path / program).write_text(f"#!/bin/bash\nfor last; do :; done\n{begin}{private}cat {tmp_path}/$last\n", "ascii")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    since = time.monotonic()
    found = io_cloud.chassis(20)
    assert {one["host"]: one["up"] for one in found} == {name: name != "lost" for name in names}
    # the limit is 17 s
    assert least <= time.monotonic() - since < 15
