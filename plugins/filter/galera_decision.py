# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: decisions about the members of a Galera cluster."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_decision
short_description: Decide which member of a Galera cluster starts, which is backed up, and whether they use TLS
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - With V(start), if there is a Primary Component, the other members join it; a second one is never started. Otherwise a new cluster is started
    by its first member, and one with data by the member with the highest position.
  - A member that does not answer, unless all members of the last Primary Component answer, a position that cannot be read, data of another
    cluster, several Primary Components of one cluster, and databases that joining would wipe are refused, with the reason. These are the databases
    that the newest member lacks, and all of a member whose data has no position.
  - With V(backup_member), of the members that are Primary and Synced the one with the fewest clients, so not the one that receives the writes; at a tie
    the last. Fails if no member is ready.
  - With V(differences), what a run has to do with a cluster or to report about it, as lines of text.
  - With V(tls), a new cluster uses TLS, an existing one keeps its setting, and the operator's setting takes precedence. A running cluster passes through a
    stage in which its members use both, because those that use TLS only cannot connect to those that use plain text only.
positional: decision, force, witnesses
options:
  _input:
    description:
      - All members by name, in order, each with the result C(galera) of M(reduced.footprint.galera_info), or nothing for a
        member that does not answer.
    type: dict
    required: true
  decision:
    description: The decision.
    type: str
    required: true
    choices: [backup_member, differences, start, tls]
  force:
    description:
      - With V(backup_member) the member that the operator named, with V(differences) and V(tls) the operator's setting.
      - With V(start), name of the member to start from, although others do not answer, cannot be read, or have databases that it lacks. If there is a Primary
        Component, a member of it, and only databases that joining would wipe are overruled.
    type: raw
  witnesses:
    description:
      - With V(start), each witness with its service V(witness) of M(reduced.footprint.controlplane_info), or nothing for one that does not answer.
      - With V(differences), their names.
    type: raw
    default: {}
"""

EXAMPLES = r"""
- name: Decide which member starts the cluster
  ansible.builtin.set_fact:
    decision: "{{ {'c1': member1.galera, 'c2': member2.galera, 'c3': none} | reduced.footprint.galera_decision('start', force='c1') }}"
"""

RETURN = r"""
_value:
  description:
    - With V(backup_member) the name of the member. With V(tls) V(wanted), V(steps), the stages of all members in order, of V(off), V(both) and V(on), and
      V(changing), whether a running member must still reach the last one; until then witnesses stay out, because they use only TLS or only plain text.
    - With V(start) the decision with V(action) (V(none), V(join), V(bootstrap) or V(refuse)), V(reason), V(hint), V(bootstrap) (the member
      that starts), V(join) (the others in order), V(discard) (joining members whose data must be set aside first), V(uuid),
      V(silence) (witnesses to stop before the cluster is started), V(wake) (witnesses to start afterwards, including those that an interrupted run
      left stopped), V(confirm) (the members whose guards must confirm the start right before it), V(warnings), and V(members), one line of text
      for each member and witness.
  type: raw
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import decision_module, imported


def start(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    force: str | None = None,
    witnesses: t.Mapping[str, t.Mapping[str, t.Any] | None] | None = None,
) -> dict[str, t.Any]:
    """Return the decision as plain values; see :func:`decide`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import Member, decide, describe

    members = {name: Member.from_facts(name, facts) if facts else None for name, facts in looks.items()}
    voting = {name: _running(seen) if seen else None for name, seen in (witnesses or {}).items()}
    decision = decide(members, force or None, voting)
    # a run that was killed after it had stopped a witness left it so; a host without the unit is not a witness yet
    stopped = [name for name, seen in (witnesses or {}).items() if seen and seen.get("units") and not _running(seen)]
    wake = [] if decision.action == "refuse" else [*decision.silence, *stopped]
    # one without data has no guard that could form a component, unless it does not answer
    confirm = [name for name, member in members.items() if decision.uuid and name != decision.bootstrap and (member is None or member.uuid)]
    return {**decision.as_dict(), "wake": wake, "confirm": confirm, "members": describe(members, decision, voting)}


def _running(seen: t.Mapping[str, t.Any]) -> bool:
    return any(unit["state"] not in ("inactive", "failed") for unit in (seen.get("units") or {}).values())


FilterModule = decision_module(
    "galera_decision",
    backup_member=imported("_galera.plan_backup", "choose_member"),
    differences=imported("_galera.plan_differences", "differences"),
    start=start,
    tls=imported("_galera.plan_tls", "decide"),
)
