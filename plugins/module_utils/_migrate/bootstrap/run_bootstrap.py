# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``boot: pxe``: the new master's VM boots a bootstrap system over a network of its own, which exports its disks over ssh.

Missing parts are created when the disks are accessed, so that a migration continues after a kill of the worker
or a restart of the host. Everything is recorded in the journal before it is created.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import io_bootstrap, io_pxe, plan_bootstrap, xml_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_destination_facts import disk_paths
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_rehearsal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.plan_rehearsal import stuck, tail
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context

#: Kernel and initramfs; they contain no secrets and can be created again.
CACHE = pathlib.Path("/var/cache/reduced.footprint")
#: Keys of a running bootstrap system; removed by a restart of the host.
KEYS = pathlib.Path("/run/reduced.footprint")

PXE = "pxe"
_POLL = 0.5
_LOGIN = 30.0
_IN_ERROR = 8


def facts() -> dict[str, t.Any]:
    """Return the facts of this host that preflight checks."""
    return io_bootstrap.gather(plan_bootstrap.TOOLS, plan_bootstrap.MODULES, plan_bootstrap.HELPFUL)


class BootstrapMachine:
    """The machine with the disks of a migration's VM; implements ``Machine`` of the remote disk."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._tap = plan_bootstrap.tap_name(context.vm.uuid)
        name = context.spec.name
        self.unit = plan_bootstrap.unit_name(name)
        self.uuid = plan_bootstrap.stand_in_uuid(context.vm.uuid)
        self.folder = CACHE / f"bootstrap-{name}"
        self.keys = KEYS / f"bootstrap-{name}"

    def socket(self, disk: int) -> str:
        """The socket on which the bootstrap system exports a disk."""
        return f"{plan_bootstrap.SOCKET}{disk}"

    def build(self) -> None:
        """Create kernel, initramfs and boot script from this host's packages."""
        self._note()
        programs = self._programs()
        kernel = io_bootstrap.find_kernel(plan_bootstrap.MODULES, plan_bootstrap.HELPFUL)
        if kernel is None or kernel.missing:
            raise BackendError("This host has no kernel with virtio modules for a VM.", hint="Install its distribution's kernel package.")
        began = time.monotonic()
        size = io_bootstrap.build(self.folder, kernel, plan_bootstrap.places(programs), plan_bootstrap.files)
        io_bootstrap.place(self.folder / plan_bootstrap.SCRIPT, plan_bootstrap.boot_script().encode("ascii"))
        self._context.log(f"bootstrap system built from kernel {kernel.version}, {size} bytes in {time.monotonic() - began:.1f} s")

    def _programs(self) -> dict[str, str]:
        found = io_bootstrap.paths(plan_bootstrap.PROGRAMS)
        missing = [name for name, path in found.items() if path is None]
        if missing:
            raise BackendError(f"{', '.join(missing)} not found on this host.", hint="Install them; the role master_migrate does.")
        return {name: os.path.realpath(path) for name, path in found.items()}

    def up(self) -> list[str]:
        """Start the bootstrap system and wait until it answers; a running one is reused.

        :returns: the ssh command to it, with its address last.
        :raises BackendError: it does not answer.
        """
        self._note()
        spec = self._context.spec
        if not all((self.folder / each).exists() for each in (plan_bootstrap.KERNEL, plan_bootstrap.INITRD, plan_bootstrap.SCRIPT)):
            self.build()
        holder = self._hold()
        ssh = self._ssh(holder)
        with DomainHost(spec.uri) as host:
            record = host.domain(self.uuid)
            # one that has not been resumed, or whose network has ended with its unit, cannot be used
            usable = record is not None and record.state == "running" and (self.keys / "client").exists() and io_pxe.connected(holder, self._tap)
            if not usable:
                io_rehearsal.destroy(host, self.uuid)
                self._switch_on(host, holder)
            self._await(host, lambda: self._exported(ssh))
        return ssh

    def boot_from_source(self) -> None:
        """Boot what the boot server of the admin network delivers, in a machine without disks and keys, which is powered off then."""
        context, left = self._context, self._note()
        with DomainHost(context.spec.uri) as host:
            io_rehearsal.destroy(host, self.uuid)
            shutil.rmtree(self.keys, ignore_errors=True)
            pathlib.Path(left["console"]).unlink(missing_ok=True)
            self._create(host, bridge=context.bridge)
            host.resume(self.uuid)
            self._await(host, lambda: plan_bootstrap.NO_KEYS in io_rehearsal.read_console(left["console"]), from_source=True)
            io_rehearsal.destroy(host, self.uuid)

    def _hold(self) -> int:
        """Start the unit with the network namespace and the boot server; returns the PID."""
        number = io_pxe.process(self.unit)
        if number is None:
            argv = plan_bootstrap.serve_argv(self._tap, self._context.vm.macs[0], str(self.folder))
            io_pxe.stop(self.unit)
            io_pxe.start(self.unit, argv, f"Network boot of {self._context.spec.name} (reduced.footprint)")
            number = io_pxe.process(self.unit)
            if number is None:
                raise BackendError(f"{self.unit} ended immediately.", hint=f"Check journalctl -u {self.unit}.")
        return number

    def _ssh(self, holder: int) -> list[str]:
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "HostKeyAlias": "bootstrap",
            "UserKnownHostsFile": str(self.keys / "known_hosts"),
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "5",
            # it runs on this host: missing answers are caused by load, not by the network
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "12",
            "ControlPath": "none",
            "Compression": "no",
            # ciphers with hardware support first
            "Ciphers": "aes128-gcm@openssh.com,aes128-ctr,chacha20-poly1305@openssh.com",
            "LogLevel": "ERROR",
        }
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.keys / "client"), "-l", "root"]
        for key, value in options.items():
            argv += ["-o", f"{key}={value}"]
        return io_pxe.inside(holder, [*argv, f"{plan_bootstrap.link_local(self._context.vm.macs[0])}%{self._tap}"])

    def _switch_on(self, host: DomainHost, holder: int) -> None:
        """Create new keys and start the machine with them, on the network of the boot server."""
        context = self._context
        self._make_keys()
        disks = disk_paths(host.config_xml(context.vm.uuid))
        left = self._note()
        for path in left["files"]:
            pathlib.Path(path).unlink(missing_ok=True)
        _write_secret(pathlib.Path(left["seed"]), plan_bootstrap.seed((self.keys / "host").read_text("ascii"), (self.keys / "client.pub").read_text("ascii")))
        exported = {f"{plan_bootstrap.DISK_SERIAL}{each.index}": disks[each.index] for each in context.layout().disks}
        self._create(host, disks=exported, seed=(plan_bootstrap.SEED_SERIAL, left["seed"]))
        io_pxe.connect(holder, self._tap, str(plan_bootstrap.SERVER))
        host.resume(self.uuid)

    def _create(self, host: DomainHost, **parts: t.Any) -> None:
        """Create the machine, paused, with these parts of :class:`xml_bootstrap.Machine`."""
        context, left = self._context, self._note()
        name = plan_bootstrap.stand_in_name(context.journal.facts["vm"]["name"])
        machine = xml_bootstrap.Machine(name, self.uuid, context.vm.macs[0], self._tap, left["console"], **parts)
        io_rehearsal.start_paused(host, xml_bootstrap.bootstrap_xml(host.config_xml(context.vm.uuid), machine), outlives=True)
        where = f"from the network of {machine.bridge}, without disks and keys" if machine.bridge else "from the network of its boot server"
        context.log(f"the bootstrap system boots as {name}, {where}")

    def _make_keys(self) -> None:
        shutil.rmtree(self.keys, ignore_errors=True)
        self.keys.mkdir(parents=True, mode=0o700)
        for name in ("host", "client"):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"bootstrap-{name}", "-f", str(self.keys / name)])
        public = (self.keys / "host.pub").read_text("ascii").split()[:2]
        write_atomic(self.keys / "known_hosts", f"bootstrap {' '.join(public)}\n")

    def _exported(self, ssh: t.Sequence[str]) -> bool:
        """Whether the bootstrap system exports all disks."""
        wanted = {each.index for each in self._context.layout().disks}
        try:
            found = plan_bootstrap.exported(run([*ssh, "ready"], timeout=_LOGIN).stdout)
        except CommandError:
            return False
        if not wanted <= set(found):
            raise BackendError(f"it exports the disks {sorted(found)}, expected {sorted(wanted)}")
        return True

    def _await(self, host: DomainHost, ready: t.Callable[[], bool], *, from_source: bool = False) -> None:
        """Wait until the bootstrap system is ready."""
        context, left = self._context, self._note()
        began = time.monotonic()
        while True:
            try:
                if ready():
                    break
                reason = stuck(io_rehearsal.read_console(left["console"]))
                io_rehearsal.check_alive(host, self.uuid)
            except BackendError as error:
                reason = error.message
            seconds = time.monotonic() - began
            if reason or seconds > context.spec.boot_timeout:
                lines = tail(io_rehearsal.read_console(left["console"]), _IN_ERROR)
                message, hint = plan_bootstrap.unreached(seconds, lines, from_source=from_source, unit=self.unit, folder=str(self.folder))
                raise BackendError(f"{message}{f' ({reason})' if reason else ''}", hint=hint)
            context.progress(phase=context.journal.phase, waiting_for="the bootstrap system to boot")
            time.sleep(_POLL)
        context.log(f"the bootstrap system answers after {time.monotonic() - began:.1f} s")

    def _note(self) -> dict[str, t.Any]:
        """Record in the journal what is about to be created; returns the record."""
        journal = self._context.journal
        left = journal.facts.get("bootstrap")
        if left is None:
            name = plan_bootstrap.stand_in_name(journal.facts["vm"]["name"])
            disk = journal.facts["vm"]["disk"]
            seed = io_rehearsal.overlay_path(disk, name, 0).replace(".qcow2", "-keys.img")
            console = str(io_rehearsal.CONSOLES / f"{name}-console.log")
            left = {"uuid": self.uuid, "unit": self.unit, "seed": seed, "console": console, "files": [seed, console]}
            journal.facts["bootstrap"] = left
            self._context.save()
        return dict(left)

    def down(self) -> None:
        """Power off the bootstrap system, and remove keys, network and server. Boot files that the source serves too are kept."""
        left = self._context.journal.facts.get("bootstrap")
        if not left:
            return
        with DomainHost(self._context.spec.uri) as host:
            ran = io_rehearsal.destroy(host, left["uuid"])
        io_pxe.stop(left["unit"])
        for path in left["files"]:
            pathlib.Path(path).unlink(missing_ok=True)
        shutil.rmtree(self.keys, ignore_errors=True)
        if not self._context.spec.pxe_from_source:
            shutil.rmtree(self.folder, ignore_errors=True)
        del self._context.journal.facts["bootstrap"]
        self._context.save()
        if ran:
            self._context.log("the bootstrap system was powered off")


def _write_secret(path: pathlib.Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)


def prepare(context: Context) -> None:
    """Build, serve and boot the bootstrap system once, to check access to the disks.

    With ``pxe_from_source`` it is booted from there before, once in a migration. It is not booted when the run stops after this phase:
    the files must be copied to the source first.
    """
    machine = BootstrapMachine(context)
    machine.build()
    if context.spec.pxe_from_source and not context.journal.facts.get("booted_from_source"):
        names = f"{plan_bootstrap.SCRIPT}, {plan_bootstrap.KERNEL} and {plan_bootstrap.INITRD}"
        context.log(f"serve {names} of {machine.folder} by TFTP, and answer DHCP of {context.vm.macs[0]} with the boot file {plan_bootstrap.SCRIPT}")
        if context.spec.stop_after == "prepare":
            return
        machine.boot_from_source()
        context.journal.facts["booted_from_source"] = True
        context.save()
    machine.up()


def sweep(context: Context) -> None:
    """Remove the leftovers of an unused bootstrap system; a failure is logged, and the next run tries again."""
    machine = BootstrapMachine(context)
    try:
        machine.down()
    except (FootprintError, OSError) as error:
        context.log(f"leftovers of the bootstrap system cannot be removed yet: {error}")
    if context.journal.state in ("done", "rolled_back", "retired"):
        shutil.rmtree(machine.folder, ignore_errors=True)
