# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of the role redfish_emulator behind its proxy, HAProxy with the configuration of the role, for the libvirtd of these tests."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import ssl
import subprocess
import typing as t
import urllib.request

import bare
import jinja2
import yaml

APPLICATION = bare.ROOT / "roles" / "redfish_emulator" / "files"
#: Those of the role.
THREADS = re.findall(r"--threads (\d+)", (APPLICATION.parent / "templates" / "emulator.service.j2").read_text("utf-8"))[0]


class Service(bare.Server):
    """The processes of gunicorn and HAProxy.

    :arg accounts: password and VMs (names and UUIDs, separated by commas, or an asterisk) of each account.
    :arg sources: from where media are downloaded, besides this host.
    :arg limits: of media, instead of those of the role.
    """

    def __init__(self, place: t.Any, folder: pathlib.Path, accounts: t.Mapping[str, tuple[str, str]], sources: t.Sequence[str] = (), **limits: int) -> None:
        self.folder, self.port, self.log = folder, bare.free_port(), folder / "service.log"
        self.certificate, self._key = bare.certificate(folder)
        for name in ("state", "temporary"):
            (folder / name).mkdir()
        # that of the role; of two values the last one counts
        text = (APPLICATION.parent / "templates" / "emulator.py.j2").read_text("utf-8")
        known = yaml.safe_load((APPLICATION.parent / "vars" / "Debian.yml").read_text("utf-8"))
        settings = {
            "FOOTPRINT_URIS": {"qemu:///system": place.uri, "lxc:///system": place.lxc_uri},
            "SUSHY_EMULATOR_STATE_DIR": str(folder / "state"),
        }
        # the servers of the tests have addresses of this host
        sources = ["127.0.0.1", *sources]
        text = jinja2.Template(text).render({**known, "redfish_emulator_storage_pool": "footprint-test", "redfish_emulator_media_sources": sources}) + "\n"
        text += "".join(f"{key} = {value!r}\n" for key, value in settings.items())
        (folder / "emulator.py").write_text(text + "".join(f"FOOTPRINT_MEDIA[{key!r}] = {value!r}\n" for key, value in limits.items()), "utf-8")
        self._env = {
            **os.environ,
            "PYTHONPATH": str(APPLICATION),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder / "temporary"),
            "SUSHY_EMULATOR_CONFIG": str(folder / "emulator.py"),
        }
        self.url = f"https://localhost:{self.port}"
        self._accounts, self._application = accounts, t.cast("subprocess.Popen[bytes] | None", None)

    def __enter__(self) -> Service:
        socket = self.folder / "emulator.sock"
        argv = [str(bare.environment() / "bin" / "gunicorn"), "--workers", "1", "--threads", THREADS, "--bind", f"unix:{socket}", "footprint_redfish:app"]
        with (self.folder / "application.log").open("wb") as log:
            self._application = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._env)
        program, env = bare.haproxy()
        try:
            self._configure(socket)
            self.start([program, "-f", str(self.folder / "proxy.cfg")], {**os.environ, **env})
        except BaseException:
            self._application.kill()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        super().__exit__(*unused)
        assert self._application
        self._application.kill()
        self._application.wait(60)

    def _configure(self, socket: pathlib.Path) -> None:
        """Write the configuration of the proxy; it runs as the user of the tests."""
        (self.folder / "proxy.pem").write_bytes(self.certificate.read_bytes() + self._key.read_bytes())
        values = {
            "__redfish_emulator_address": "127.0.0.1", "__redfish_emulator_etc": self.folder, "redfish_emulator_port": self.port,
            "redfish_emulator_accounts": [{"name": name, "vms": vms.split(","), "secret": name} for name, (_password, vms) in self._accounts.items()],
            "lookup": lambda _plugin, name: self._accounts[name][0],
        }  # fmt: skip
        template = jinja2.Template((APPLICATION.parent / "templates" / "proxy.cfg.j2").read_text("utf-8"), trim_blocks=True)
        text = re.sub(r"^ +(user|group) haproxy\n", "", template.render(values), flags=re.MULTILINE)
        (self.folder / "proxy.cfg").write_text(text.replace("/run/footprint-redfish/emulator.sock", str(socket)) + "\n", "utf-8")

    @staticmethod
    def basic(account: tuple[str, str]) -> str:
        """Return the value of Authorization."""
        return "Basic " + base64.b64encode(":".join(account).encode()).decode()

    def get(self, path: str, account: tuple[str, str] | None = None) -> tuple[t.Any, t.Mapping[str, str]]:
        """Return the body and the headers of an answer."""
        asked = urllib.request.Request(self.url + path)
        if account:
            asked.add_header("Authorization", self.basic(account))
        with urllib.request.urlopen(asked, timeout=10, context=ssl.create_default_context(cafile=str(self.certificate))) as answer:
            return json.load(answer), answer.headers
