# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""WSGI application of the Redfish service: sushy-tools for all VMs of a host, each account restricted to its own.

The proxy in front authenticates the account and names its VMs in a header, which it removes from requests of clients. No other client
reaches the socket of this application.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import typing as t
from uuid import UUID
from xml.etree import ElementTree

import flask
import libvirt
from sushy_tools import error
from sushy_tools.emulator import main
from sushy_tools.emulator.resources import managers, storage, vmedia
from sushy_tools.emulator.resources.systems import libvirtdriver

app = main.app

#: Set by the proxy: names and UUIDs, separated by commas, or an asterisk for all.
HEADER = "X-Footprint-Systems"
#: Which VMs may run on this host; the others were moved to another one, or are being moved.
RECORDS = "/etc/reduced.footprint/vms"
#: Threads of gunicorn, those that one account occupies at most, those that download media, and of these those of one account.
THREADS, OWN, MEDIA, OWN_MEDIA = 64, 32, 16, 4
_TURN_SECONDS = 20
_DOWNLOAD = pathlib.Path(__file__).with_name("footprint_download.py")
_STARTS = ("On", "ForceOn", "ForceRestart")
_CONTAINER = "A container has no firmware, no boot device and no virtual media: only its power is controlled."
# of the host, not of a system
_SHARED = ("chassis_resource",)
#: What sushy-tools links and does not have, or invents, such as temperatures.
_ABSENT: dict[str, tuple[str, ...]] = {
    "chassis_resource": ("Thermal",),
    "system_resource": ("Memory",),
    "UpdateService.update_service_resource": ("FirmwareInventory", "SoftwareInventory", "HttpPushUri"),
}


def _may_run(uuid: str) -> bool:
    try:
        with open(os.path.join(RECORDS, f"{uuid}.json"), encoding="utf-8") as stream:
            record = json.load(stream)
        return record["role"] == "owner" and record["operation"] is None
    except FileNotFoundError:
        return True
    except (OSError, ValueError, KeyError, TypeError):
        return False


class Driver(libvirtdriver.LibvirtDriver):
    """All systems of libvirt."""

    def get_total_memory(self, identity: str) -> float:
        """Return the memory in GiB, also where it is not a whole number of them."""
        gib = float(self._get_domain(identity, readonly=True).maxMemory() / 1024**2)
        return int(gib) if gib.is_integer() else gib


class MachineDriver(Driver):
    """QEMU machines, with answers where the definition leaves the firmware to libvirt."""

    def get_processors(self, identity: str) -> list[t.Any]:
        """Return one processor for each socket, with all its threads; sushy-tools returns one for each thread."""
        found = list(super().get_processors(identity))
        threads = int(found[0]["cores"]) * int(found[0]["threads"])
        return [{**one, "threads": threads} for one in found[: max(1, len(found) // threads)]]

    def get_boot_mode(self, identity: str) -> str:
        """Return the boot mode; a machine without a loader has the BIOS of QEMU."""
        return super().get_boot_mode(identity) or "Legacy"

    def set_boot_mode(self, identity: str, boot_mode: str) -> None:
        """Set the boot mode, unless it is set: sushy-tools fails for a machine without a loader."""
        if self.get_boot_mode(identity) != boot_mode:
            super().set_boot_mode(identity, boot_mode)

    def get_secure_boot(self, identity: str) -> bool:
        """Return whether the definition requests secure boot."""
        try:
            return bool(super().get_secure_boot(identity))
        except error.NotSupportedError:
            raise
        except error.FishyError:
            return False

    def set_boot_image(self, identity: str, device: str, boot_image: str | None = None, write_protected: bool = True) -> None:
        """Insert or eject a medium, and delete copies that are not used: sushy-tools leaves former ones, and those of failed requests, in the pool."""
        try:
            super().set_boot_image(identity, device, boot_image, write_protected)
        finally:
            self._clean(self._get_domain(identity, readonly=True))

    def _clean(self, domain: t.Any) -> None:
        """Delete the files that sushy-tools has copied for a system, whose UUID is in their names, and that are not in its drives."""
        try:
            document = ElementTree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            used = {source.get("file") for source in document.iterfind("devices/disk/source")}
            with libvirtdriver.libvirt_open(self._uri) as connection:
                for volume in connection.storagePoolLookupByName(self.STORAGE_POOL).listAllVolumes():
                    if volume.name().endswith(f"-{domain.UUIDString()}.img") and volume.path() not in used:
                        volume.delete()
        except (libvirt.libvirtError, error.FishyError) as failed:
            # the request was successful nevertheless
            self._logger.warning("Copies of media of %s were not deleted: %s", domain.UUIDString(), failed)


class Places:
    """A number of places for each account."""

    def __init__(self, number: int) -> None:
        self._number, self._places, self._lock = number, dict[str, threading.BoundedSemaphore](), threading.Lock()

    def take(self, name: str, seconds: float = 0) -> None:
        """Occupy a place until the request has ended.

        :arg seconds: how long to wait for one.
        """
        with self._lock:
            places = self._places.setdefault(name, threading.BoundedSemaphore(self._number))
        if not places.acquire(timeout=seconds):
            raise error.FishyError("Too many requests at the same time: repeat it later.", code=503)
        _held().callback(places.release)


_requests, _media, _own_media, _turns = Places(OWN), Places(MEDIA), Places(OWN_MEDIA), Places(1)


def _held() -> contextlib.ExitStack:
    """What ends with the request."""
    if "held" not in flask.g:
        flask.g.held = contextlib.ExitStack()
    return t.cast(contextlib.ExitStack, flask.g.held)


class Media(vmedia.StaticDriver):
    """Virtual media: downloaded by another process within limits, one at a time for each account, under a name that its server does not choose."""

    def __init__(self, config: t.Mapping[str, t.Any], logger: t.Any) -> None:
        super().__init__(config, logger)
        self._folder = pathlib.Path(config["SUSHY_EMULATOR_STATE_DIR"], "media")
        # what a service that was killed has left
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(mode=0o700)

    def _get_image(self, image_url: t.Any, auth: t.Any, verify_media_cert: bool, custom_cert: str | None) -> tuple[str, str]:
        """Return name and path of the file, which libvirt copies, and which is deleted when the request has ended."""
        path = re.fullmatch("https?://[^/?#]+([^?#]*).*", str(image_url), re.DOTALL | re.IGNORECASE)
        if not path:
            raise error.BadRequest("Image must be a URL with http or https.")
        for places, name, seconds in ((_own_media, _account(), 0), (_media, "", 0), (_turns, _account(), _TURN_SECONDS)):
            places.take(name, seconds)
        name = re.sub("[^A-Za-z0-9._-]", "_", path[1].rpartition("/")[2])[-64:] or "image.iso"
        handle, file = tempfile.mkstemp(dir=self._folder, prefix=f"{name}.")
        _held().callback(os.unlink, file)
        limits = self._config["FOOTPRINT_MEDIA"]
        request = {**limits, "url": image_url, "auth": auth, "verify": verify_media_cert, "certificate": custom_cert}
        with os.fdopen(handle, "wb") as target:
            argv = ["/usr/bin/python3", "-I", str(_DOWNLOAD)]
            done = subprocess.run(argv, input=json.dumps(request).encode(), stdout=target, stderr=subprocess.PIPE, env={}, check=False)
        if done.returncode:
            reason = done.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"it takes more than {limits['seconds']} s"
            raise error.FishyError(f"The medium cannot be downloaded: {reason[:300]}.", code=502 if done.returncode == 2 else 400)
        return name, file


class Managers(managers.FakeDriver):
    """Managers whose time is their own; that of sushy-tools is shared."""

    def set_datetime(self, datetime_value: t.Any, datetimelocaloffset_value: t.Any) -> None:
        """Set the time of the manager of the request."""
        self._times[_identity()] = {"DateTime": datetime_value, "DateTimeLocalOffset": datetimelocaloffset_value}

    def get_datetime(self) -> dict[str, t.Any]:
        """Return what was set for the manager of the request."""
        known = self._times.get(_identity(), {})
        return known if all(known.values()) else {}

    _times: t.ClassVar[dict[str, dict[str, t.Any]]] = {}


class NoStorage(storage.StaticDriver):
    """Controllers of disks, which libvirt does not have: an empty collection instead of an error."""

    def get_storage_col(self, identity: str) -> list[t.Any]:
        """Return what the configuration contains, usually nothing."""
        try:
            return list(super().get_storage_col(identity))
        except error.FishyError:
            return []


class ContainerDriver(Driver):
    """LXC containers: power only."""

    def set_power_state(self, identity: str, state: str) -> None:
        """Power on or off; requests to the guest have no effect in libvirt's LXC driver."""
        if state in ("GracefulShutdown", "GracefulRestart", "Nmi"):
            raise error.NotSupportedError(f"{state} is not supported for containers: use ForceOff, ForceRestart.")
        super().set_power_state(identity, state)

    def get_boot_device(self, identity: str) -> None:
        """A container has none."""
        self._get_domain(identity, readonly=True)

    def get_versions(self, identity: str) -> dict[str, str]:
        """A container has no firmware."""
        self._get_domain(identity, readonly=True)
        return {}

    def get_nics(self, identity: str) -> list[t.Any]:
        """Addresses of the cards; this call does not need firmware."""
        return list(super().get_nics(identity))


def _unsupported(self: t.Any, *unused: t.Any, **named: t.Any) -> t.NoReturn:
    raise error.NotSupportedError(_CONTAINER)


for _name in (
    "set_boot_device", "get_boot_mode", "set_boot_mode", "get_secure_boot", "set_secure_boot", "get_total_cpus", "get_bios", "set_bios", "reset_bios",
    "set_versions", "reset_versions", "get_boot_image", "set_boot_image", "get_simple_storage_collection", "get_processors",
):  # fmt: skip
    setattr(ContainerDriver, _name, _unsupported)


class HostDriver:
    """The systems of all libvirt drivers of the host that the account may see."""

    def __init__(self, drivers: t.Sequence[t.Any]) -> None:
        self._drivers = drivers
        self._http_boot_uris: dict[str, t.Any] = {}

    @property
    def driver(self) -> str:
        """Name of the driver for messages."""
        return "<libvirt>"

    @property
    def systems(self) -> list[str]:
        """UUIDs of the systems that the account may see."""
        return [uuid for driver in self._drivers for uuid in _listed(driver) if _permitted(driver, uuid)]

    def set_power_state(self, identity: str, state: str) -> None:
        """Change the power; a copy of a VM that runs on another host is never started."""
        if state in _STARTS and not _may_run(self.uuid(identity)):
            raise error.Conflict("This copy of the VM must not run: the VM was moved to another host.")
        self._of(identity).set_power_state(identity, state)

    def is_container(self, identity: str) -> bool:
        """Whether a system is a container."""
        return isinstance(self._of(identity), ContainerDriver)

    def find_or_create_storage_volume(self, data: t.Any) -> t.NoReturn:
        """Refuse it: sushy-tools would create a volume of any size in the pool of the host."""
        raise error.NotSupportedError("VMs have no storage controllers.")

    def set_http_boot_uri(self, uri: t.Any) -> None:
        """Keep the address for the system of the request; sushy-tools has one for all."""
        self._http_boot_uris[_identity()] = uri

    def get_http_boot_uri(self, identity: str) -> t.Any:
        """Return the address of a system."""
        return self._http_boot_uris.get(identity)

    def __getattr__(self, name: str) -> t.Callable[..., t.Any]:
        def call(identity: str, *values: t.Any, **named: t.Any) -> t.Any:
            return getattr(self._of(identity), name)(identity, *values, **named)

        return call

    def _of(self, identity: str) -> t.Any:
        for driver in self._drivers:
            try:
                uuid = driver.uuid(identity)
            except error.AliasAccessError as alias:
                # the name of a system: the client is sent to its UUID, unless it may not see it
                uuid = str(alias.args[0])
                if _permitted(driver, uuid):
                    raise
                continue
            except error.NotFound:
                continue
            if _permitted(driver, uuid):
                return driver
        raise error.NotFound(f"System {identity} does not exist, or this account may not see it.")


def _listed(driver: t.Any) -> list[str]:
    try:
        return list(driver.systems)
    except error.FishyError:
        # the host does not have this libvirt driver
        return []


def _account() -> str:
    """The account, which is known by its VMs."""
    return flask.request.headers.get(HEADER, "")


def _identity() -> str:
    return str((flask.request.view_args or {})["identity"])


def _names() -> set[str]:
    return {each.strip() for each in _account().split(",") if each.strip()}


def _permitted(driver: t.Any, uuid: str) -> bool:
    names = _names()
    # libvirt distinguishes web from WEB
    return "*" in names or uuid.lower() in {each.lower() for each in names} or bool(names) and driver.name(uuid) in names


@app.before_request
def restrict() -> None:
    """Check the account: its systems, and services that concern all of them."""
    _requests.take(_account())
    arguments = flask.request.view_args or {}
    with contextlib.suppress(KeyError, ValueError):
        # a UUID has many forms, and settings are kept by one of them
        arguments["identity"] = str(UUID(arguments["identity"]))
    if flask.request.endpoint == "thermal_resource":
        raise error.NotFound("VMs have no sensors.")
    if "identity" in arguments and flask.request.endpoint not in _SHARED:
        # a manager has the UUID of its system
        if app.systems.is_container(arguments["identity"]) and "/VirtualMedia" in flask.request.path:
            # before the medium is downloaded
            raise error.NotSupportedError(_CONTAINER)
    elif flask.request.method not in ("GET", "HEAD") and "*" not in _names():
        raise error.NotFound("This account may change its systems only.")


@app.teardown_request
def release(unused: BaseException | None) -> None:
    """Delete the medium of a request, and release its places."""
    _held().close()


@app.route("/redfish")
def versions() -> flask.Response:
    """Return the versions of the protocol, as the specification requires."""
    return flask.jsonify({"v1": "/redfish/v1/"})


@app.after_request
def complete(response: flask.Response) -> flask.Response:
    """Add the headers that the specification requires, and correct the answers of sushy-tools."""
    response.headers["OData-Version"] = "4.0"
    if flask.request.method in ("GET", "HEAD") and flask.request.url_rule is not None:
        response.headers["Allow"] = ", ".join(sorted(app.create_url_adapter(flask.request).allowed_methods()))
    if response.status_code == 200 and response.is_json and flask.request.method == "GET":
        body = response.get_json()
        _correct(str(flask.request.endpoint), body)
        response.data = json.dumps(body, indent=4)
    return response


def _correct(endpoint: str, body: dict[str, t.Any]) -> None:
    for name in _ABSENT.get(endpoint, ()):
        body.pop(name, None)
    if endpoint in ("processor", "processors_collection"):
        body["@odata.id"] = flask.request.path.rstrip("/")
    if endpoint == "processor":
        body.update({name: int(body[name]) for name in ("TotalCores", "TotalThreads")})
    elif endpoint == "system_resource" and body["Boot"].get("BootSourceOverrideMode") != "UEFI":
        body.pop("SecureBoot", None)
    elif endpoint == "CertificateService.certificate_service_resource":
        body["Actions"]["#CertificateService.ReplaceCertificate"].pop("@Redfish.ActionInfo", None)
    if endpoint in ("system_resource", "manager_resource") and app.systems.is_container((flask.request.view_args or {})["identity"]):
        body.pop("VirtualMedia", None)


def _drivers() -> t.Iterator[t.Any]:
    for kind, uri in ((MachineDriver, "qemu:///system"), (ContainerDriver, "lxc:///system")):
        # initialize() sets attributes of the class
        yield type(kind.__name__, (kind,), {}).initialize(app.config, app.logger, app.config.get("FOOTPRINT_URIS", {}).get(uri, uri))()


type(app).systems = HostDriver(list(_drivers()))
type(app).storage = NoStorage(app.config, app.logger)
type(app).vmedia = Media(app.config, app.logger)
type(app).managers = Managers(app.config, app.logger, app.systems, app.chassis)
