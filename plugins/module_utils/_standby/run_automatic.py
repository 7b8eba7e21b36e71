# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Automatic starts as parts of the module ``vm_standby``: on the server of the VM their begin and end, on its standby what it needs to claim the VM."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import takeover_key
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_grants, io_lease, io_lease_units, io_store, plan_lease, run_lease
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import parse_watch
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import remove_path

_ASK = 15.0
_NO_ANSWER = "neither {where} confirms that it does not start {vm} by itself."


def _machines(job: Job) -> str:
    return f"{job.standby.name} nor {', '.join(each.name for each in job.witnesses) or 'a witness'}"


# on the server of the VM


def refuse_unfit(job: Job) -> None:
    """Refuse an automatic start on a server without the watchdog that ends the VM when everything else hangs.

    :raises InputError: there is none.
    """
    problem = io_lease_units.watchdog_problem(job.watchdog) if job.automatic else None
    if problem is not None:
        hint = "Load the driver of its watchdog, or accept a weaker protection with standby_watchdog: software or none; docs/standby.md describes the risk."
        raise InputError(f"{problem}.", "automatic", hint)


def differs(job: Job, stored: bool) -> bool:
    """Whether :func:`begin` would change a unit. ``stored``: whether the code of this run is on this server."""
    return job.automatic and (not stored or io_lease_units.lease_differs(job.watchdog, io_units.code_path()))


def is_half_ended(job: Job) -> bool:
    """Whether a VM needs leases although it is not automatic any more: no machine confirmed the end, or the run was killed."""
    return not job.automatic and io_lease.armed(job.uuid) is not None


def begin(job: Job) -> bool:
    """Install the service of the leases for an automatic VM, or remove it if none is left; returns whether something changed."""
    if job.automatic:
        return io_lease_units.install_lease(job.watchdog, io_units.keep_code())
    _tidy()
    return False


def _tidy() -> None:
    jobs = [io_store.StandbyStore(each).job() for each in io_store.names()]
    if not any(each is not None and each.automatic for each in jobs) and not io_lease.all_armed():
        io_lease_units.remove_lease()


def end(store: io_store.StandbyStore, job: Job, what: str) -> None:
    """End the automatic start of a VM before its request changes: a machine must confirm that it does not give the VM away.

    :arg what: is refused otherwise.
    :raises RefusedError: none confirms it.
    """
    if io_lease.armed(job.uuid) is None:
        return
    if job.automatic:
        # so that the service does not begin again
        store.write_job(job_data(job._replace(automatic=False)))
    if not run_lease.disarm(job, _ASK):
        raise RefusedError(
            _NO_ANSWER.format(where=_machines(job), vm=job.id), "id", f"Make sure that one of them answers and has not started it, then {what} again."
        )


def pause(store: io_store.StandbyStore, job: Job) -> None:
    """End it until a move has ended; the copies are paused already.

    :raises RefusedError: no machine confirms it; the copies continue.
    """
    if io_lease.armed(job.uuid) is not None and not run_lease.disarm(job, _ASK):
        store.resume()
        raise RefusedError(
            _NO_ANSWER.format(where=_machines(job), vm=job.id), "id", "It could be started there while it is moved. Make sure that one of them answers."
        )


def finish(store: io_store.StandbyStore, job: Job, confirmed: str | None) -> None:
    """End it together with the copies.

    :arg confirmed: the name of the standby, if a person made sure that it does not start the VM.
    :raises RefusedError: no machine confirms that.
    """
    if confirmed == job.standby.name and io_lease.armed(job.uuid) is not None:
        store.write_job(job_data(job._replace(automatic=False)))
        io_lease.disarm(job.uuid)
    try:
        end(store, job, "end its copies")
    except RefusedError as error:
        hint = f"If they are lost for good, and the VM does not run there, set confirmed: {job.standby.name}."
        raise RefusedError(error.message, "id", hint) from error
    io_lease.forget_fenced(job.id)


def let_go(store: io_store.StandbyStore, job: Job) -> None:
    """After the VM was started on its standby, and removed here: it needs no lease here."""
    store.write_job(job_data(job._replace(automatic=False)))
    io_lease.disarm(job.uuid)
    io_lease.forget_fenced(job.id)


def forget() -> None:
    """Remove the service of the leases after the last automatic VM."""
    _tidy()


def disarmed(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the server of the VM, before its keys are withdrawn: end its automatic start; its copies continue."""
    store = io_store.StandbyStore(params["id"])
    job = store.job()
    if job is None or job.cluster != params["cluster"] or not (job.automatic or io_lease.armed(job.uuid) is not None):
        return {"changed": False}
    if not check_mode:
        finish(store, job, params.get("confirmed"))
        if job.automatic:
            store.write_job(job_data(job._replace(automatic=False)))
        _tidy()
    return {"changed": True, "diff": {"before": f"{job.id}: started by its standby if this server is lost\n", "after": f"{job.id}: not started by itself\n"}}


# on the standby


def watched(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the standby: start the VM by itself from now on, if its server and all witnesses agree; returns the public key for the witnesses."""
    watch = parse_watch({**params, "name": params.get("source")})
    store = io_grants.WatchStore(watch.cluster, watch.id)
    key = run_jobs.prepare_key(store.directory, takeover_key(watch.cluster, watch.id), check_mode=check_mode)
    changed = store.watch() != watch or io_lease_units.takeover_differs(io_units.code_path())
    if not check_mode and changed:
        store.write(watch)
    if not check_mode:
        io_lease_units.install_takeover(io_units.keep_code())
    return {**key, "changed": changed or key["changed"]}


def unwatched(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """On the standby: do not start the VM by itself any more."""
    store = io_grants.WatchStore(params["cluster"], params["id"])
    there = store.directory.is_dir()
    if there and not check_mode:
        remove_path(store.directory)
        store.forget_report()
        if not io_grants.watches():
            io_lease_units.remove_takeover()
    return {"changed": there}


def knows(params: t.Mapping[str, t.Any]) -> bool:
    """Whether this server grants leases of the VM, or starts it by itself."""
    return io_grants.WatchStore(params["cluster"], params["id"]).directory.is_dir() or io_grants.GrantStore(params["cluster"], params["id"]).file.exists()


def unknow(params: t.Mapping[str, t.Any]) -> None:
    """On the standby or a witness: forget the VM."""
    unwatched(params, False)
    store = io_grants.GrantStore(params["cluster"], params["id"])
    with store.locked():
        store.remove()


def returned(params: t.Mapping[str, t.Any], check_mode: bool) -> bool:
    """On the standby or a witness, before the record of a start is removed: the period under leases that led to it has ended.

    :returns: whether there was a claim.
    """
    store = io_grants.GrantStore(params["cluster"], params["id"])
    grants = store.grants()
    if not check_mode and grants != plan_lease.returned(grants):
        with store.locked():
            store.keep(plan_lease.returned(store.grants()))
    return grants.claim is not None


def abandoned(params: t.Mapping[str, t.Any], check_mode: bool) -> bool:
    """On a witness: end the claim of a standby that is lost for good, and that a person named; returns whether there was one."""
    claimed = io_grants.GrantStore(params["cluster"], params["id"]).grants().claimed_by
    return claimed is not None and params.get("confirmed") == claimed and returned(params, check_mode)
