# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The application of the role redfish_emulator as a service, with TLS and accounts, for the libvirtd of these tests."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import ssl
import typing as t
import urllib.request

import bare
import jinja2
import yaml

APPLICATION = bare.ROOT / "roles" / "redfish_emulator" / "files"


class Service(bare.Server):
    """One process of gunicorn.

    :arg accounts: password and VMs (names and UUIDs, separated by commas, or an asterisk) of each account.
    """

    def __init__(self, place: t.Any, folder: pathlib.Path, accounts: t.Mapping[str, tuple[str, str]]) -> None:
        self.folder, self.port, self.log = folder, bare.free_port(), folder / "service.log"
        self.certificate, self._key = bare.certificate(folder)
        (folder / "state").mkdir()
        # that of the role; of two values the last one counts
        text = (APPLICATION.parent / "templates" / "emulator.py.j2").read_text("utf-8")
        known = yaml.safe_load((APPLICATION.parent / "vars" / "Debian.yml").read_text("utf-8"))
        settings = {
            "FOOTPRINT_URIS": {"qemu:///system": place.uri, "lxc:///system": place.lxc_uri},
            "SUSHY_EMULATOR_STATE_DIR": str(folder / "state"),
        }
        text = jinja2.Template(text).render({**known, "redfish_emulator_storage_pool": "footprint-test"}) + "\n"
        (folder / "emulator.py").write_text(text + "".join(f"{key} = {value!r}\n" for key, value in settings.items()), "utf-8")
        self._env = {
            **os.environ,
            "PYTHONPATH": f"{APPLICATION}:{pathlib.Path(__file__).parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SUSHY_EMULATOR_CONFIG": str(folder / "emulator.py"),
            "ACCOUNTS": json.dumps(accounts),
        }
        self.url = f"https://localhost:{self.port}"

    def __enter__(self) -> Service:
        argv = [str(bare.environment() / "bin" / "gunicorn"), "--workers", "1", "--threads", "4", "--bind", f"127.0.0.1:{self.port}"]
        self.start([*argv, "--certfile", str(self.certificate), "--keyfile", str(self._key), "--access-logfile", "-", "accounts:app"], self._env)
        return self

    def get(self, path: str, account: tuple[str, str] | None = None) -> tuple[t.Any, t.Mapping[str, str]]:
        """Return the body and the headers of an answer."""
        asked = urllib.request.Request(self.url + path)
        if account:
            asked.add_header("Authorization", "Basic " + base64.b64encode(":".join(account).encode()).decode())
        with urllib.request.urlopen(asked, timeout=10, context=ssl.create_default_context(cafile=str(self.certificate))) as answer:
            return json.load(answer), dict(answer.headers)
