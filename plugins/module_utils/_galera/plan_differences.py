# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether a run has anything to do with a Galera cluster."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_tls
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import Member, decide


def differences(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], asked: bool | None = None, witnesses: t.Sequence[str] = ()) -> list[str]:
    """Return what a run has to do with a cluster or to report about it; empty if all members serve in one Primary Component with the wanted TLS.

    :arg looks: all members with their result of ``galera_info``, empty for one that does not answer.
    :arg asked: the operator's setting of TLS.
    """
    members = {name: Member.from_facts(name, facts) if facts else None for name, facts in looks.items()}
    decision, tls = decide(members, None, dict.fromkeys(witnesses)), plan_tls.decide(looks.values(), asked)
    found = [f"{name} is not ready." for name, facts in looks.items() if not facts or not facts.get("ready") or facts.get("unit") != "active"]
    found += [decision.reason] if decision.action != "none" else []
    found += ["TLS is changed, or plain text is used by default."] if tls["changing"] or asked is None and not tls["wanted"] else []
    return found + list(decision.warnings)
