# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: install Debian on a disk of this server, which runs the small system in memory, and confirm it in the installed one."""

from __future__ import annotations

import hashlib
import json
import secrets
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install
from ansible_collections.reduced.footprint.plugins.module_utils._metal import io_install, plan_install, plan_install_files
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_host_key

_PARSED = "the output of lsblk, wipefs or pvs cannot be parsed"


class Result(t.NamedTuple):
    """What was done, or in check mode would be."""

    changed: bool
    actions: tuple[str, ...]
    state: str
    device: str
    layout: tuple[dict[str, t.Any], ...] = ()
    host_key: str | None = None

    def as_result(self) -> dict[str, t.Any]:
        """Return the result of the module."""
        found = {"device": self.device, "state": self.state, "layout": list(self.layout)}
        diff = {"before": "", "after": "".join(f"{action}\n" for action in self.actions)}
        return {"changed": self.changed, "actions": list(self.actions), "installation": found, "host_key": self.host_key, "diff": diff}


def apply(params: t.Mapping[str, t.Any], check_mode: bool, backend: t.Any = io_install) -> Result:
    """Install, or confirm the installation.

    :arg params: the options of the module.
    """
    network = {key: value for key, value in (params["network"] or {}).items() if value is not None}
    entry = {"disk": params["disk"], "hostname": params["hostname"] or params["name"], "network": network, "keys": params["authorized_keys"]}
    if params["lvm"]:
        entry["lvm"] = params["lvm"]
    install = model_install.parse(entry, params["name"], params["address"], f"servers.{params['name']}.install")
    backend.require_root()
    if params["state"] == "confirmed":
        return confirm(install, check_mode, backend)
    key = model_host_key.parse(params["host_private_key"], "host_private_key")
    with backend.lock():
        return present(install, key, params["erase"], check_mode, backend)


def present(install: model_install.Install, key: model_host_key.HostKey, erase: t.Collection[str], check_mode: bool, backend: t.Any) -> Result:
    """Write the system to the disk, unless it is complete."""
    if not backend.in_boot_system():
        raise RefusedError("this is not the system that servers boot over the network.", hint="Boot the server with the playbook install_server.")
    url = plan_install_files.server(backend.command_line())
    if not url:
        raise BackendError("the command line of the kernel has no boot server.", hint="Apply the role boot_server, and boot the server again.")
    try:
        image = plan_install_files.image(backend.fetch(url))
    except ValueError as error:
        raise BackendError(f"{url}/root.json cannot be parsed: {error}.", hint="Apply the role boot_server again.") from error
    firmware = "uefi" if backend.uefi() else "bios"
    text = backend.lsblk()
    disk = _disk(install, text, backend, content=True)
    if disk.label == plan_install.label(install.name, install.disk, complete=False):
        text, started = _started(disk.device, text, backend)
        disk = disk._replace(started=started)
    state = plan_install.decide(disk, install, firmware, erase, image.unpacked)
    layout = plan_install.layout(install, firmware, disk.size)
    if state == plan_install.COMPLETE:
        return Result(False, (), state, disk.device, tuple(layout), key.public)
    parts = plan_install_files.devices(text)[disk.device]
    if install.lvm:
        plan_install.check_group(install, plan_install_files.groups(backend.groups()), parts)
    actions = []
    if disk.content and state == plan_install.WRITE:
        actions.append(f"erase {', '.join(f'{one.kind} on {one.device}' for one in disk.content)}")
    actions += [f"install Debian on {disk.device} ({disk.serial})", *(f"create {line}" for line in plan_install.lines(layout))]
    request = _request(install, key, image)
    if not check_mode and not backend.done(request):
        backend.set_done(None)
        mapped = plan_install_files.mapped(text, disk.device)
        backend.release(mapped)
        _write(install, key, url, image, firmware, disk.device, [one for one in parts if one != disk.device and one not in mapped], backend)
        backend.set_done(request)
    return Result(True, tuple(actions), state, disk.device, tuple(layout), key.public)


def _write(
    install: model_install.Install, key: model_host_key.HostKey, url: str, image: plan_install_files.Image,
    firmware: str, device: str, parts: t.Sequence[str], backend: t.Any,
) -> None:  # fmt: skip
    """Write all of it; an interrupted one is started again."""
    boot, rest = backend.partition(device, parts, plan_install.table(install, firmware))
    uefi = firmware == plan_install.UEFI
    root_uuid, esp = str(uuid.uuid4()), secrets.token_hex(4).upper()
    root = backend.make_volume(rest, install.lvm.group, install.lvm.root) if install.lvm else rest
    backend.make_root(root, root_uuid)
    backend.mount(root, "")
    if uefi:
        backend.make_esp(boot, esp)
        backend.mount(boot, "boot/efi")
    backend.unpack(url, image.sha256)
    for one in plan_install_files.files(install, key, root_uuid, f"{esp[:4]}-{esp[4:]}" if uefi else None, uuid.uuid4().hex):
        backend.put(one.path, one.text, one.mode)
    backend.boot_loader(device, uefi)
    backend.finish(install.lvm.group if install.lvm else None, rest)


def confirm(install: model_install.Install, check_mode: bool, backend: t.Any) -> Result:
    """Mark the installation as complete: this is the installed system, which was reached at its address with its host key."""
    text = backend.mark(plan_install_files.MARK)
    if text is None:
        raise RefusedError(f"{install.name} runs a system that install_server did not install.", install.path, "Remove install, or shut the server down.")
    try:
        mark = plan_install_files.mark(text)
    except ValueError as error:
        raise BackendError(f"/{plan_install_files.MARK} cannot be parsed: {error}.") from error
    if mark != {"name": install.name, "disk": install.disk}:
        what = f"the system was installed as {mark['name']} on the disk {mark['disk']}, not as {install.name} on {install.disk}."
        raise RefusedError(what, f"{install.path}.disk", "Correct the inventory; an installed server is not installed again.")
    disk = _disk(install, backend.lsblk(), backend)
    wanted = plan_install.label(install.name, install.disk, complete=True)
    if disk.label == wanted:
        return Result(False, (), plan_install.COMPLETE, disk.device)
    if disk.label != plan_install.label(install.name, install.disk, complete=False):
        hint = "The disk was partitioned by something else; compare it with the server."
        raise RefusedError(f"{disk.device} ({disk.serial}) does not have the partition table of the installation.", f"{install.path}.disk", hint)
    if not check_mode:
        backend.set_label(disk.device, wanted)
    return Result(True, (f"mark the installation on {disk.device} ({disk.serial}) as complete",), plan_install.COMPLETE, disk.device)


def _disk(install: model_install.Install, text: str, backend: t.Any, content: bool = False) -> plan_install.Disk:
    """Find the disk.

    :arg content: whether to read its signatures as well.
    """
    try:
        disk = plan_install.find(plan_install_files.disks(text, io_install.TARGET), install.disk, f"{install.path}.disk")
        found = []
        # those of the disk first
        for device in reversed(plan_install_files.devices(text)[disk.device] if content else []):
            found += [plan_install.Signature(device, kind) for kind in plan_install_files.signatures(backend.signatures(device))]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BackendError(f"{_PARSED}: {error}.", hint="Update util-linux.") from error
    if content and not found and backend.has_bytes(disk.device):
        found.append(plan_install.Signature(disk.device, "data without a known signature"))
    return disk._replace(label=backend.label(disk.device).lower(), content=tuple(found))


def _started(disk: str, text: str, backend: t.Any) -> tuple[str, bool]:
    """Whether the system on a disk has been started: its file system was mounted elsewhere than by an installation.

    :returns: the output of ``lsblk`` with the activated volumes as well.
    """
    for group, members in plan_install_files.groups(backend.groups()).items():
        for member in set(members) & set(plan_install_files.devices(text)[disk]):
            try:
                backend.activate(member, group)
            except CommandError:
                # more was done to the group than an installation does
                return text, True
    text = backend.lsblk()
    places = {backend.last_mounted(device) for device in plan_install_files.devices(text)[disk]}
    return text, bool(places - {"", io_install.TARGET})


def _request(install: model_install.Install, key: model_host_key.HostKey, image: plan_install_files.Image) -> str:
    """Identifies what is installed, so that a repeated request is recognized; without secrets."""
    values = [model_install.options(install), key.public, image.sha256]
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode("utf-8")).hexdigest()
