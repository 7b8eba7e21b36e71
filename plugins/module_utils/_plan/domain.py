# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about a domain: wanted and actual in, an ordered list of actions out. No I/O."""

from __future__ import annotations

import dataclasses

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._xml.metadata import Ownership

STATES = ("running", "present", "shutdown", "absent")

DEFINE = "define"
REDEFINE = "redefine"
UPDATE_METADATA = "update_metadata"
AUTOSTART_ON = "autostart_on"
AUTOSTART_OFF = "autostart_off"
START = "start"
RESUME = "resume"
POWER_CYCLE = "power_cycle"
SHUTDOWN = "shutdown"
UNDEFINE = "undefine"


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A VM as it is to be: ``document`` is the rendered one in canonical form."""

    id: str
    name: str
    uuid: str
    cluster: str
    document: str
    state: str
    autostart: bool
    protected: bool


@dataclasses.dataclass(frozen=True)
class Actual:
    """A domain as it is: ``owned`` from its configuration, ``live_applied`` from what runs."""

    name: str
    uuid: str
    state: str
    autostart: bool
    owned: Ownership | None
    live_applied: str | None

    @property
    def active(self) -> bool:
        """Whether it runs or is paused."""
        return self.state in ("running", "paused")


@dataclasses.dataclass(frozen=True)
class DomainPlan:
    """The actions in their order, the state they lead to, and whether a restart stays open."""

    actions: tuple[str, ...]
    state: str
    restart_required: bool


def check_ownership(wanted: Wanted, same_uuid: Actual | None, same_name: Actual | None) -> None:
    """Refuse to touch what is not ours (X6).

    :raises RefusedError: the domain belongs to somebody else or bears another name.
    """
    if same_name is not None and same_name.uuid != wanted.uuid:
        whose = "is not ours" if same_name.owned is None else f"is the VM {same_name.owned.id!r} of the cluster {same_name.owned.cluster!r}"
        raise RefusedError(
            f"the host already has a domain {wanted.name!r} (UUID {same_name.uuid}), which {whose}.", mend="Give the VM another name, or move that domain away."
        )
    if same_uuid is None:
        return
    if same_uuid.owned is None:
        raise RefusedError(
            f"the domain {same_uuid.name!r} with this VM's UUID does not say that it is ours.", mend="Remove it, or give the VM another uuid."
        )
    if same_uuid.owned.cluster != wanted.cluster:
        raise RefusedError(f"the domain {same_uuid.name!r} belongs to the cluster {same_uuid.owned.cluster!r}.", mend="Use that cluster's name.")
    if same_uuid.name != wanted.name and wanted.state != "absent":
        raise RefusedError(
            f"the VM exists under the name {same_uuid.name!r}, wanted is {wanted.name!r}.", mend="Keep the name, or rename the domain while it is off."
        )


def plan_domain(wanted: Wanted, actual: Actual | None, allow_power_cycling: bool = False) -> DomainPlan:
    """Decide for one VM; ownership has been checked.

    A stopped VM is not done where it is to run, an edit of the details is never ignored, and a
    running guest is restarted only where that is allowed.

    :raises RefusedError: a protected VM is to go.
    """
    if wanted.state == "absent":
        return _plan_absent(wanted, actual)
    actions: list[str] = []
    stale = False
    if actual is None:
        actions.append(DEFINE)
    else:
        owned = actual.owned
        if owned is None or owned.applied != wanted.document:
            actions.append(REDEFINE)
        elif owned.protected != wanted.protected or owned.id != wanted.id:
            actions.append(UPDATE_METADATA)
        # what runs keeps the document it was started with
        stale = actual.active and actual.live_applied != wanted.document
    if wanted.autostart != (actual is not None and actual.autostart):
        actions.append(AUTOSTART_ON if wanted.autostart else AUTOSTART_OFF)
    state = "shutdown" if actual is None else actual.state
    if wanted.state == "shutdown" and actual is not None and actual.active:
        actions.append(SHUTDOWN)
        return DomainPlan(tuple(actions), "shutdown", False)
    if stale and allow_power_cycling:
        actions.append(POWER_CYCLE)
        return DomainPlan(tuple(actions), "running", False)
    if wanted.state == "running" and state != "running":
        actions.append(RESUME if state == "paused" else START)
        state = "running"
    return DomainPlan(tuple(actions), state, stale)


def _plan_absent(wanted: Wanted, actual: Actual | None) -> DomainPlan:
    if actual is None:
        return DomainPlan((), "absent", False)
    if wanted.protected or (actual.owned is not None and actual.owned.protected):
        raise RefusedError("is protected.", mend="Run once with protected: false and state: present, then ask again.")
    return DomainPlan((SHUTDOWN, UNDEFINE) if actual.active else (UNDEFINE,), "absent", False)
