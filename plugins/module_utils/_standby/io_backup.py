# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirt's backup jobs of a running VM: all disks at one point in time, exported over NBD."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_channel
from ansible_collections.reduced.footprint.plugins.module_utils._standby import xml_backup
from ansible_collections.reduced.footprint.plugins.module_utils._standby.xml_backup import Disk
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt, libvirt_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

_ABORTED = 30.0
_AGENT_SECONDS = 5
_THAW_SECONDS = 30


def scratch_path(vm_id: str, disk: Disk) -> str:
    """The file for blocks that the guest overwrites during a copy; next to the disk, where there is space."""
    return os.path.join(os.path.dirname(disk.path), f".{vm_id}-{disk.target}.standby-scratch")


class Backup:
    """The backup job of one VM.

    :arg vm_id: for the names of socket and scratch files.
    """

    def __init__(self, host: DomainHost, uuid: str, vm_id: str) -> None:
        self._host, self._uuid, self._vm_id = host, uuid, vm_id
        self._socket_name = f"standby-{vm_id}"
        # until a restart of the server, which ends the guest as well
        self._mark = io_files.RUN / f"frozen-{vm_id}"
        #: Whether the guest agent froze the file systems.
        self.frozen = False

    def _domain(self) -> t.Any:
        return self._host.connection.lookupByUUIDString(self._uuid)

    def checkpoints(self) -> list[str]:
        """Return the names of all checkpoints."""
        with libvirt_errors("cannot list the checkpoints"):
            return [each.getName() for each in self._domain().listAllCheckpoints()]

    def forget(self, names: t.Iterable[str]) -> None:
        """Delete checkpoints with their bitmaps; of a VM that is off only their record."""
        for name in names:
            with libvirt_errors(f"cannot delete the checkpoint {name}"):
                domain = self._domain()
                found = domain.checkpointLookupByName(name)
                try:
                    found.delete(0 if domain.isActive() else libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)
                except libvirt.libvirtError:
                    # the bitmap may be gone or damaged, for example after a power loss
                    found.delete(libvirt.VIR_DOMAIN_CHECKPOINT_DELETE_METADATA_ONLY)

    def abort(self, disks: t.Sequence[Disk]) -> bool:
        """End a job that a killed run left behind, and remove its files; returns whether there was one."""
        with libvirt_errors("cannot end the earlier backup job"):
            domain = self._domain()
            there = False
            with contextlib.suppress(libvirt.libvirtError):
                job = parse(domain.backupGetXMLDesc())
                # one of this collection
                there = any((each.get("file") or "").endswith(".standby-scratch") for each in job.iter("scratch"))
            if there:
                domain.abortJob()
                until = time.monotonic() + _ABORTED
                while time.monotonic() < until:
                    try:
                        domain.backupGetXMLDesc()
                    except libvirt.libvirtError:
                        break
                    time.sleep(0.2)
        for disk in disks:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch_path(self._vm_id, disk))
        io_channel.remove_folder(self._socket_name)
        return there

    def begin(self, disks: t.Sequence[Disk], others: t.Sequence[str], *, since: str | None, checkpoint: str | None, domain_name: str) -> str:
        """Start the job at one point in time, and return the path of the socket.

        :arg since: the checkpoint since which changed blocks are marked.
        :arg checkpoint: the checkpoint to create at the same point in time, ``None`` for none.
        :raises BackendError: libvirt refuses.
        """
        io_channel.make_folder(self._socket_name, io_channel.owner(self._host))
        socket = io_channel.socket_path(self._socket_name, io_channel.DISKS, domain_name)
        job = xml_backup.backup(disks, others, socket, lambda disk: scratch_path(self._vm_id, disk), since)
        point = xml_backup.checkpoint(checkpoint, disks, others) if checkpoint else None
        with libvirt_errors("cannot start the backup job"), self._quiet():
            self._domain().backupBegin(job, point, 0)
        return socket

    @contextlib.contextmanager
    def _quiet(self) -> t.Iterator[None]:
        """Freeze the file systems of the guest, if its agent is there."""
        self.frozen = False
        if not self._has_agent():
            yield
            return
        io_files.private_folder(io_files.RUN)
        # a worker that is killed meanwhile must not leave them frozen
        self._mark.touch()
        domain = self._domain()
        try:
            domain.agentSetResponseTimeout(_AGENT_SECONDS, 0)
            domain.fsFreeze()
            self.frozen = True
        except libvirt.libvirtError as error:
            if error.get_error_code() in (libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED, libvirt.VIR_ERR_OPERATION_UNSUPPORTED):
                # the VM has no agent
                self._mark.unlink(missing_ok=True)
        try:
            yield
        finally:
            # an agent whose answer was only late freezes them all the same
            with contextlib.nullcontext() if self.frozen else contextlib.suppress(BackendError):
                self.thaw()

    def _has_agent(self) -> bool:
        """Whether the agent of the guest has opened its channel: without it nothing can be frozen, and later thawed."""
        with libvirt_errors("cannot read the definition of the VM"):
            target = parse(self._domain().XMLDesc()).find("devices/channel/target[@name='org.qemu.guest_agent.0']")
        return target is not None and target.get("state") != "disconnected"

    def thaw(self) -> None:
        """Thaw the file systems of the guest, if this or an earlier run may have left them frozen; if they are not, this changes nothing.

        :raises BackendError: the agent does not answer; the next run tries again.
        """
        if not self._mark.exists():
            return
        with libvirt_errors("cannot thaw the file systems of the guest", "Run virsh domfsthaw for this VM."):
            domain = self._domain()
            if domain.isActive():
                domain.agentSetResponseTimeout(_THAW_SECONDS, 0)
                domain.fsThaw()
        self._mark.unlink(missing_ok=True)


def domain_facts(host: DomainHost, uuid: str) -> tuple[t.Any, t.Any]:
    """Return the record and the parsed definition of a domain."""
    record = host.domain(uuid)
    if record is None:
        raise BackendError(f"the domain {uuid} does not exist on this server.", hint="Define the VM again, or remove standby from its details.")
    return record, parse(record.config_xml)
