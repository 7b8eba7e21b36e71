# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The wait for a machine without failed units."""

from __future__ import annotations

import pathlib

import pytest

from tests.support.control_node import HERE, ROOT, ControlNode

LOADER = "footprint-allow-lists.service loaded failed failed Load the allow-lists of the control plane's services"
#: Prints the next line of a file for each list of failed units; the last one stays.
SYSTEMCTL = r"""
[ "$1" = is-system-running ] && { echo ${STATE:-degraded}; exit 1; }
head -n 1 "$UNITS"
[ "$(wc -l < "$UNITS")" -gt 1 ] && sed -i 1d "$UNITS"
exit 0
"""


@pytest.mark.parametrize(
    ("failed", "repairs", "expected"),
    [
        ([LOADER, ""], [], ""),
        ([LOADER], [], "Units failed on metal2: footprint-allow-lists.service."),
        (["mariadb.service loaded failed failed MariaDB"], ["mariadb.service"], ""),
        # a server that was restarted: a copy failed because its VM was started meanwhile
        (["reduced-footprint-standby-notes.service loaded failed failed Copy of the disks of notes"], [], ""),
        (["reduced-footprint-standby-guard.service loaded failed failed Guard"], [], "Units failed on metal2: reduced-footprint-standby-guard.service."),
    ],
)
def test_a_failed_unit_that_a_timer_starts_again_does_not_end_a_run(
    failed: list[str], repairs: list[str], expected: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = ControlNode(tmp_path)
    control.program(monkeypatch, "systemctl", SYSTEMCTL)
    (tmp_path / "units").write_text("".join(f"{line}\n" for line in failed), "utf-8")
    monkeypatch.setenv("UNITS", str(tmp_path / "units"))
    (tmp_path / "ready.yml").write_text((ROOT / "playbooks/tasks/wait_ready.yml").read_text("utf-8"), "utf-8")
    given = {"__wait_ready_timeout": 5, "__wait_ready_pause": 0, "__wait_ready_repairs": repairs}
    code, output = control.play([{"ansible.builtin.include_tasks": "ready.yml"}], **given, **HERE)
    assert (code == 0) == (not expected) and expected in " ".join(output.split()), output


def test_a_running_machine_is_not_asked_for_failed_units(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    control = ControlNode(tmp_path)
    control.program(monkeypatch, "systemctl", SYSTEMCTL)
    monkeypatch.setenv("STATE", "running")
    (tmp_path / "ready.yml").write_text((ROOT / "playbooks/tasks/wait_ready.yml").read_text("utf-8"), "utf-8")
    code, output = control.play([{"ansible.builtin.include_tasks": "ready.yml"}], __wait_ready_timeout=5, **HERE)
    assert code == 0 and "List the failed units" in output and "skipping" in output.partition("List the failed units")[2].partition("TASK")[0], output
