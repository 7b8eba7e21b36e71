# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.io_addresses import read_leases
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_addresses import parse_leases

HEADER = "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context,pool_id\n"
M1, M2 = "52:54:00:00:00:01", "52:54:00:00:00:02"


def kea(*leases: tuple[str, str, int, int]) -> str:
    return HEADER + "".join(f"{address},{mac},,{lifetime},{expiry},1,0,0,x,0,,0\n" for address, mac, lifetime, expiry in leases)


FIRST = kea(("192.0.2.101", M1, 3600, 2000), ("192.0.2.102", M2, 3600, 2000))
RELEASED = kea(("192.0.2.102", M2, 0, 2000))


@pytest.mark.parametrize(
    "files, found",
    [
        # a new file after each cleanup contains only what changed since
        ({"": HEADER, ".2": FIRST}, {M1: ["192.0.2.101"], M2: ["192.0.2.102"]}),
        ({"": kea(("192.0.2.109", M1, 3600, 5000)), ".2": FIRST}, {M1: ["192.0.2.109", "192.0.2.101"], M2: ["192.0.2.102"]}),
        # during a cleanup, and when it has ended
        ({"": HEADER, ".1": RELEASED, ".2": FIRST}, {M1: ["192.0.2.101"]}),
        ({"": HEADER, ".completed": kea(("192.0.2.101", M1, 3600, 2000)), ".2": FIRST}, {M1: ["192.0.2.101"]}),
        # other files of that name
        ({"": FIRST, ".2": "# saved by hand\n"}, {M1: ["192.0.2.101"], M2: ["192.0.2.102"]}),
        ({"": f"2000 {M1} 192.0.2.101 c1 *\n", ".2": FIRST}, {M1: ["192.0.2.101"]}),
    ],
)
def test_leases_from_before_a_cleanup_of_kea_are_read(tmp_path: pathlib.Path, files: dict[str, str], found: dict[str, list[str]]) -> None:
    for ending, text in files.items():
        (tmp_path / f"leases.csv{ending}").write_text(text, "utf-8")
    assert parse_leases(read_leases(str(tmp_path / "leases.csv"), 1), 1000) == found
