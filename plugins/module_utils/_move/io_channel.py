# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Channels of a live migration between two hosts: UNIX sockets on both, with one ssh connection for each connection to them.

No port is opened on any address. The sockets for memory and disks have the same path on both hosts, because libvirt uses one address
to listen at the destination and to connect on the source. Its AppArmor profiles allow a guest's QEMU to use
``/run/libvirt/**/*.tunnelmigrate.dest.NAME``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import private_folder
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost, libvirt_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volume_files import with_us

LIBVIRT, MEMORY, DISKS = "libvirt", "memory", "disks"
RUN = pathlib.Path("/run/libvirt")
_DAEMONS = ("/run/libvirt/virtqemud-sock", "/run/libvirt/libvirt-sock")
_ENDING = "tunnelmigrate.dest"
_LETTERS = {MEMORY: "m", DISKS: "d"}
_CHUNK = 1024 * 1024
# the maximum length of a UNIX socket path
_LONGEST = 107
_CONTEXT = b"system_u:system_r:svirt_socket_t:s0"


def daemon_socket() -> str | None:
    """Return the socket path of libvirt's QEMU daemon on this host, ``None`` if it does not exist."""
    return next((path for path in _DAEMONS if os.path.exists(path)), None)


def folder_of(name: str) -> pathlib.Path:
    """The folder of a move's sockets, the same on both hosts."""
    return RUN / f"rf-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def socket_path(name: str, which: str, domain: str) -> str:
    """Return the path of one of the sockets.

    :arg domain: the name of the domain, which the AppArmor profile requires in the path.
    """
    path = f"{folder_of(name)}/{_LETTERS[which]}.{_ENDING}.{domain}"
    if len(os.fsencode(path)) > _LONGEST:
        raise BackendError(f"the socket path {path} is longer than {_LONGEST} bytes.", hint="Use method: copy.")
    return path


def owner(host: DomainHost) -> tuple[int, int]:
    """Return user and group ID of QEMU on this host as reported by libvirt, else those of root."""
    with libvirt_errors("cannot read the capabilities"):
        document = parse(host.connection.getCapabilities())
    for model in document.iter("secmodel"):
        if model.findtext("model") == "dac":
            for label in model.findall("baselabel"):
                if label.get("type") == "qemu" and label.text:
                    user, _colon, group = label.text.partition(":")
                    return int(user.lstrip("+")), int(group.lstrip("+"))
    return 0, 0


def make_folder(name: str, qemu: tuple[int, int]) -> pathlib.Path:
    """Create an empty folder for the sockets of QEMU, accessible to QEMU and root only."""
    folder = folder_of(name)
    shutil.rmtree(folder, ignore_errors=True)
    private_folder(folder)
    os.chown(folder, *qemu)
    return folder


def remove_folder(name: str) -> None:
    """Remove the folder of a move's sockets, if it exists."""
    shutil.rmtree(folder_of(name), ignore_errors=True)


def relay(name: str, which: str) -> None:
    """Relay between standard input and output and a socket of this host, until one side closes.

    :raises FootprintError: no process listens on the socket.
    """
    if which == LIBVIRT:
        path = daemon_socket()
    elif which in _LETTERS:
        path = next((str(each) for each in folder_of(name).glob(f"{_LETTERS[which]}.{_ENDING}.*")), None)
    else:
        raise InputError(f"{which!r} is not a valid channel of a move.")
    if path is None:
        raise BackendError(f"no socket exists for the {which} channel of {name}.")
    join(path)


def join(path: str) -> None:
    """Relay between standard input and output and a socket, until one side closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        try:
            other.connect(path)
        except OSError as error:
            raise BackendError(f"cannot connect to {path}: {error.strerror}.") from error

        def inwards() -> None:
            with contextlib.suppress(OSError):
                while data := os.read(0, _CHUNK):
                    other.sendall(data)
                other.shutdown(socket.SHUT_WR)

        threading.Thread(target=inwards, daemon=True).start()
        with contextlib.suppress(OSError):
            while data := other.recv(_CHUNK):
                view = memoryview(data)
                while view:
                    view = view[os.write(1, view) :]


class Tunnel:
    """The sockets on the source; each connection to them is forwarded to the destination.

    :arg command: returns the command that connects its standard input and output to a socket at the destination.
    :arg qemu: user and group ID of QEMU on the source, which connects to the socket of the disks directly.
    """

    def __init__(self, name: str, domain: str, command: t.Callable[[str], t.Sequence[str]], qemu: tuple[int, int]) -> None:
        self._name, self._command, self._qemu = name, command, qemu
        self._paths = {
            LIBVIRT: f"{folder_of(name)}/l",
            MEMORY: socket_path(name, MEMORY, domain),
            DISKS: socket_path(name, DISKS, domain),
        }
        self._listening: list[socket.socket] = []
        self._running: list[subprocess.Popen[bytes]] = []
        self._errors: t.IO[bytes] | None = None

    @property
    def uri(self) -> str:
        """The connection URI of the destination's libvirt for the daemon on the source."""
        return f"qemu+unix:///system?socket={self._paths[LIBVIRT]}"

    @property
    def memory(self) -> str:
        """The URI for the memory."""
        return f"unix://{self._paths[MEMORY]}"

    @property
    def disks(self) -> str:
        """The URI for the disks."""
        return f"unix://{self._paths[DISKS]}"

    def last_error(self) -> str:
        """Return the last line of the error output of ssh and the destination."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return (self._errors.read().decode(errors="replace").strip().splitlines() or [""])[-1]

    def __enter__(self) -> Tunnel:
        folder = make_folder(self._name, (0, 0))
        # QEMU needs to enter the folder, but creates no files on this host
        os.chmod(folder, 0o711)
        # pylint: disable-next=consider-using-with  # closed in __exit__
        self._errors = tempfile.TemporaryFile()
        for which, path in self._paths.items():
            with _labelled():
                listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listening.append(listening)
            listening.bind(path)
            os.chmod(path, 0o600)
            os.chown(path, *(self._qemu if which == DISKS else (0, 0)))
            listening.listen(16)
            threading.Thread(target=self._accept, args=(which, listening), daemon=True).start()
        return self

    def _accept(self, which: str, listening: socket.socket) -> None:
        while True:
            try:
                connection, _peer = listening.accept()
            except OSError:
                return
            with connection:
                # pylint: disable-next=ansible-bad-function,consider-using-with  # no AnsibleModule reaches this layer; ended in __exit__
                self._running.append(subprocess.Popen([*with_us(), *self._command(which)], stdin=connection, stdout=connection, stderr=self._errors))

    def __exit__(self, *unused: object) -> None:
        for listening in self._listening:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        for process in self._running:
            process.terminate()
        until = time.monotonic() + 5
        for process in self._running:
            try:
                process.wait(timeout=max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        remove_folder(self._name)
        if self._errors is not None:
            self._errors.close()


@contextlib.contextmanager
def _labelled() -> t.Iterator[None]:
    """Label new sockets so that an SELinux-confined QEMU may connect to them; the label is from libvirt's documentation."""
    attribute = "/proc/thread-self/attr/sockcreate"
    if not os.path.exists("/sys/fs/selinux/enforce"):
        yield
        return
    with contextlib.suppress(OSError):
        pathlib.Path(attribute).write_bytes(_CONTEXT)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            pathlib.Path(attribute).write_bytes(b"")
