# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import host_facts
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError


def test_this_machine():
    facts = host_facts.measure()
    assert facts.memory_mib > 100 and facts.cpus > 0 and facts.kernel and facts.arch


def test_a_machine_without_memory_is_refused(tmp_path):
    with pytest.raises(BackendError, match="MemTotal|memory"):
        host_facts.measure(str(tmp_path))


def test_numbers_from_proc(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\nMemFree: 1 kB\n")
    (tmp_path / "proc" / "cpuinfo").write_text("processor : 0\nmodel name\t: A CPU\nmicrocode\t: 0x1\n")
    facts = host_facts.measure(str(tmp_path))
    assert (facts.memory_mib, facts.cpu_model, facts.microcode) == (16000, "A CPU", "0x1")


@pytest.mark.parametrize("text, value", [("", {}), ("{half", {}), ("[1]", {}), ('{"a": 1}', {"a": 1})])
def test_recorded_facts_however_damaged(tmp_path, text, value):
    path = tmp_path / "x.fact"
    path.write_text(text)
    assert host_facts.read_recorded(str(path)) == (text, value)


def test_no_recorded_facts(tmp_path):
    assert host_facts.read_recorded(str(tmp_path / "none")) == ("", {})


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path):
    total, free = host_facts.free_bytes(str(tmp_path / "a" / "b"))
    assert (total, free > 0) == (host_facts.free_bytes(str(tmp_path))[0], True)
    assert json.dumps([total, free])
