# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_prediction import predict


def test_without_a_measurement_only_the_boot_is_guessed():
    assert predict([], {}, 0) == {"seconds": 30.0, "data": 0.0, "parts": {"quiesce": 0.0, "final": 0.0, "fixup": 0.0, "verify": 0.0, "cutover": 30.0}}


def test_each_part_is_predicted_from_its_last_duration():
    found = predict([{"seconds": 90}, {"seconds": 2}], {"manifest": {"seconds": 1.5}, "fixup_seconds": 0.5, "boot_seconds": 12}, 3)
    assert found["parts"] == {"quiesce": 3.0, "final": 2.0, "fixup": 0.5, "verify": 1.5, "cutover": 12.0}
    assert (found["seconds"], found["data"]) == (19.0, 4.0)


def test_a_maintenance_boot_is_predicted_from_an_earlier_one_or_the_last_boot():
    def quiesce(**facts):
        return predict([], facts, 3, reboots=True)["parts"]["quiesce"]

    assert quiesce() == 90.0
    assert quiesce(source_facts={"boot_seconds": 33.5}) == 43.5
    assert quiesce(source_facts={"boot_seconds": 33.5}, reboot_seconds=61.2) == 61.2
    assert quiesce(source_facts={"boot_seconds": None}) == 90.0
