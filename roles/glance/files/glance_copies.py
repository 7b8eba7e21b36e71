# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep copies of images on several controllers, each with a file store of its own.

In glance-api (:func:`wrap`) an upload is acknowledged after the image is on as many controllers as requested, or on all that can be reached,
and a download of an image that this controller does not have fetches it from another one first. As a program it serves the images to the other
controllers, fetches those that are missing, and removes deleted ones. What is fetched must have the hash that glance recorded at the upload.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import http.server
import io
import json
import os
import pathlib
import re
import socketserver
import sys
import threading
import time
import typing as t

_IMAGE = re.compile(r"/images/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")
_FILE = re.compile(r"/v2/images/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/file/?\Z")
_CHUNK = 1 << 20
#: Seconds for which a signed request is valid; the clocks of controllers may differ by less.
_VALID = 300
_TIMEOUT = 60
#: Seconds for the connection to a peer: one that lost its power does not answer, and a worker of glance waits for each peer.
_CONNECT_TIMEOUT = 5
_RECORD = "SELECT status, size, os_hash_algo, os_hash_value FROM images WHERE id = %s AND deleted = 0"
_ALL = "SELECT id, status, size FROM images WHERE deleted = 0"


class Copies:
    """The images of this controller and its peers.

    :arg settings: ``images`` (folder), ``peers`` (addresses), ``port``, ``copies``, ``deleted_kept`` (seconds) and ``key``.
    :arg ask: runs a query and returns its rows.
    """

    def __init__(self, settings: t.Mapping[str, t.Any], ask: t.Callable[..., t.Sequence[t.Sequence[t.Any]]]) -> None:
        self.settings = settings
        self.ask = ask
        self.folder = pathlib.Path(settings["images"])
        self.peers = [str(peer) for peer in settings["peers"]]
        #: File that glance does not know → since when.
        self.unknown: dict[str, float] = {}

    def sign(self, method: str, path: str, moment: str) -> str:
        """Return the signature of a request."""
        return hmac.new(str(self.settings["key"]).encode(), f"{method} {path} {moment}".encode(), hashlib.sha256).hexdigest()

    def accepts(self, method: str, path: str, headers: t.Mapping[str, str], now: float) -> bool:
        """Return whether a request was signed by a member, recently."""
        moment = str(headers.get("X-Footprint-Time") or "")
        signed = hmac.compare_digest(self.sign(method, path, moment), str(headers.get("X-Footprint-Signature") or ""))
        return signed and moment.isdigit() and abs(now - int(moment)) <= _VALID

    def has(self, image: str) -> bool:
        """Return whether the image is here."""
        return (self.folder / image).is_file()

    def complete(self, image: str) -> bool:
        """Return whether the image is here with the size that glance recorded; after a power loss a file may be shorter."""
        if not self.has(image):
            return False
        rows = self.ask(_RECORD, (image,))
        return not rows or rows[0][0] != "active" or self.whole(image, rows[0][1])

    def whole(self, image: str, size: t.Any) -> bool:
        """Return whether the image is here with this size; any file counts if no size is recorded."""
        try:
            found = (self.folder / image).stat().st_size
            return size is None or found == size
        except FileNotFoundError:
            return False

    def sync(self, image: str) -> None:
        """Write the image that glance has stored to the disk; another store has no such file."""
        with contextlib.suppress(FileNotFoundError):
            _sync(self.folder / image)
            _sync(self.folder)

    def store(self, image: str, stream: t.Any, length: int) -> str:
        """Write an image that is read from a stream; return why it was refused, empty if it was stored."""
        rows = self.ask(_RECORD, (image,))
        if not rows or rows[0][0] != "active":
            return "the image is not active"
        size, algorithm, wanted = rows[0][1], str(rows[0][2]), str(rows[0][3])
        if length != size:
            return f"{length} bytes instead of {size}"
        digest, left = hashlib.new(algorithm), length
        part = self.folder / f".{image}.{os.getpid()}.{threading.get_ident()}"
        try:
            with open(part, "wb") as target:
                while left:
                    chunk = stream.read(min(_CHUNK, left))
                    if not chunk:
                        return "it ended early"
                    digest.update(chunk)
                    target.write(chunk)
                    left -= len(chunk)
                target.flush()
                os.fsync(target.fileno())
            if digest.hexdigest() != wanted:
                return f"its {algorithm} differs from that of the upload"
            os.chmod(part, 0o640)
            part.rename(self.folder / image)
            _sync(self.folder)
            return ""
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()

    @contextlib.contextmanager
    def _request(self, peer: str, method: str, image: str, body: t.Any = None, length: int = 0) -> t.Iterator[http.client.HTTPResponse]:
        path, moment = f"/images/{image}", str(int(time.time()))
        connection = http.client.HTTPConnection(peer, int(self.settings["port"]), timeout=_CONNECT_TIMEOUT)
        try:
            connection.connect()
            connection.sock.settimeout(_TIMEOUT)
            headers = {"X-Footprint-Time": moment, "X-Footprint-Signature": self.sign(method, path, moment)}
            connection.request(method, path, body=body, headers={**headers, **({"Content-Length": str(length)} if body is not None else {})})
            yield connection.getresponse()
        finally:
            connection.close()

    def send(self, image: str) -> int:
        """Send an image to peers until there are as many copies as requested; return their number with this one."""
        found = 1
        for peer in self.peers:
            if found >= int(self.settings["copies"]):
                break
            try:
                with open(self.folder / image, "rb") as body, self._request(peer, "PUT", image, body, os.fstat(body.fileno()).st_size) as answer:
                    text = answer.read().decode("utf-8", "replace").strip()
                    if answer.status != 204:
                        raise OSError(f"{answer.status} {text}")
                    found += 1
            except (OSError, http.client.HTTPException) as error:
                say(f"image {image} is not copied to {peer}: {error}")
        if found < min(int(self.settings["copies"]), len(self.peers) + 1):
            say(f"image {image} is on {found} of {self.settings['copies']} controllers; the others fetch it when they return")
        return found

    def fetch(self, image: str) -> bool:
        """Fetch an image from a peer, unless it is complete here; return whether it is now."""
        for peer in self.peers:
            if self.complete(image):
                break
            try:
                with self._request(peer, "GET", image) as answer:
                    why = self.store(image, answer, int(answer.headers.get("Content-Length") or 0)) if answer.status == 200 else ""
                if why:
                    say(f"image {image} of {peer} is refused: {why}")
            except (OSError, http.client.HTTPException) as error:
                say(f"image {image} is not fetched from {peer}: {error}")
        return self.complete(image)

    def update(self, now: float) -> None:
        """Fetch missing and incomplete images, remove deleted ones.

        An image that glance does not know is not removed at once: after the restore of an older database, all newer images are unknown.

        :arg now: seconds of a clock that is never set.
        """
        states = {str(image): (str(status), size) for image, status, size in self.ask(_ALL)}
        for image, (status, size) in states.items():
            if status == "active" and not self.whole(image, size):
                if self.has(image):
                    say(f"image {image} is incomplete here: {(self.folder / image).stat().st_size} of {size} bytes")
                self.fetch(image)
        # a part that a killed process left has a dot before its name
        found = {path.name for path in self.folder.iterdir() if path.is_file() and path.name not in states}
        self.unknown = {name: self.unknown.get(name, now) for name in found}
        for name, since in self.unknown.items():
            if now - since > float(self.settings["deleted_kept"]):
                say(f"removing {name}, which glance has not known for {int(now - since)} s")
                (self.folder / name).unlink(missing_ok=True)


def _sync(path: pathlib.Path) -> None:
    """Write a file or directory to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def say(text: str) -> None:
    """Write to the journal."""
    print(f"glance_copies: {text}", file=sys.stderr, flush=True)


def wrap(service: t.Any, settings: t.Mapping[str, t.Any], connect: t.Callable[[t.Mapping[str, t.Any]], t.Any]) -> t.Any:
    """Return glance-api with copies.

    :arg connect: returns an object that runs queries with the service's account.
    """
    wish = json.loads(pathlib.Path(settings["copies"]).read_text(encoding="utf-8"))
    return copied(service, Copies(wish, connect(wish["database"]).rows))


def visible(service: t.Any, environ: t.Mapping[str, t.Any], image: str) -> bool:
    """Return whether glance shows the record of an image to the sender of a request.

    Without this, clients without a token could keep all workers of glance waiting for other controllers. The record is requested, not the content:
    glance would log an error for the missing file. A client that may read the record only, by the policy ``download_image``, can cause the transfer,
    which :meth:`Copies.update` would make anyway; glance refuses the content afterwards.
    """
    # a copy, because glance changes it, and without the body, which belongs to the request itself
    asked = {name: value for name, value in environ.items() if name not in ("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING")}
    asked.update({"PATH_INFO": f"/v2/images/{image}", "QUERY_STRING": "", "wsgi.input": io.BytesIO()})
    held: list[t.Any] = []
    answer = service(asked, lambda *arguments: held.append(arguments))
    try:
        # a service may report its status only when its answer is read
        for unused in answer:
            pass
    finally:
        if hasattr(answer, "close"):
            answer.close()
    return bool(held) and str(held[-1][0]).startswith("200")


def copied(service: t.Any, copies: Copies) -> t.Any:
    """Return the WSGI application with copies."""

    def application(environ: dict[str, t.Any], start: t.Any) -> t.Iterable[bytes]:
        found = _FILE.match(environ.get("PATH_INFO", ""))
        method = environ.get("REQUEST_METHOD")
        if not found or method not in ("GET", "PUT"):
            return t.cast(t.Iterable[bytes], service(environ, start))
        if method == "GET":
            if copies.peers and not copies.complete(found[1]) and visible(service, environ, found[1]):
                copies.fetch(found[1])
            return t.cast(t.Iterable[bytes], service(environ, start))
        held: list[t.Any] = []
        body = list(service(environ, lambda *arguments: held.append(arguments)))
        if held[0][0].startswith("204"):
            copies.sync(found[1])
            copies.send(found[1])
        start(*held[0])
        return body

    return application


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the images of this controller to its peers."""

    copies: Copies
    timeout = _TIMEOUT

    def _image(self) -> str | None:
        found = _IMAGE.match(self.path)
        if not found or not self.copies.accepts(self.command, self.path, t.cast(t.Mapping[str, str], self.headers), time.time()):
            self._answer(403, "not signed by a member")
            return None
        return found[1]

    def _answer(self, status: int, text: str = "") -> None:
        body = f"{text}\n".encode() if text else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:  # pylint: disable=invalid-name  # the name is Python's
        """Send an image."""
        image = self._image()
        if image is None:
            return
        if not self.copies.has(image):
            self._answer(404, "no such image")
            return
        with open(self.copies.folder / image, "rb") as stream:
            self.send_response(200)
            self.send_header("Content-Length", str(os.fstat(stream.fileno()).st_size))
            self.end_headers()
            while chunk := stream.read(_CHUNK):
                self.wfile.write(chunk)

    def do_PUT(self) -> None:  # pylint: disable=invalid-name
        """Store an image."""
        image = self._image()
        if image is None:
            return
        why = self.copies.store(image, self.rfile, int(self.headers.get("Content-Length") or 0))
        if why:
            self.close_connection = True
            self._answer(409, why)
        else:
            self._answer(204)

    def log_message(self, *unused: t.Any) -> None:  # pylint: disable=arguments-differ
        """Log nothing for each request."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """One thread for each peer's request."""

    daemon_threads = True

    def server_bind(self) -> None:
        """Bind although the address may be assigned later."""
        self.socket.setsockopt(0, 15, 1)  # IPPROTO_IP, IP_FREEBIND
        super().server_bind()

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Say in one line why a request ended, for example because the peer refused the content."""
        say(f"request of {client_address[0]}: {sys.exc_info()[1]!r}")


def main() -> None:
    """Serve the images, and update them from time to time."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import openstack_wsgi  # type: ignore[import-not-found]  # pylint: disable=import-outside-toplevel,import-error

    wish = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    copies = Copies(wish, openstack_wsgi.Database(wish["database"]).rows)
    Handler.copies = Copies(wish, openstack_wsgi.Database(wish["database"]).rows)
    server = Server((str(wish["address"]), int(wish["port"])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        try:
            copies.update(time.monotonic())
        except Exception as error:  # pylint: disable=broad-except  # the next turn may succeed
            say(f"not updated: {type(error).__name__}: {error}")
        time.sleep(float(wish["interval"]))


if __name__ == "__main__":
    main()
