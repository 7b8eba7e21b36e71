# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State shared by all phases of a migration: request, journal, and access to source, disk and domain."""

from __future__ import annotations

import dataclasses
import pathlib
import platform
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap.plan_bootstrap import EXPORT
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap.run_bootstrap import PXE, BootstrapMachine
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import plan_raw_devices
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_remote_disk import RemoteDisk
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import BIOS, DiskLayout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_features import lacking
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout, same_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_preflight import filesystems_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_facts import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import RemoteSource, key_marker
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms

WORK = pathlib.Path("/run/reduced.footprint")
# how often a progress report may rewrite the journal, in seconds
_SAVE_EVERY = 1.0


def machine_id() -> str:
    """The machine ID of this host."""
    return (read_text("/etc/machine-id") or "").strip()


def vm_details(spec: MigrationSpec) -> VmDetails:
    """The details of the master's VM, with defaults for a master.

    It boots from disk only: after a failed boot from disk, a system from the network would get the master's data.

    :raises InputError: the VM is a container, has no network card, may boot from the network, or a disk to be filled is not raw or has no size.
    """
    vm = parse_vms([vm_entry(spec)], "vm", cluster=spec.cluster)[0]
    if vm.hypervisor == "lxc":
        raise InputError("'lxc' is not supported for a machine that boots its own kernel.", "vm.hypervisor", "Use kvm, qemu or auto.")
    if "network" in str(spec.vm.get("boot")):
        raise InputError("is not supported for a machine with a master's data.", "vm.boot", "Remove network: anyone in that network could boot it.")
    if not vm.nics:
        raise InputError("at least one network card is required.", "vm.nics", "Name the bridge of the admin network, e.g. [{bridge: br-admin}].")
    for index in range(disks_filled(spec, vm)):
        disk = vm.disks[index] if index < len(vm.disks) else None
        if disk is None or disk.size is None or disk.image:
            raise InputError("a disk with size and without image is required.", f"vm.disks[{index}]", "Set size and remove image; the copy fills the disk.")
        if disk.format != "raw":
            raise InputError(f"expected raw, got {disk.format!r}: the destination host fills raw disks only.", f"vm.disks[{index}].format", "Use raw.")
    return vm


def disks_filled(spec: MigrationSpec, vm: VmDetails) -> int:
    """How many of the VM's disks the copy may fill: those named in ``disk_schema``; without it all leading disks that are raw and empty."""
    if spec.disk_schema:
        return 1 + max(each.disk for each in spec.disk_schema)
    return next((index for index, each in enumerate(vm.disks) if index and (each.size is None or each.image or each.format != "raw")), max(1, len(vm.disks)))


def vm_entry(spec: MigrationSpec) -> dict[str, t.Any]:
    """The VM details passed to the template."""
    return {"roles": ["master"], "boot": ["hd"], "name": spec.name, **spec.vm}


def layout_of(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any] | None) -> DiskLayout:
    """Return the layout of the new disks."""
    facts = source or {}
    sizes = [t.cast(int, each.size) for each in vm.disks[: disks_filled(spec, vm)]]
    firmware = vm.boot_firmware or BIOS
    filesystems = filesystems_of(facts, spec.excludes)
    raws = plan_raw_devices.found(facts) if spec.sync == plan_raw_devices.RSYNC_DD else ()
    schema = plan_raw_devices.resolved(spec.disk_schema, facts) or same_schema(filesystems, facts.get("swaps", []), sizes, firmware, raws)
    layout = plan_layout(sizes, schema, filesystems, vm.uuid, firmware)
    if source is None:
        return layout
    return dataclasses.replace(layout, partitions=tuple(dataclasses.replace(each, lacking=lacking(each.fs, facts)) for each in layout.partitions))


@dataclasses.dataclass
class Context:
    """One worker's view of its migration."""

    spec: MigrationSpec
    vm: VmDetails
    store: JournalStore
    journal: Journal
    code: pathlib.Path
    source: RemoteSource
    saved: float = 0.0
    image: DiskImage | None = None

    @property
    def key_marker(self) -> str:
        """Comment of the one-time key in authorized_keys."""
        return key_marker(self.spec.name)

    @property
    def source_facts(self) -> dict[str, t.Any]:
        """The facts of the source that preflight gathered."""
        return dict(self.journal.facts.get("source_facts", {}))

    @property
    def bridge(self) -> str | None:
        """The bridge of the admin network on the destination."""
        return self.vm.nics[0].bridge

    def layout(self) -> DiskLayout:
        """The layout of the new disks; fixed once they are partitioned."""
        kept = self.journal.facts.get("layout")
        if kept and self.journal.finished("partition"):
            return DiskLayout.from_dict(kept)
        return layout_of(self.spec, self.vm, self.source_facts)

    def disk(self) -> DiskImage:
        """The new disks as files of this host; with ``boot: pxe`` the bootstrap system exports them and boots when they are accessed."""
        if self.image is None and self.spec.boot == PXE:
            self.image = RemoteDisk(self.layout(), WORK / f"migrate-{self.spec.name}", BootstrapMachine(self), EXPORT)
        if self.image is None:
            layout = self.layout()
            images = [self.journal.facts["vm"]["disks"][each.index] for each in layout.disks]
            self.image = DiskImage(images, layout, WORK / f"migrate-{self.spec.name}")
        return self.image

    def settle(self) -> None:
        """Write the copy to its disks; after a lost write the next run creates the copy again.

        Sizes and times of its files look correct then, so no later pass would transfer the lost content.

        :raises LostWriteError: a write was lost.
        """
        try:
            self.disk().settle()
        except LostWriteError:
            self.journal.facts["spoilt"] = True
            self.save()
            raise

    def manifests(self) -> tuple[pathlib.Path, pathlib.Path]:
        """The paths of the manifests of source and copy."""
        return self.store.directory / "source.manifest", self.store.directory / "copy.manifest"

    def domains(self) -> DomainHost:
        """A connection to the hypervisor; use as a context manager."""
        return DomainHost(self.spec.uri)

    def clone_running(self) -> bool:
        """Whether the new master's VM runs."""
        with self.domains() as host:
            record = host.domain(self.vm.uuid)
        return record is not None and record.active

    @property
    def guard(self) -> VmGuard:
        """The guard that stops the VM when this worker cannot."""
        return VmGuard(self.spec.name)

    def save(self) -> None:
        """Write the journal; steps that depend on it must not run if no space is left."""
        self.saved = time.monotonic()
        self.store.write(self.journal)

    def keep(self) -> None:
        """Write the journal if possible; a full disk does not stop the current step."""
        try:
            self.save()
        except OSError as error:
            self.log(f"the journal was not written: {error}")

    def progress(self, **values: t.Any) -> None:
        """Report progress; the journal is rewritten at most once a second."""
        self.journal.progress.update(values)
        if time.monotonic() - self.saved >= _SAVE_EVERY:
            self.keep()

    def reported(self) -> dict[str, t.Any]:
        """The journal as mirrored to the source: without the source's facts, with the name and ID of this host."""
        # read from the file: another thread may call this while the journal is modified
        journal = dataclasses.asdict(self.store.read() or self.journal)
        for fact in ("source_facts", "layout"):
            journal["facts"].pop(fact, None)
        if journal["facts"].get("handed_over"):
            # the last report before the key is withdrawn
            journal["state"] = "done"
        return {"journal": journal, "host": platform.node(), "host_id": machine_id(), "reported_at": time.time()}

    def mirror(self) -> None:
        """Store the journal on the source as well; a source that does not answer is not an error."""
        try:
            self.source.ask("mirror", {"journal": self.reported()}, timeout=20)
        except FootprintError as error:
            self.log(f"the journal was not mirrored to the source: {error.message}")

    def log(self, message: str) -> None:
        """Write a line to the log."""
        self.store.log(f"{self.journal.phase}: {message}")


def remote(spec: MigrationSpec, store: JournalStore, code: pathlib.Path) -> RemoteSource:
    """A connection to the source."""
    addresses = list(dict.fromkeys((spec.source.address, spec.admin.address, spec.admin.temporary_address)))
    return RemoteSource(spec.name, store.directory, addresses, spec.source.port, spec.source.host_keys, code)
