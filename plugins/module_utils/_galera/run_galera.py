# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: probe one member of a Galera cluster, and make it join or start the cluster."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import NO_UUID, Member
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_member import problems
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, View, read_kept, read_view, unconfirmed
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_tls import speaks_both, tls_stage

_PAUSE = 1.0
#: Seconds within which the other members must confirm that this one starts the cluster: their guards take a turn each second.
_CONFIRMED_WITHIN = 10

# Options that locate the server; documented in doc_fragments/mariadb.py.
SERVER_ARGUMENTS: t.Mapping[str, t.Mapping[str, str]] = {
    "unit": {"type": "str", "default": "mariadb.service"},
    "datadir": {"type": "path", "default": "/var/lib/mysql"},
}


@dataclasses.dataclass(frozen=True)
class MemberRequest:
    """The requested state of a member.

    :arg state: ``present`` joins the running cluster, ``bootstrapped`` starts one.
    :arg uuid: cluster it must belong to, ``None`` if not known yet.
    :arg config_files: a server that was started before one of these was written is restarted.
    :arg wait_timeout: seconds until it must be ready.
    :arg confirm: other members whose guards are asked right before this one starts the cluster.
    :arg forced: it starts although they do not answer or have newer data, as long as none is in a Primary Component.
    """

    state: str = "present"
    uuid: str | None = None
    config_files: tuple[str, ...] = ()
    wait_timeout: float = 600
    confirm: tuple[str, ...] = ()
    forced: bool = False


def local_database(unit: str, datadir: str = "/var/lib/mysql") -> MariaDb:
    """Return the database server of this host.

    :arg unit: systemd unit.
    :arg datadir: data directory.
    """
    return MariaDb(unit, datadir)


def look(database: MariaDb, wait_timeout: float = 0, recover: bool = True, sleep: t.Callable[[float], None] = time.sleep) -> dict[str, t.Any]:
    """Return the current state of a member, as documented in ``galera_info``.

    :arg wait_timeout: seconds to wait for a member that is starting or without a Primary Component; Galera often recovers by itself.
    :arg recover: read the position from InnoDB if the server is stopped and has not saved it.
    """
    waited = 0.0
    while True:
        status = database.status()
        unit = database.unit_state()
        wsrep = bool(status) and status.get("wsrep_on") == "ON"
        unsettled = unit.get("ActiveState") in ("activating", "deactivating") or (wsrep and bool(problems(status or {})))
        if not unsettled or waited >= wait_timeout:
            break
        sleep(_PAUSE)
        waited += _PAUSE
    saved = database.grastate()
    written = database.written_options()
    saved_view, _node = read_view(database.saved_view())
    names, caught_up = read_kept(database.guard_record())
    facts: dict[str, t.Any] = {
        "installed": database.installed(),
        "unit": unit.get("ActiveState", "unknown"),
        "standalone": bool(status) and not wsrep,
        "running": wsrep,
        "primary": wsrep and (status or {}).get("wsrep_cluster_status") == "Primary",
        "ready": wsrep and not problems(status or {}),
        "problems": list(problems(status or {})) if wsrep else [],
        "cluster_uuid": (saved or {}).get("uuid"),
        "seqno": _number((saved or {}).get("seqno")),
        "safe_to_bootstrap": (saved or {}).get("safe_to_bootstrap") == "1",
        "databases": list(database.databases()),
        "aside": list(database.aside()),
        "size": _number((status or {}).get("wsrep_cluster_size")) if wsrep else 0,
        "configuration": -1,
        "node": None,
        "view": [],
        "saved_view": saved_view and {"id": saved_view.id, "members": {node: names.get(node) for node in saved_view.members}},
        "caught_up": bool(saved_view and saved_view.id == caught_up),
        "local_state": (status or {}).get("wsrep_local_state_comment") if wsrep else None,
        # the member that the load balancer sends writes to has the most
        "clients": database.clients() if wsrep and not problems(status or {}, serves=True) else 0,
        "cluster_name": None,
        "tls": None,
        "tls_both": None,
        # empty: Galera is not configured yet
        "tls_written": tls_stage(written) if written else None,
        "certificate_names": list(database.certificate_names()) if wsrep else [],
    }
    if wsrep:
        version, options, name = database.provider()
        facts.update(cluster_name=name or None, tls=tls_stage(options), tls_both=speaks_both(version))
        if facts["primary"]:
            configuration = _number((status or {}).get("wsrep_cluster_conf_id"))
            facts.update(configuration=configuration, node=(status or {}).get("wsrep_gcomm_uuid"), view=list(database.view()))
        # a joiner reports zeros until it has its data; its grastate.dat is not better then
        live = (status or {}).get("wsrep_local_state_uuid")
        facts.update(cluster_uuid=live, seqno=_number((status or {}).get("wsrep_last_committed")))
    elif saved is not None and recover:
        position = _position(database, unit, facts["seqno"])
        if position:
            facts.update(cluster_uuid=position[0], seqno=position[1])
    if facts["cluster_uuid"] == NO_UUID or (not wsrep and database.receiving()):
        # a member without a position that receives the cluster's databases has no others
        facts.update(cluster_uuid=None, seqno=-1, databases=[] if wsrep or database.receiving() else facts["databases"])
    return facts


def _position(database: MariaDb, unit: t.Mapping[str, str], seqno: int) -> tuple[str, int] | None:
    pid = _number(unit.get("MainPID"))
    if pid > 0:
        return database.started_at_position(pid)
    if unit.get("ActiveState") in ("inactive", "failed") and seqno < 0:
        return database.recover_position()
    return None


def _number(value: str | None) -> int:
    try:
        return int(value or -1)
    except ValueError:
        return -1


def ensure(request: MemberRequest, database: MariaDb, *, check_mode: bool, sleep: t.Callable[[float], None] = time.sleep) -> Changes:
    """Make a member join the cluster, or start the cluster with it, and wait until it is ready.

    :raises RefusedError: the member belongs to another cluster, or the others do not confirm that it starts the cluster.
    :raises BackendError: the member is not ready in time.
    """
    before = look(database, recover=False)
    actions = _plan(request, before, database)
    if not before["installed"] and check_mode:
        return Changes(actions, before, before)
    if before["running"] and request.uuid and before["cluster_uuid"] not in (None, request.uuid):
        raise RefusedError(
            f"this member belongs to the cluster {before['cluster_uuid']}, not to {request.uuid}.",
            hint="Move the data directory away if it is not needed.",
        )
    if check_mode:
        return Changes(actions, before, before)
    verbs = {
        "bootstrap": lambda: _bootstrap(database, request.uuid),
        "reform": database.reform,
        "restart": database.restart,
        "start": database.start,
    }
    for action in actions:
        if action not in ("bootstrap", "reform") or not request.confirm or _confirmed(request, database, sleep):
            verbs[action]()
    after = _wait(request, database, sleep)
    return Changes(actions, before, after)


def _plan(request: MemberRequest, facts: t.Mapping[str, t.Any], database: MariaDb) -> tuple[str, ...]:
    """Return the actions that lead to the requested state, usually none or one."""
    if request.state == "bootstrapped" and not facts["primary"]:
        return ("reform",) if facts["running"] else ("bootstrap",)
    if facts["unit"] not in ("active", "activating", "reloading"):
        return ("start",)
    started = _number((database.unit_state().get("ExecMainStartTimestamp") or "").lstrip("@"))
    if facts["standalone"] or int(database.newest(request.config_files)) > started:
        # the last member to leave is the only one that may start the cluster again
        return ("bootstrap",) if facts["primary"] and facts["size"] == 1 else ("restart",)
    return ()


def _confirmed(request: MemberRequest, database: MariaDb, sleep: t.Callable[[float], None]) -> bool:
    """Decide again right before the start, from what the others report now: since a run has decided, minutes may have passed.

    Returns whether it starts the cluster; it does not if it is in a Primary Component meanwhile.
    """
    for _second in range(_CONFIRMED_WITHIN):
        name, others = _asked(request, database)
        own = look(database)
        if own["primary"]:
            return False
        reports = {other: _report(others.get(other)) for other in request.confirm}
        why = unconfirmed(name, {**reports, name: Member.from_facts(name, own).report()}, request.forced)
        if not why:
            return True
        sleep(_PAUSE)
    raise RefusedError(
        f"this member does not start the cluster: {why}. It was not so when that was decided.",
        hint="Run the same command again: it decides again. If a member does not answer, start its footprint-galera-guard.service; if its position is "
        "unknown, start its MariaDB, which then waits for the others.",
    )


def _asked(request: MemberRequest, database: MariaDb) -> tuple[str, dict[str, t.Any]]:
    """Return the name of this member and the reports of the others; a person who forces a start does not need a guard here."""
    try:
        return database.others()
    except CommandError:
        if not request.forced:
            raise
        return "", {}


def _report(given: t.Mapping[str, t.Any] | None) -> Report | None:
    """Return a report as the guard of this member has checked it."""
    return Report(**{**given, "view": View(**given["view"]) if given["view"] else None}) if given else None


def _bootstrap(database: MariaDb, uuid: str | None) -> None:
    if database.unit_state().get("ActiveState") not in ("inactive", "failed"):
        # also if it is still starting: its grastate.dat is valid only after a graceful stop
        database.stop()
    database.allow_bootstrap(uuid)
    database.bootstrap()


def _wait(request: MemberRequest, database: MariaDb, sleep: t.Callable[[float], None]) -> dict[str, t.Any]:
    waited = 0.0
    while True:
        status = database.status()
        if status and status.get("wsrep_on") == "ON":
            why = problems(status, request.uuid)
            # the check is started after the server, so it can be missed only before the unit is active
            if not why and (database.unit_state().get("ActiveState") != "active" or database.upgrading()):
                why = ("the upgrade check of its system tables is still running",)
            if not why:
                return look(database, recover=False)
        else:
            why = ("its server does not answer yet",)
        if waited >= request.wait_timeout:
            raise BackendError(
                f"the member is not ready after {int(waited)} s: {'; '.join(why)}. Last log lines: {database.last_log_lines()}",
                hint="Check `journalctl -u mariadb` on this member and on its peers, then run the play again.",
            )
        sleep(_PAUSE)
        waited += _PAUSE
