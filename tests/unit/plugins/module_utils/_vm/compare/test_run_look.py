# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain as it was found."""

from __future__ import annotations

import types
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_look

DOMAIN = "<domain type='qemu'><name>a</name><memory>1</memory></domain>"


def record(**more: t.Any) -> t.Any:
    return types.SimpleNamespace(
        config_xml=DOMAIN, live_xml=None, name="a", uuid="u", state="shutdown", autostart=True, active=False, persistent=True, **more
    )


def test_a_saved_memory_that_is_read_late_counts() -> None:
    seen = run_look.Seen(record())
    # its owner is asked for before anything else
    assert seen.owned is None and seen.live is None and not seen.actual.saved
    seen.resumes(DOMAIN.replace("<memory>1<", "<memory>2<"))
    assert seen.live is not None and seen.live.findtext("memory") == "2" and seen.actual.saved


def test_a_domain_without_a_saved_memory_has_no_live_document() -> None:
    seen = run_look.Seen(record())
    seen.resumes(None)
    assert seen.live is None and not seen.actual.saved
