# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phases before the pause, which do not affect the source's services, and the copy passes."""

from __future__ import annotations

import os
import platform
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy import io_boot
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import PATTERNS, plan_fixups
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_destination_facts, io_vm_guard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.plan_phases import converged, predict
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import MAINTENANCE_BOOT
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_units import holds_everything
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest, io_rsync
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_login import greeting
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import NONE
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import Problem, as_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_preflight
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import run_bootstrap, xml_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import run_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, layout_of, vm_entry
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import run_health
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.plan_source import SOURCE_OWN, container_files, containers_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms

_TOOLS = (*plan_preflight.DESTINATION_TOOLS, *plan_preflight.MKFS_TOOLS.values(), plan_preflight.ESP_TOOL)


def destination(context_spec: t.Any, vm: t.Any, source: t.Mapping[str, t.Any] | None) -> dict[str, t.Any]:
    """Return the facts of this host; the source's MACs are taken into account."""
    macs = [each["mac"] for each in (source or {}).get("interfaces", [])]
    facts = io_destination_facts.gather(context_spec, vm, _TOOLS, macs)
    if context_spec.boot == run_bootstrap.PXE:
        facts["bootstrap"] = run_bootstrap.facts()
    return facts


def preflight(context: Context) -> None:
    """Check source and destination; raises one error with all problems found."""
    source: dict[str, t.Any] | None = None
    problems: list[Problem] = []
    try:
        sent = time.time()
        containers = [each._asdict() for each in context.spec.containers]
        given = {"services": list(context.spec.services), "containers": containers, "excludes": list(context.spec.excludes)}
        answer = context.source.ask("facts", {**given, "address": context.spec.admin.address})
        source = answer["facts"]
        source["clock_offset"] = source["time"] - (sent + time.time()) / 2
    except FootprintError as error:
        problems.append(Problem(f"The source does not answer: {error.message}", error.hint or "Check the log.", "source.address"))
    if context.source.printed:
        problems.append(Problem(*greeting(context.source.printed), "source.address"))
    layout = layout_of(context.spec, context.vm, source)
    problems += plan_preflight.find_problems(context.spec, context.vm, layout, source, destination(context.spec, context.vm, source))
    context.journal.problems = [each._asdict() for each in problems]
    if problems or source is None:
        raise FootprintError(as_text(problems))
    tree = source.pop("tree")
    name, prefix = plan_preflight.admin_interface(context.spec, source)
    context.journal.facts["source_facts"] = {**source, "filesystems": plan_preflight.systems_of(source, context.spec.excludes)}
    context.journal.facts["source"] = {
        "hostname": source["hostname"],
        "machine_id": source["machine_id"],
        "interface": context.journal.facts.get("source", {}).get("interface") or name,
        "prefix": context.spec.admin.prefix or prefix,
        "address": context.spec.admin.address,
        "temporary_address": context.spec.admin.temporary_address,
    }
    context.journal.warnings = plan_preflight.find_warnings(source, context.spec, context.vm, tree)


def define(context: Context) -> None:
    """Define the VM from the libvirt template, stopped and without autostart, and create its empty disks."""
    stop_clone(context)
    # a running bootstrap system uses the old disks
    run_bootstrap.sweep(context)
    spec = context.spec
    request = DefineRequest(
        cluster=spec.cluster,
        vms=[vm_entry(spec)],
        state="present",
        template=spec.template or "default",
        uri=spec.uri,
        pool=spec.pool,
        autostart=False,
        origin="migration",
        # their content comes from the source, so a removed disk image is created again
        recreate_disks=[disk.name for disk in context.vm.disks],
    )
    result = define_vms(request, check_mode=False)
    if result.failed:
        raise BackendError("; ".join(str(each.error) for each in result.vms if each.error), "vm")
    with context.domains() as host:
        record = host.domain(context.vm.uuid)
    disks = io_destination_facts.disk_paths(record.config_xml) if record else []
    if record is None or len(disks) < 1 + max(each.index for each in context.layout().disks):
        raise BackendError(f"{context.vm.name} was defined without all disks of the layout.", "template", "Add the disks of vm.disks to the template.")
    if xml_bootstrap.boots_from_network(record.config_xml):
        raise BackendError(f"{context.vm.name} was defined with a boot from the network.", "template", "Remove it: anyone in that network could boot it.")
    context.journal.facts["vm"] = {
        "name": record.name,
        "uuid": record.uuid,
        "macs": list(context.vm.macs),
        "disk": disks[0],
        "disks": disks,
        "host": platform.node(),
    }


def partition(context: Context) -> None:
    """Create partition tables and file systems; all data on the disks is lost."""
    layout = context.layout()
    for each in layout.disks:
        size = os.stat(context.journal.facts["vm"]["disks"][each.index]).st_size
        if size < each.size:
            raise BackendError(f"The disk image has {size} bytes, expected {each.size}.", f"vm.disks[{each.index}].size", "Remove the image and run again.")
    run_blocks.forget(context)
    context.manifests()[1].unlink(missing_ok=True)
    context.disk().write_table()
    context.disk().make_filesystems()
    context.journal.facts["layout"] = layout.as_dict()
    for stale in ("spoilt", "unsettled"):
        context.journal.facts.pop(stale, None)


def precopy(context: Context) -> None:
    """Copy while the source serves, in passes until one is short enough."""
    passes = context.journal.passes = []
    while not converged(passes, context.spec.max_passes, context.spec.max_downtime):
        copy_pass(context, "live", tolerate_vanished=True)
    _prepare_boot(context)


def final(context: Context) -> None:
    """The last copy pass, from the quiesced source."""
    copy_pass(context, "final", tolerate_vanished=False, excludes=io_boot.MADE_HERE)


def copy_pass(context: Context, kind: str, *, tolerate_vanished: bool, excludes: t.Sequence[str] = ()) -> None:
    """Copy all file systems of the source once, and record the pass in the journal.

    :raises BackendError: the pass failed; a full disk is reported as such.
    """
    tree = context.disk().mount()
    drop_flags(context, tree)
    again = _interrupted(context)
    context.journal.facts["unsettled"] = io_state.boot_id()
    context.save()
    systems = context.source_facts["filesystems"]
    mounts = [each["mount"] for each in systems]
    number = len(context.journal.passes) + 1
    entry: dict[str, t.Any] = {"number": number, "kind": kind, "seconds": 0.0, "bytes": 0, "files": 0, "total_bytes": 0}
    started = time.monotonic()
    whole = max(1, sum(int(each["used"]) for each in systems) + sum(raw.size for _partition, raw in context.layout().raws))
    used_before = context.disk().used()

    def report_progress(moved: int, compared: int = 0, rate: str | None = None) -> None:
        # rsync counts holes of sparse files, the used space of the copy does not
        now = context.disk().used() + compared
        values: dict[str, t.Any] = {"number": number, "bytes": entry["bytes"] + moved, "percent": min(100, 100 * now // whole), "rate": rate}
        if number == 1 and now > used_before:
            # only the first pass copies everything; the size of a later one is known at its end
            values["seconds_left"] = round((time.monotonic() - started) * max(0, whole - now) / (now - used_before))
        context.progress(phase=context.journal.phase, **values)

    for system in systems:
        target = tree.make_folder(system["mount"])
        try:
            copied = io_rsync.pull(
                context.source.ssh_argv(),
                context.source.address,
                system["mount"],
                target,
                io_rsync.filters(system["mount"], mounts, [*SOURCE_OWN, *context.spec.excludes, *excludes]),
                tolerate_vanished=tolerate_vanished,
                checksum=again,
                # in the pause the services are stopped and clients wait
                limit=context.spec.bandwidth_limit if kind == "live" else 0,
                progress=lambda done, percent, rate: report_progress(done, rate=rate),
            )
        except CommandError as error:
            # writes before the error may be lost as well
            context.settle()
            full = io_rsync.full_disk(error, system["mount"], target, context.journal.facts["vm"]["disk"])
            raise full or error from error
        entry["bytes"] += copied.bytes
        entry["files"] += copied.files
        entry["total_bytes"] += copied.total_bytes
    moved, compared = run_blocks.bring_all(context, kind, lambda seen, came: report_progress(came, seen))
    entry["bytes"] += moved
    entry["total_bytes"] += compared
    # the pass includes writing everything to the disk
    context.settle()
    context.journal.facts.pop("unsettled")
    entry["seconds"] = round(time.monotonic() - started, 3)
    context.journal.passes.append(entry)
    context.journal.progress.pop("seconds_left", None)
    if kind == "live":
        reboots = context.spec.quiesce == MAINTENANCE_BOOT
        predicted = predict(context.journal.passes, context.journal.facts, len(context.spec.services), reboots=reboots)
        context.journal.downtime.update(predicted=predicted["seconds"], predicted_parts=predicted["parts"])
    context.log(f"{kind} pass {number}: {entry['files']} files, {entry['bytes']} bytes in {entry['seconds']} s")
    context.save()


def _interrupted(context: Context) -> bool:
    """Return whether files of an earlier pass may be full of zeros with the right size and time: ext4 records both before it writes the content.

    A killed worker loses what it has written to disks of another machine, a restart of this host everything that was not on its disk.
    """
    since = context.journal.facts.get("unsettled")
    return since is not None and (context.spec.boot == run_bootstrap.PXE or since != io_state.boot_id())


def drop_flags(context: Context, tree: Tree) -> None:
    """Remove the immutable and append-only flags that an earlier attempt set on the copy."""
    for path in context.journal.facts.get("flags", ()):
        if tree.status(path, follow=False):
            io_manifest.set_flags(os.fsencode(tree.place(path, follow=False)), NONE)
    if context.journal.facts.pop("flags", None):
        context.save()


def _prepare_boot(context: Context) -> None:
    """Make the copy bootable while the source still serves, because this is slow."""
    apply_fixups(context)
    io_boot.make_bootable(context.disk())
    context.journal.facts["kernels"] = io_boot.kernels(context.disk().mount())
    # copy what the source wrote meanwhile, to shorten the pause
    copy_pass(context, "live", tolerate_vanished=True, excludes=io_boot.MADE_HERE)


def fixup(context: Context) -> None:
    """Apply the fix-ups again, because the last copy pass restored the original files."""
    apply_fixups(context)
    if io_boot.kernels(context.disk().mount()) != context.journal.facts.get("kernels"):
        io_boot.make_bootable(context.disk())


def apply_fixups(context: Context) -> None:
    """Change the copy's configuration; repeated after every copy pass, which restores the original files."""
    began = time.monotonic()
    tree = context.disk().mount()
    files = io_boot.read_files(tree, PATTERNS)
    changes = plan_fixups(files, plan_preflight.fixup_context(context.spec, context.vm, context.layout(), context.source_facts, context.key_marker))
    everything = holds_everything(context.spec.services, context.spec.quiesce)
    changes.update(container_files(context.journal.facts.get("containers") or containers_of(context.source_facts, everything=everything)))
    changes.update(run_health.own_way_in(context, files))
    io_boot.write_changes(tree, changes)
    io_boot.fill_holes(tree, context.source_facts.get("swap_files", []))
    context.disk().pack()
    context.journal.facts["fixups"] = sorted(changes)
    context.journal.facts["fixup_seconds"] = round(time.monotonic() - began, 3)


def stop_clone(context: Context) -> bool:
    """Power off the VM if it runs, and disable its autostart; returns whether it ran.

    If libvirtd does not answer, the VM's process is killed.
    """
    try:
        stopped = _stop(context)
    except BackendError:
        if not io_vm_guard.kill(context.vm.uuid, context.vm.name):
            raise
        stopped = True
    context.guard.end()
    if stopped:
        try:
            run_blocks.forget(context)
        except OSError as error:
            context.log(f"the block hashes of the copy could not be removed: {error}")
    return stopped


def _stop(context: Context) -> bool:
    with context.domains() as host:
        record = host.domain(context.vm.uuid)
        if record is None:
            return False
        if record.active:
            # first, because clients wait for it
            host.shutdown(context.vm.uuid, timeout=0, force=True)
        if record.autostart:
            host.set_autostart(context.vm.uuid, False)
        return record.active
