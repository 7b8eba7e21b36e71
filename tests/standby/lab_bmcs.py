# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Management controllers of the servers of the lab, which the servers themselves reach: sushy-tools with the power of the lab behind it."""

from __future__ import annotations

import os
import pathlib
import secrets
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "metal")]

import bare  # noqa: E402
from rflab.settings import current  # noqa: E402


class Controllers(bare.Server):
    """One process, with a system for each server."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self.log, self.password = folder, folder / "controllers.log", secrets.token_hex(12)
        self.address, self.port = current().host_address, bare.free_port()
        self.certificate, self._key = bare.certificate(folder, f"IP:{self.address}")
        (folder / "emulator.py").write_text(f"SUSHY_EMULATOR_STATE_DIR = {str(folder)!r}\n", "utf-8")
        path = str(ROOT / "tests" / "replace")
        account = {"ACCOUNT": f"{bare.USER}:{self.password}", "SUSHY_EMULATOR_CONFIG": str(folder / "emulator.py")}
        self._env = {**os.environ, **account, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        self.url = f"https://{self.address}:{self.port}"

    def __enter__(self) -> Controllers:
        argv = [str(bare.environment() / "bin" / "python"), "-m", "gunicorn", "--workers", "1", "--threads", "8", "--bind", f"{self.address}:{self.port}"]
        self.start([*argv, "--certfile", str(self.certificate), "--keyfile", str(self._key), "lab_systems:app"], self._env)
        return self

    def entry(self, server: str) -> dict[str, t.Any]:
        """Return ``bmc`` of a server for the inventory; its secret is ``bmc/lab``."""
        return {"address": f"{self.address}:{self.port}", "user": bare.USER, "secret": "bmc/lab", "verify_ca": str(self.certificate), "system": server}

    def powered(self) -> list[str]:
        """Return the changes of the power so far."""
        return [line.removeprefix("power ") for line in self.log.read_text("utf-8").splitlines() if line.startswith("power ")]
