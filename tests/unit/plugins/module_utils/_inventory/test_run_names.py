# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names, run_names

KNOWN = plan_names.known_variables({"galera": "galera_settings: {}\n"})


@pytest.mark.parametrize("others", ["galera_exporter_*", ["galera_exporter_*"]])
def test_names_that_others_use_do_not_end_the_check(others):
    given = {"footprint_other_variables": others, "galera_exporter_port": 1, "galera_setings": 2}
    assert run_names.unknown_variables({"c1": given}, KNOWN) == [
        "galera_setings: is not a variable of this collection (set for c1). Did you mean galera_settings?"
    ]
