# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VMs a run is about."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_selection import select

VMS = parse_vms([{"id": 0}, {"id": "b"}, {"id": "c"}], cluster="lab")


@pytest.mark.parametrize(
    "only, found",
    [([], ["0", "b", "c"]), ([""], ["0", "b", "c"]), (["c", "0"], ["0", "c"]), ([" b ", "b"], ["b"])],
    ids=["nothing", "an empty answer", "the order of the list", "spaces and twice"],
)
def test_selection(only: list[str], found: list[str]) -> None:
    assert [vm.id for vm in select(VMS, only)] == found


def test_an_id_that_no_vm_has_is_refused() -> None:
    with pytest.raises(InputError, match=r"only: unknown VM id x; the VM details of this host have 0, b, c"):
        select(VMS, ["b", "x"])
