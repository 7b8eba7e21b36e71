# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server under QEMU with a separate kernel: device mapper, AppArmor, libvirt, and a second disk with a volume group."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import typing as t

import pytest
import yaml

from tests.support import leftovers

HERE = pathlib.Path(__file__).resolve().parent
# behind our own: it has a conftest too
sys.path[:0] = [str(HERE)]
sys.path.append(str(HERE.parent / "network"))

from seeds import Seed  # noqa: E402
from server import Server  # noqa: E402
from server_image import PACKAGES, ROOT, build  # noqa: E402
from wire import Wire  # noqa: E402

MIB = 1 << 20
BROKEN = pytest.StashKey[str]()


class VmHost(Server):
    """The server with its second disk."""

    memory = 2048

    @property
    def spare(self) -> pathlib.Path:
        """The second disk, /dev/vdc."""
        return self.folder / "spare.img"

    def more_disks(self) -> t.Sequence[pathlib.Path]:
        """One disk of 512 MiB, empty at first."""
        if not self.spare.exists():
            with open(self.spare, "wb") as stream:
                stream.truncate(512 * MIB)
        return (self.spare,)

    def put(self, file: pathlib.Path, path: str) -> None:
        """Copy a small file onto the server."""
        argv = ["ssh", "-i", str(self.key), *self.ssh_options(), f"root@{self.address}", f"cat > {path}"]
        subprocess.run(self.wire.inside(*argv), input=file.read_bytes(), check=True, timeout=60)


def _packages() -> list[str]:
    """Return the packages that the role installs, because the machine has no mirror, and those of an installed Debian."""
    wanted = yaml.safe_load((ROOT / "roles" / "virt_host" / "vars" / "Debian.yml").read_text(encoding="utf-8"))
    return [*PACKAGES, "apparmor", "python3-apt", *wanted["__virt_host_packages"], *wanted["__virt_host_logical_packages"]]


@pytest.fixture(scope="session", name="host")
def fixture_host() -> t.Iterator[VmHost]:
    """Return the server with a volume group ``vg0`` and an image ``counter``, before the role was applied."""
    image = build("vm-host", _packages())
    # sockets live there, so its name is short
    with leftovers.folder("rflvm") as folder:
        key, counter = folder / "key", folder / "counter.img"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        subprocess.run(["nasm", "-f", "bin", "-o", str(counter), str(ROOT / "tests" / "move" / "counter.asm")], check=True)
        wire = Wire(folder)
        wire.start()
        try:
            host = VmHost(folder, image, wire, Seed("networkd", "static", key.with_suffix(".pub").read_text()), key)
            try:
                host.on()
                host.ssh("vgcreate", "vg0", "/dev/vdc")
                host.ssh("mkdir", "-p", "/var/lib/libvirt/images/images")
                host.put(counter, "/var/lib/libvirt/images/images/counter.raw")
                host.ssh("truncate", "-s", "8M", "/var/lib/libvirt/images/images/counter.raw")
                yield host
            finally:
                host.off()
        finally:
            wire.stop()


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "chapter: part of one story; the rest needs it")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> t.Generator[None, t.Any, None]:
    """Record a failed chapter, and add the state of the server to its report."""
    outcome = yield
    report = outcome.get_result()
    host = getattr(item, "funcargs", {}).get("host")
    if report.when == "call" and report.failed:
        item.session.stash.setdefault(BROKEN, item.name)
        if host is not None:
            report.sections.append(("the server", host.report()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail the chapters after a failed one, because they depend on it."""
    broken = item.session.stash.get(BROKEN, None)
    if broken:
        pytest.fail(f"not tried: {broken} failed before", pytrace=False)
