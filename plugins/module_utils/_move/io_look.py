# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of a VM that is to be moved, and of the destination."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_place import has_arrived, partial
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import DISK, STATE, Item
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, DomainRecord, libvirt, libvirt_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_host_network import kind_of, networks
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import macs_of, parse, text_of
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, OWNER
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_pool_mounts import PoolMounts
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import IMAGES_FOLDER, inside
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.xml_devices import open_disks

THERE = ("rsync", "qemu-img")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED = ("hostdev", "shmem", "redirdev")
_TPM = "/var/lib/libvirt/swtpm"


def find(cluster: str, vm_id: str, uuid: str, uri: str | None) -> tuple[str, DomainRecord] | None:
    """Find the domain of a VM; returns its connection URI and record, or ``None``.

    :arg uuid: the one derived from cluster and id; an adopted domain has another UUID and is found by its metadata.
    :raises BackendError: a libvirt driver does not answer, so that it is unknown.
    """
    for host in io_domain_lists.drivers([uri] if uri else ()):
        with host:
            records = host.domains()
        same = next((record for record in records if record.uuid == uuid), None)
        found = same or next((record for record in records if _marked(record, cluster, vm_id)), None)
        if found is not None:
            return host.uri, found
    return None


def _marked(record: DomainRecord, cluster: str, vm_id: str) -> bool:
    if xml_metadata.NAMESPACE not in record.config_xml:
        return False
    owned = xml_metadata.read(parse(record.config_xml))
    return owned is not None and (owned.cluster, owned.id) == (cluster, vm_id)


def describe(uri: str, uuid: str) -> dict[str, t.Any]:
    """Return the facts of a VM on this host: definition, files, and requirements for the destination."""
    with DomainHost(uri) as host:
        record = host.domain(uuid)
        if record is None:
            raise BackendError(f"the domain {uuid} does not exist any more.")
        document = parse(record.config_xml)
        live = parse(record.live_xml) if record.live_xml else None
        owned = xml_metadata.read(document)
        kept = io_domain_lists.kept(host)
        folders = io_domain_lists.pool_folders(host)
        vm = {
            "name": record.name,
            "uuid": record.uuid,
            "uri": uri,
            "cluster": owned.cluster if owned else None,
            "id": owned.id if owned else None,
            "protected": bool(owned and owned.protected),
            "state": record.state,
            "active": record.active,
            "persistent": record.persistent,
            "rsync": shutil.which("rsync", path=_PATH),
            "autostart": record.autostart,
            "saved": record.uuid in kept.managed_saves,
            "snapshots": record.uuid in kept.snapshots,
            "cpu_mode": _cpu_mode(live if live is not None else document),
            "cpu_xml": _cpu_xml(live),
            "passed": sorted({device.tag for device in document.iterfind("devices/*") if device.tag in _PASSED}),
            "only_live": sorted(set(open_disks(live)) ^ set(open_disks(document))) if live is not None else [],
            "changed": bool(owned and live is not None and _applied(live) != owned.applied),
            **requirements(document),
        }
        vm.update(_storage(record, document, folders))
        vm["host"] = _hypervisor(host)
    return vm


def requirements(document: t.Any) -> dict[str, t.Any]:
    """Return what a VM needs of the host that runs it, and what no other VM there may have."""
    memory = document.find("memory")
    kind = document.find("os/type")
    return {
        "type": document.get("type"),
        "macs": macs_of(document),
        "memory": parse_size(memory.text, memory.get("unit") or "KiB", "memory") if memory is not None else 0,
        "arch": kind.get("arch") if kind is not None else None,
        "machine": kind.get("machine") if kind is not None else None,
        "emulator": document.findtext("devices/emulator"),
        **_nics(document),
    }


def _applied(live: t.Any) -> str | None:
    owned = xml_metadata.read(live)
    return owned.applied if owned else None


def _cpu_mode(document: t.Any) -> str | None:
    cpu = document.find("cpu")
    return cpu.get("mode", "custom") if cpu is not None else None


def _cpu_xml(live: t.Any) -> str | None:
    cpu = live.find("cpu") if live is not None else None
    return text_of(cpu) if cpu is not None and cpu.find("model") is not None else None


def _nics(document: t.Any) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {"bridges": set(), "networks": set(), "links": set()}
    for source in document.iterfind("devices/interface/source"):
        for key, attribute in (("bridges", "bridge"), ("networks", "network"), ("links", "dev")):
            if source.get(attribute):
                found[key].add(source.get(attribute))
    return {key: sorted(names) for key, names in found.items()}


def _storage(record: DomainRecord, document: t.Any, folders: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the files and folders of a VM; ``unfit`` lists what cannot be moved."""
    items: dict[str, Item] = {}
    unfit: list[str] = []
    container = document.get("type") == "lxc"
    for device, path, media, base in _sources(document, record.name):
        if path is None:
            if device.tag == "disk":
                unfit.append(f"its disk {_target(device)} is not a file of the source")
            continue
        if device.tag == "filesystem" and not container:
            unfit.append(f"it shares the folder {path} of the source")
            continue
        if device.tag == "disk" and device.find("shareable") is not None:
            unfit.append(f"its disk {_target(device)} is shared with other VMs")
            continue
        form = _format(device)
        if not base and os.path.dirname(path) not in folders:
            unfit.append(f"{path} is not in a storage pool")
        elif not base and os.path.islink(path):
            unfit.append(f"{path} is a symbolic link to {os.readlink(path)}")
            continue
        elif os.path.isdir(path) and _of_a_pool(path, folders):
            unfit.append(f"{path} is the folder of a storage pool, which other VMs may use")
            continue
        for item in _layers(path, base, form, unfit, "" if media else DISK):
            items.setdefault(item.path, item)
    for path in _states(document, record.uuid):
        items.setdefault(path, _item(path, False, "raw", STATE))
    pools = {os.path.dirname(item.path): folders[os.path.dirname(item.path)] for item in items.values() if os.path.dirname(item.path) in folders}
    sizes = {item.path: os.stat(item.path).st_size for item in items.values() if item.kind == "file"}
    return {"items": [item._asdict() for item in items.values()], "sizes": sizes, "unfit": unfit, "pools": pools}


def _sources(document: t.Any, name: str) -> t.Iterator[tuple[t.Any, str | None, bool, bool]]:
    """Every disk and file system with a source: the device, its path, whether it is read only, and whether it is a base image or medium.

    The path is ``None`` if the source is not a file, folder or device of this host. The seed is read only, but belongs to the VM.
    """
    for device in document.iterfind("devices/*"):
        source = device.find("source") if device.tag in ("disk", "filesystem") else None
        if source is None:
            continue
        path = source.get("file") or source.get("dir") or source.get("dev")
        media = device.find("readonly") is not None or device.get("device", "disk") in ("cdrom", "floppy")
        yield device, path, media, media and device.tag == "disk" and os.path.basename(path or "") != f"{name}-seed.iso"


def _format(device: t.Any) -> str | None:
    driver = device.find("driver")
    return driver.get("type") if driver is not None else None


def _states(document: t.Any, uuid: str) -> t.Iterator[str]:
    """The existing NVRAM and state of the TPM of a VM; they are outside of all pools."""
    nvram = document.findtext("os/nvram")
    if nvram and os.path.isfile(nvram):
        yield nvram
    if document.find("devices/tpm/backend[@type='emulator']") is not None and os.path.isdir(f"{_TPM}/{uuid}"):
        yield f"{_TPM}/{uuid}"


def written(uri: str, uuid: str, known: t.Iterable[str]) -> dict[str, t.Any] | None:
    """Return where a VM has its data on this host, and whether it has snapshots or a managed save image; ``None`` if it is not defined.

    ``paths`` are those of the items that :func:`describe` returns without base images, in the definition and in the running configuration, and
    what cannot be moved: block devices, or the target of a disk without a path. ``layers`` are the other backing files of its disks.

    :arg known: paths of the files that were moved; as backing files they are not returned.
    """
    usual = {os.path.realpath(path) for path in known}
    with DomainHost(uri) as host:
        record = host.domain(uuid)
        if record is None:
            return None
        kept = io_domain_lists.kept(host)
    paths: set[str] = set()
    layers: set[str] = set()
    for document in [parse(text) for text in (record.config_xml, record.live_xml) if text]:
        for device, path, unused, base in _sources(document, record.name):
            if not base and path:
                paths.add(path)
                layers.update(set(io_disk_header.chain(path, _format(device))) - usual)
            elif not base and device.tag == "disk":
                paths.add(_target(device))
        paths.update(_states(document, uuid))
    return {"paths": sorted(paths), "layers": sorted(layers - paths), "snapshots": uuid in kept.snapshots, "saved": uuid in kept.managed_saves}


def check_mounted(vm: t.Mapping[str, t.Any]) -> None:
    """Check that the file systems of the pools with the files of a VM are mounted on this host: without them, other files are read, written and removed.

    :arg vm: the result of :func:`describe` before its move; may be empty.
    """
    pools = vm.get("pools", {})
    # NVRAM and TPM are in no pool, and nothing is recorded for their folders
    for folder in sorted({os.path.dirname(item["path"]) for item in vm.get("items", []) if not item["base"]}):
        PoolMounts().check(f"{pools.get(folder, os.path.basename(folder))} of {platform.node()}", folder, "state")


def _of_a_pool(path: str, folders: t.Iterable[str]) -> bool:
    """Whether a folder is the one of base images, or is or contains the folder of a pool."""
    return os.path.basename(path) == IMAGES_FOLDER or any(inside(os.path.realpath(each), os.path.realpath(path)) for each in folders)


def _target(device: t.Any) -> str:
    target = device.find("target")
    return target.get("dev", "") if target is not None else ""


def _layers(path: str, base: bool, form: str | None, unfit: list[str], carried: str) -> list[Item]:
    """Return a disk and its backing images."""
    if not os.path.isdir(path) and not os.path.isfile(path):
        unfit.append(f"{path} is {'a block device' if os.path.exists(path) else 'missing'}")
        return []
    found = [_item(path, base, form, carried)]
    if found[0].kind == "file":
        # a raw disk has none: a guest can write into it what looks like the name of any file of this host
        found += [_item(layer, True, None) for layer in io_disk_header.chain(path, form)]
        for layer in [each.path for each in found if each.format == "qcow2"]:
            if io_disk_header.has_data_file(layer):
                unfit.append(f"{layer} has its content in another file, which is not copied with it")
            elif io_disk_header.names_foreign_base(layer):
                unfit.append(f"{layer} is based on something that is not a file of the source")
    return found


def _item(path: str, base: bool, form: str | None, carried: str = "") -> Item:
    if os.path.isdir(path):
        return Item(path, "dir", base, carried, format="dir", size=tree_size(path))
    header = io_disk_header.read_header(path, "raw" if form == "raw" else None)
    backing = os.path.realpath(header.backing) if header.backing else None
    size = os.stat(path).st_blocks * 512
    return Item(path, "file", base, carried, header.format, header.capacity, size, backing, header.backing_format)


def tree_size(path: str) -> int:
    """Return the bytes that a folder uses, other file systems excluded."""
    total, device, seen = 0, os.lstat(path).st_dev, set()
    for folder, unused, files in os.walk(path):
        for name in [".", *files]:
            with contextlib.suppress(OSError):
                state = os.lstat(os.path.join(folder, name))
                if state.st_dev == device and state.st_ino not in seen:
                    seen.add(state.st_ino)
                    total += state.st_blocks * 512
    return total


def _hypervisor(host: DomainHost) -> dict[str, t.Any]:
    """Return the host properties that a live migration depends on."""
    with libvirt_errors("cannot read the capabilities of the host"):
        capabilities = parse(host.connection.getCapabilities())
        cpu = capabilities.find("host/cpu")
        if cpu is not None:
            for element in [*cpu.findall("microcode"), *cpu.findall("counter"), *cpu.findall("signature")]:
                cpu.remove(element)
        return {
            "uuid": capabilities.findtext("host/uuid"),
            "cpu": text_of(cpu) if cpu is not None else None,
            "libvirt": host.connection.getLibVersion(),
            "hypervisor": _or_none(host.connection.getVersion),
            "name": platform.node(),
        }


def _or_none(call: t.Callable[[], t.Any]) -> t.Any:
    try:
        return call()
    except libvirt.libvirtError:
        return None


def look(vm: t.Mapping[str, t.Any], uri: str) -> dict[str, t.Any]:
    """Return the facts of this host as the destination of a VM.

    :arg vm: the result of :func:`describe` on the source.
    """
    record = io_owner.known(vm["uuid"])
    facts: dict[str, t.Any] = {
        "name": platform.node(),
        "arch": platform.machine(),
        "state": record.state if record else None,
        "to": record.where if record else None,
        "owns": record is not None and record.role == OWNER,
        "tools": {tool: shutil.which(tool, path=_PATH) for tool in THERE},
        "memory_available": meminfo().get("MemAvailable", 0),
        "bridges": [name for name in vm["bridges"] if kind_of(name) in ("bridge", "openvswitch")],
        "links": [name for name in vm["links"] if kind_of(name)],
        "existing": {},
        "half": {},
        "arrived": [],
    }
    for item in vm["items"]:
        path = item["path"]
        if os.path.lexists(path):
            facts["existing"][path] = 0 if os.path.isdir(path) else os.stat(path).st_size
            if record is not None and record.state == ARRIVING and has_arrived(Item(**item), vm["uuid"]):
                facts["arrived"].append(path)
        half = partial(path)
        if os.path.lexists(half):
            facts["half"][path] = tree_size(str(half)) if half.is_dir() else half.stat().st_blocks * 512
    try:
        with DomainHost(uri) as host:
            facts.update(_look_at(host, vm))
        facts["reason"] = None
    except BackendError as error:
        facts["reason"] = str(error)
    return facts


def _look_at(host: DomainHost, vm: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    facts: dict[str, t.Any] = {"domain": None, "name_taken": None, "macs_taken": {}, "networks": networks(host), "host": _hypervisor(host)}
    for other in io_domain_lists.drivers(needed=host.uri):
        with other:
            uri = other.uri
            for record in other.domains():
                if record.uuid == vm["uuid"]:
                    facts["domain"] = {"name": record.name, "state": record.state, "active": record.active, "uri": uri}
                    continue
                if record.name == vm["name"] and uri == host.uri:
                    facts["name_taken"] = record.uuid
                for mac in set(macs_of(parse(record.config_xml))) & set(vm["macs"]):
                    facts["macs_taken"][mac] = record.name
    facts["pools"] = {}
    folders = {folder: name for folder, name in io_domain_lists.pool_folders(host).items() if folder in vm["pools"]}
    for folder, name in folders.items():
        usage = os.statvfs(folder)
        facts["pools"][folder] = {"name": name, "available": usage.f_bavail * usage.f_frsize, "unmounted": PoolMounts().missing(folder)}
    facts["machine"], facts["cpu"] = _machine(host, vm)
    return facts


def _machine(host: DomainHost, vm: t.Mapping[str, t.Any]) -> tuple[str | None, str | None]:
    """Return why the machine type, and why the CPU of a running guest, are not supported here; ``None`` if they are."""
    if vm["type"] == "lxc":
        return None, None
    connection = host.connection
    try:
        connection.getDomainCapabilities(vm["emulator"], vm["arch"], vm["machine"], vm["type"], 0)
    except libvirt.libvirtError as error:
        return str(error.get_error_message()), None
    if not vm["cpu_xml"]:
        return None, None
    try:
        answer = connection.compareHypervisorCPU(vm["emulator"], vm["arch"], vm["machine"], vm["type"], vm["cpu_xml"], 0)
    except libvirt.libvirtError as error:
        return None, str(error.get_error_message())
    fits = (libvirt.VIR_CPU_COMPARE_IDENTICAL, libvirt.VIR_CPU_COMPARE_SUPERSET)
    return None, None if answer in fits else "the CPU lacks features that the guest uses"
