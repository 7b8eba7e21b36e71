# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the actions for a domain: wanted and actual state in, an ordered list of actions out. No I/O."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata

STATES = ("running", "present", "shutdown", "absent", "rolled_back")

DEFINE = "define"
REDEFINE = "redefine"
ADOPT = "adopt"
UPDATE_METADATA = "update_metadata"
CHANGE_LIVE = "change_live"
AUTOSTART_ON = "autostart_on"
AUTOSTART_OFF = "autostart_off"
START = "start"
RESUME = "resume"
POWER_CYCLE = "power_cycle"
SHUTDOWN = "shutdown"
UNDEFINE = "undefine"

# actions that set a new definition
DEFINING = (DEFINE, REDEFINE, ADOPT)

_UUID = re.compile(r"<uuid>([^<]*)</uuid>")


class Wanted(t.NamedTuple):
    """The wanted properties of a VM, apart from its document."""

    id: str
    name: str
    uuid: str
    cluster: str
    state: str
    autostart: bool
    protected: bool
    protected_disks: tuple[str, ...] = ()

    @property
    def by_mark(self) -> bool:
        """Whether the details can contain only the id, so that name and UUID are not significant."""
        return self.state in ("absent", "rolled_back")


class Actual(t.NamedTuple):
    """An existing domain: ``owned`` from its definition.

    ``active``: it has a process. A domain that is not ``persistent`` disappears with it; a ``saved`` one
    is off and continues from its saved memory. A ``restarting`` one was stopped for a restart by a
    run that may have been killed before starting it again. ``instance``: the instance of Nova that it is, as text.
    """

    name: str
    uuid: str
    state: str
    autostart: bool
    owned: xml_metadata.Ownership | None
    active: bool
    persistent: bool = True
    saved: bool = False
    restarting: bool = False
    instance: str = ""


class Needs(t.NamedTuple):
    """The result of the comparison: whether a new definition or a live change is needed, and whether something waits for a restart."""

    redefine: bool = False
    live: bool = False
    waits: bool = False


class DomainPlan(t.NamedTuple):
    """The actions in order, the resulting state, and whether a restart remains required."""

    actions: tuple[str, ...]
    state: str
    restart_required: bool


def candidate(wanted: Wanted, domains: t.Sequence[Actual]) -> Actual | None:
    """The domain with a VM's UUID, or else with its metadata; nothing is checked.

    A copy of a managed domain (virt-clone copies the metadata) has the metadata, but does not match.
    """
    same_uuid = next((actual for actual in domains if actual.uuid == wanted.uuid), None)
    return same_uuid or next((actual for actual in domains if _marked(actual, wanted)), None)


def find(wanted: Wanted, domains: t.Sequence[Actual], adopt: bool = False) -> Actual | None:
    """The domain of a VM among those of a driver.

    With ``adopt`` an unmanaged domain of its name matches, too.
    """
    found = candidate(wanted, domains)
    same_name = next((actual for actual in domains if actual.name == wanted.name), None)
    for one in (found, same_name):
        if one is not None and one.instance:
            raise model_errors.RefusedError(
                f"the domain {one.name!r} (UUID {one.uuid}) is the {one.instance} of the cloud, which only Nova may change.",
                hint="Give the VM another name or uuid; to remove the instance, use openstack server delete.",
            )
    if found is not None and found.uuid != wanted.uuid and not wanted.by_mark and not (found.owned is not None and found.owned.adopted):
        raise model_errors.RefusedError(
            f"the VM exists with the UUID {found.uuid}, wanted is {wanted.uuid}; the UUID of a VM cannot be changed.",
            hint=f"Set uuid: {found.uuid} in its details, or remove it with state: absent first (its disks are kept; adopt_disks uses them again).",
        )
    if found is None and adopt and same_name is not None and same_name.owned is None and not wanted.by_mark:
        return same_name
    if same_name is not None and same_name != found and not (wanted.by_mark and found is not None):
        owner = same_name.owned
        whose = "is not managed by this collection" if owner is None else f"is the VM {owner.id!r} of the cluster {owner.cluster!r}"
        action = "Adopt it with adopt: true, give" if same_name.owned is None and found is None else "Give"
        raise model_errors.RefusedError(
            f"the host already has a domain {wanted.name!r} (UUID {same_name.uuid}), which {whose}.",
            hint=f"{action} the VM another name, or rename or remove that domain.",
        )
    if found is not None:
        _check_owner(wanted, found, adopt)
    return found


def plan_domain(wanted: Wanted, actual: Actual | None, needs: Needs = Needs(), allow_power_cycling: bool = False) -> DomainPlan:
    """Plan the actions for one VM, whose domain :func:`find` returned.

    A VM that must run is started, an edit of the details is never ignored, and a
    running guest is restarted only where that is allowed.
    """
    if wanted.state == "absent":
        return _plan_absent(wanted, actual)
    if wanted.state == "rolled_back":
        return _plan_previous(wanted, actual, needs, allow_power_cycling)
    actions = _defining(wanted, actual, needs)
    state = "shutdown" if actual is None else actual.state
    active = actual is not None and actual.active
    if wanted.state == "shutdown":
        actions += _autostart(wanted, actual)
        if active:
            actions.append(SHUTDOWN)
            state = "shutdown"
        return DomainPlan(tuple(actions), state, False)
    runs = wanted.state == "running" or actual is not None and actual.restarting and not active
    if actual is not None and active and state == "crashed" and runs:
        if not allow_power_cycling:
            raise model_errors.RefusedError(
                "has crashed, and libvirt preserves it for inspection.", hint="Inspect it, then restart it with allow_power_cycling: true."
            )
        return DomainPlan((*actions, *_autostart(wanted, actual), POWER_CYCLE), "running", False)
    if runs and state in ("paused", "suspended"):
        # a paused guest cannot release devices
        actions.append(RESUME)
        state = "running"
    if needs.live and active:
        actions.append(CHANGE_LIVE)
    actions += _autostart(wanted, actual)
    if runs and not active:
        actions.append(START)
        state = "running"
    waits = needs.waits and (active or START in actions)
    if waits and allow_power_cycling:
        return DomainPlan((*actions, POWER_CYCLE), "running", False)
    return DomainPlan(tuple(actions), state, waits)


def with_volumes(actions: t.Sequence[str], volumes: t.Sequence[str]) -> list[str]:
    """The actions of a VM and those of its volumes in the order of execution.

    A new domain is defined before its volumes are created, so that a refusal by libvirt has no cost. An existing
    domain gets its volumes first, so that its definition never names missing ones. A domain is
    undefined last: after a killed run it still lists what else must be removed.
    """
    after = [index + 1 for index, action in enumerate(actions) if action in (DEFINE, SHUTDOWN)]
    place = after[0] if after and (DEFINE in actions or UNDEFINE in actions) else 0
    return [*actions[:place], *volumes, *actions[place:]]


def _defining(wanted: Wanted, actual: Actual | None, needs: Needs) -> list[str]:
    if actual is None:
        return [DEFINE]
    owned = actual.owned
    if owned is None:
        return [ADOPT]
    if not actual.persistent:
        return [DEFINE]
    if needs.redefine:
        return [REDEFINE]
    if owned.pending_disks or (owned.protected, owned.id, owned.protected_disks) != (wanted.protected, wanted.id, wanted.protected_disks):
        return [UPDATE_METADATA]
    return []


def _autostart(wanted: Wanted, actual: Actual | None) -> list[str]:
    if wanted.autostart == (actual is not None and actual.autostart):
        return []
    return [AUTOSTART_ON if wanted.autostart else AUTOSTART_OFF]


def _plan_previous(wanted: Wanted, actual: Actual | None, needs: Needs, allow_power_cycling: bool) -> DomainPlan:
    if actual is None:
        raise model_errors.RefusedError("does not exist, so it cannot be rolled back.", hint="Check the id, the cluster and the host.")
    if actual.owned is None or actual.owned.previous is None:
        raise model_errors.RefusedError("has no previous definition.", hint="A previous definition is stored with the first change of a VM.")
    # a repeated rollback, also after a killed run, changes nothing
    actions = (REDEFINE,) if needs.redefine or not actual.owned.back else ()
    actions += (CHANGE_LIVE,) if needs.live and actual.active else ()
    if needs.waits and actual.active and allow_power_cycling:
        return DomainPlan((*actions, POWER_CYCLE), "running", False)
    return DomainPlan(actions, actual.state, needs.waits and actual.active)


def _plan_absent(wanted: Wanted, actual: Actual | None) -> DomainPlan:
    if actual is None:
        return DomainPlan((), "absent", False)
    if wanted.protected or (actual.owned is not None and actual.owned.protected):
        raise model_errors.RefusedError("is protected.", hint="Run once with protected: false and state: present, then run this again.")
    return DomainPlan((SHUTDOWN, UNDEFINE) if actual.active else (UNDEFINE,), "absent", False)


def _marked(actual: Actual, wanted: Wanted) -> bool:
    owned = actual.owned
    if owned is None or (owned.cluster, owned.id) != (wanted.cluster, wanted.id):
        return False
    written = _UUID.search(owned.applied)
    return written is None or written.group(1).strip().lower() == actual.uuid


def _check_owner(wanted: Wanted, found: Actual, adopt: bool) -> None:
    owned = found.owned
    if owned is None:
        if not adopt or wanted.by_mark:
            raise model_errors.RefusedError(
                f"the domain {found.name!r} with this VM's UUID is not managed by this collection.",
                hint="Adopt it with adopt: true, remove it, or set another uuid for the VM.",
            )
    elif owned.cluster != wanted.cluster:
        raise model_errors.RefusedError(f"the domain {found.name!r} belongs to the cluster {owned.cluster!r}.", hint="Set the name of that cluster.")
    if found.name != wanted.name and not wanted.by_mark:
        raise model_errors.RefusedError(
            f"the VM exists under the name {found.name!r}, wanted is {wanted.name!r}.",
            hint=f"Set name: {found.name} in its details, or rename the domain while it is off.",
        )
