# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a run has anything to do with a Galera cluster."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_differences import differences

A, B = "aaaaaaaa-0000-11ef-8000-000000000001", "bbbbbbbb-0000-11ef-8000-000000000002"


def member(**more: t.Any) -> dict[str, t.Any]:
    return {"unit": "active", "running": True, "primary": True, "ready": True, "cluster_uuid": A, "seqno": 9, "tls": "on", "tls_written": "on", **more}


def others(**more: t.Any) -> dict[str, t.Any]:
    """Three members, of which b is another one."""
    return {"a": member(), "b": member(**more), "c": member()}


@pytest.mark.parametrize(
    ("looks", "options", "expected"),
    [
        (others(), {}, ""),
        (others(), {"asked": True}, ""),
        ({"a": member(), "b": member()}, {"witnesses": ["w"]}, ""),
        # silence, a member that starts, one that receives its data, one that is lost or of another cluster, two components
        ({**others(), "b": {}}, {}, "b is not ready"),
        ({**others(), "b": None}, {}, "b is not ready"),
        (others(unit="activating"), {}, "b is not ready"),
        (others(ready=False), {}, "b is not ready"),
        (others(running=False, primary=False, ready=False, unit="inactive"), {}, "a is in a Primary Component"),
        (others(cluster_uuid=B), {}, "there are 2 clusters at once"),
        (others(configuration=3, size=1), {}, "there are 2 Primary Components"),
        ({name: member(primary=False, ready=False) for name in "abc"}, {}, "no member is in a Primary Component"),
        # encryption
        (others(tls="both"), {}, "TLS is changed"),
        (others(), {"asked": False}, "TLS is changed"),
        ({name: member(tls="off", tls_written="off") for name in "abc"}, {}, "plain text is used by default"),
        ({name: member(tls="off", tls_written="off") for name in "abc"}, {"asked": False}, ""),
        # every run warns
        ({"a": member(), "b": member()}, {}, "an even number"),
        ({}, {}, "the cluster has no members"),
    ],
)
def test_differences(looks: t.Any, options: dict[str, t.Any], expected: str) -> None:
    found = differences(looks, **options)
    assert expected in " ".join(found) and bool(found) == bool(expected), found
