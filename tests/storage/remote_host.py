# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A libvirtd that is reached only over the network.

Its pool has the same path as a local folder with other content: code that opens a file instead of using libvirt gets a wrong one.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import socket
import socketserver
import subprocess
import threading
import typing as t

from storage_host import StorageHost

POOL = "remote"
IMAGES = "remote-images"


@contextlib.contextmanager
def served(path: pathlib.Path) -> t.Iterator[int]:
    """Return the TCP port that forwards to the socket of libvirtd."""

    class Handler(socketserver.BaseRequestHandler):
        """Forward one connection."""

        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(str(path))
                back = threading.Thread(target=_pass_on, args=(inner, self.request), daemon=True)
                back.start()
                _pass_on(self.request, inner)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        """Stop without waiting for a connection."""

        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


class RemoteHost(StorageHost):
    """``folder`` is the path of the pool, ``files`` its content on the remote host."""

    def __init__(self, port: int, state: pathlib.Path) -> None:
        here, there = state / "remote", state / "remote-files"
        for each in (here, there):
            shutil.rmtree(each, ignore_errors=True)
            (each / "images").mkdir(parents=True)
        self._pid = (state / "run" / "libvirtd.pid").read_text().strip()
        self._mount("--bind", str(there), str(here))
        super().__init__(f"qemu+tcp://127.0.0.1:{port}/system", f"lxc+tcp://127.0.0.1:{port}/system", here)
        self.files = there
        self.images = there / "images"
        for name, path in ((POOL, here), (IMAGES, here / "images")):
            xml = f"<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>"
            self.connections["qemu"].storagePoolCreateXML(xml, 0)

    def _mount(self, *argv: str) -> None:
        program = "umount" if argv[0] == "--lazy" else "mount"
        subprocess.run(["nsenter", "--mount", f"--target={self._pid}", program, *argv], check=True)

    def call(self, *vms: t.Mapping[str, t.Any], kind: str = "qemu", check: bool = False, **options: t.Any) -> t.Any:
        """Run ``vm_define`` for some VMs, with disks in the pool of the remote host."""
        return super().call(*vms, kind=kind, check=check, **{"pool": POOL, **options})

    def volumes(self) -> list[str]:
        """List the files of the pool without the images."""
        return sorted(entry.name for entry in self.files.iterdir() if entry.name != "images")

    def ours(self) -> list[str]:
        """List the local files at the path of the pool."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def end(self) -> None:
        """Remove all domains, pools and mounts."""
        connection = self.connections["qemu"]
        for domain in connection.listAllDomains():
            if domain.isActive():
                domain.destroy()
            domain.undefine()
        for name in (IMAGES, POOL):
            connection.storagePoolLookupByName(name).destroy()
        self.close()
        self._mount("--lazy", str(self.folder))
        for each in (self.folder, self.files):
            shutil.rmtree(each)
