# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: another host fetches a backup of a cluster every day, with the images and keys that belong to it.

The worker is ``python3 -m …run_daily_backup CLUSTER``. One timer on one host decides, so there is one backup a day whichever members are ready.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_folder, read_text, rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import check_name, choose_member
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source, io_rsync, io_units, run_jobs
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import BACKUP_FOLDERS, BACKUP_SPOOL, backup_key

HOME = pathlib.Path("/var/lib/reduced.footprint/daily-backup")
MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._galera.run_daily_backup"
AGENT = "ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup_agent"
#: Exit code of a run that has stored the database, but not all images.
INCOMPLETE = 3
_FILES = ".files"
_PENDING = ".images"
_IMAGE = "????????-????-????-????-????????????"
_MADE = "%Y%m%dT%H%M%SZ"
_MAKING = 12 * 3600.0


class _Member(io_remote_source.RemoteSource):
    """The ssh connection to a member, with the permanent key."""

    agent = AGENT

    def __init__(self, cluster: str, member: t.Mapping[str, t.Any], directory: pathlib.Path) -> None:
        super().__init__(backup_key(cluster), directory, [member["host"]], member["port"], member["host_keys"], io_units.code_path())
        self.known_hosts = f"known_hosts.{member['name']}"
        self.who = member["name"]
        # with the key
        self._installed = True

    def fetch(self, path: str, target: pathlib.Path, *options: str) -> None:
        """Copy a file, or the files of a folder; links and attributes other than the time are not copied."""
        argv = ["rsync", "-rt", "-s", "--partial", "--stats", "--outbuf=L", *options, "-e", " ".join(self.ssh_argv())]
        io_rsync.transfer([*argv, f"{self.address}:{path}", str(target)])


def texts(cluster: str, time: str, code: pathlib.Path) -> dict[str, str]:
    """Return unit → content of service and timer."""
    name = f"reduced-footprint-backup-{cluster}"
    service = (
        f"[Unit]\nDescription=Backup of the database of {cluster} (reduced.footprint)\nWants=network-online.target\nAfter=network-online.target\n"
        "\n"
        f"[Service]\nType=oneshot\nUMask=0077\nWorkingDirectory=/\nNice=5\n"
        f"Environment=PYTHONPATH={code} PYTHONDONTWRITEBYTECODE=1\nExecStart={sys.executable} -m {MODULE} {cluster}\n"
    )
    # a failed run is repeated each hour; without a failure, the later ones find a backup of this day
    hours, minutes = ",".join(f"{(int(time[:2]) + later) % 24:02}" for later in range(4)), time[3:]
    timer = (
        f"[Unit]\nDescription=Daily backup of the database of {cluster} (reduced.footprint)\n\n"
        f"[Timer]\nOnCalendar=*-*-* {hours}:{minutes}:00\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )
    return {f"{name}.service": service, f"{name}.timer": timer}


def schedule(params: t.Mapping[str, t.Any], *, check_mode: bool) -> dict[str, t.Any]:
    """Install the timer and its key on this host, or remove them; stored backups are kept.

    :returns: keyword arguments for ``exit_json``.
    :raises InputError: invalid name, time or directory.
    """
    cluster = check_name(params["cluster"], "cluster")
    if not re.match(r"\A([01][0-9]|2[0-3]):[0-5][0-9]\Z", params["time"]):
        raise InputError(f"{params['time']!r} is not a time of day.", "time", "Write hours and minutes in quotes, e.g. '02:15'.")
    if not os.path.isabs(params["directory"]):
        raise InputError(f"{params['directory']!r} is not an absolute path.", "directory", "Start the path with '/'.")
    store = JournalStore(cluster, HOME)
    wanted = texts(cluster, params["time"], io_units.code_path())
    timer = next(name for name in wanted if name.endswith(".timer"))
    if params["state"] == "unscheduled":
        there = [name for name in wanted if (io_units.UNITS / name).exists()]
        if not check_mode and (there or store.directory.exists()):
            run(["systemctl", "disable", "--quiet", "--now", timer], ok=range(256))
            for name in there:
                (io_units.UNITS / name).unlink(missing_ok=True)
            run(["systemctl", "daemon-reload"])
            shutil.rmtree(store.directory, ignore_errors=True)
        return {"changed": bool(there), "diff": {"before": "".join(f"{name}\n" for name in there), "after": ""}}
    key = run_jobs.prepare_key(store.directory, backup_key(cluster), check_mode=check_mode)
    job = {"cluster": cluster, "directory": params["directory"], "retain": params["retain"], "members": params["members"]}
    differing = [name for name, text in wanted.items() if read_text(io_units.UNITS / name) != text]
    changed = key["changed"] or bool(differing) or store.read_job() != job
    if not check_mode:
        io_units.keep_code()
        store.write_job(job)
        for name in differing:
            write_atomic(io_units.UNITS / name, wanted[name], mode=0o644)
        if differing:
            run(["systemctl", "daemon-reload"])
        run(["systemctl", "enable", "--quiet", timer])
        run(["systemctl", "restart" if timer in differing else "start", timer])
    return {"changed": changed, "public_key": key["public_key"], "diff": {"before": "", "after": "".join(f"{name}\n" for name in differing)}}


def fetch(cluster: str) -> list[str]:
    """Create a backup on the ready member with the fewest clients and store it here; return the images that the member does not have.

    If one was made within 12 hours, only the images and keys that it lacks are fetched.

    :raises FootprintError: no member can be backed up, or the backup cannot be stored.
    """
    store = JournalStore(cluster, HOME)
    job = store.read_job()
    if job is None:
        raise BackendError(f"this host does not fetch backups of {cluster}.", hint="Run deploy_controllers with galera_backup_host.")
    directory = pathlib.Path(job["directory"])
    # the images that belong to the newest backup, as long as it lacks some of them
    pending = directory / run_backup.INCOMING / f"{cluster}{_PENDING}"
    now = datetime.datetime.now(datetime.timezone.utc)
    backup = max((each for each in run_backup.backups(directory) if each.cluster == cluster), key=lambda each: each.made, default=None)
    # one that is dated later was made before the clock was set back
    if backup and not (now - datetime.timedelta(hours=12)).strftime(_MADE) < backup.made <= now.strftime(_MADE):
        backup = None
    if backup and not pending.exists():
        sys.stdout.write(f"the last backup was made at {backup.made}\n")
        return []
    members = {each["name"]: _Member(cluster, each, store.directory) for each in job["members"]}
    seen: dict[str, dict[str, t.Any]] = {}
    for name, member in members.items():
        try:
            seen[name] = member.ask("look", timeout=120)
        except FootprintError as error:
            sys.stderr.write(f"{name} does not answer: {error.message}\n")
            seen[name] = {}
    member = members[choose_member({name: found.get("facts") for name, found in seen.items()})]
    make_folder(pending.parent, 0o700)
    if backup is None:
        backup = _fetch_backup(cluster, job, member, pending)
    images = json.loads(read_text(pending) or "[]")
    missing = _fetch_folders(directory, member, backup.name, seen[member.who]["folders"], images)
    for each in members.values():
        with contextlib.suppress(FootprintError):
            each.ask("stored", {"backup": backup.as_dict()})
    if not missing:
        pending.unlink()
    sys.stdout.write(f"{backup.file}, position {backup.uuid}:{backup.seqno}, with {len(images) - len(missing)} images of {member.who}\n")
    return missing


def _fetch_backup(cluster: str, job: t.Mapping[str, t.Any], member: _Member, pending: pathlib.Path) -> run_backup.Backup:
    """Create a backup on a member and store it here; write down the images that belong to it before it is stored."""
    made = member.ask("make", {"member": member.who}, timeout=_MAKING, once=True)
    backup = run_backup.parse_backup(made["backup"], "backup")
    if backup.cluster != cluster:
        raise BackendError(f"{member.who} sent a backup of {backup.cluster}, not of {cluster}.")
    try:
        member.fetch(f"{BACKUP_SPOOL}/{backup.file}", pending.parent / backup.file)
    finally:
        # its disk must not fill up while this host cannot store backups
        with contextlib.suppress(FootprintError):
            member.ask("drop", {"backup": backup.as_dict()})
    write_atomic(pending, json.dumps(made["images"]), 0o600)
    run_backup.keep(job["directory"], str(pending.parent / backup.file), backup, job["retain"], check_mode=False)
    return backup


def _fetch_folders(directory: pathlib.Path, member: _Member, name: str, folders: t.Sequence[str], images: t.Sequence[str]) -> list[str]:
    """Fetch what belongs to a backup; files that an earlier one has as well are linked. Returns the images that the member does not have."""
    partial = directory / run_backup.INCOMING / f"{name}{_FILES}"
    for left in partial.parent.glob(f"*{_FILES}"):
        if left != partial:
            shutil.rmtree(left)
    if (directory / partial.name).exists():
        # incomplete until now; this member may lack what another one had
        rename(directory / partial.name, partial, new=True)
    earlier = sorted(each for each in directory.glob(f"*{_FILES}") if each.is_dir())[-1:]
    # those that a member may have, whatever it names
    for folder in (name for name in BACKUP_FOLDERS if name in folders):
        (partial / folder).mkdir(parents=True, mode=0o700, exist_ok=True)
        only = [f"--include={_IMAGE}", "--exclude=*"] if folder == "images" else []
        link = [f"--link-dest={each / folder}" for each in earlier if (each / folder).is_dir()]
        member.fetch(f"{BACKUP_FOLDERS[folder]}/", partial / folder, *only, *link)
    if partial.exists():
        run(["sync", "--file-system", str(partial)])
        rename(partial, directory / partial.name, new=True)
    kept = {each.name for each in run_backup.backups(directory)}
    for old in directory.glob(f"*{_FILES}"):
        if old.name[: -len(_FILES)] not in kept:
            shutil.rmtree(old)
    return sorted(image for image in images if not (directory / partial.name / "images" / image).is_file())


def main(argv: t.Sequence[str]) -> int:
    """Entry point of the worker; returns the exit code."""
    try:
        missing = fetch(check_name(argv[0] if len(argv) == 1 else None, "cluster"))
    except FootprintError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if missing:
        sys.stderr.write(f"The backup lacks images that glance has, but the member does not: {', '.join(missing)}.\n")
    return INCOMPLETE if missing else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
