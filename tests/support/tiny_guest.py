# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guest with the distribution's kernel and nothing but a shell: it lets go of devices, which firmware alone does not.

Needs apt, busybox-static and a package of a kernel in the archive.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "linux-image-cloud-amd64"
READY = "the guest is ready"
INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox echo {READY}
while :; do /bin/busybox sleep 1000; done
"""


def kernel() -> tuple[pathlib.Path, pathlib.Path]:
    """Kernel and initial RAM disk, made once for this checkout."""
    target = ROOT / ".cache" / "tiny-guest"
    if not (target / "initrd").exists():
        part = ROOT / ".cache" / f"tiny-guest-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        os.chmod(part, 0o755)
        said = subprocess.run(["apt-cache", "depends", PACKAGE], check=True, capture_output=True, text=True).stdout
        (name,) = set(re.findall(r"Depends: (linux-image-\S+)", said))
        subprocess.run(["apt-get", "-o", "APT::Sandbox::User=root", "download", name], check=True, cwd=part, stdout=subprocess.DEVNULL)
        (package,) = part.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", str(package), str(part / "package")], check=True)
        (found,) = (part / "package" / "boot").glob("vmlinuz-*")
        found.rename(part / "vmlinuz")
        tree = part / "tree"
        for folder in ("bin", "proc", "sys", "dev"):
            (tree / folder).mkdir(parents=True)
        shutil.copy("/bin/busybox", tree / "bin" / "busybox")
        (tree / "init").write_text(INIT, encoding="utf-8")
        (tree / "init").chmod(0o755)
        subprocess.run(["mknod", str(tree / "dev" / "console"), "c", "5", "1"], check=True)
        names = "\n".join(str(each.relative_to(tree)) for each in sorted(tree.rglob("*")))
        packed = subprocess.run(["/bin/busybox", "cpio", "-o", "-H", "newc"], input=names.encode(), cwd=tree, check=True, capture_output=True).stdout
        (part / "initrd").write_bytes(packed)
        for each in ("tree", "package"):
            shutil.rmtree(part / each)
        package.unlink()
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    return target / "vmlinuz", target / "initrd"


def template(text: str, folder: pathlib.Path) -> tuple[str, pathlib.Path]:
    """A template whose machine starts that kernel, from copies in a folder that QEMU may read; and the file its console is written to."""
    vmlinuz, initrd = [pathlib.Path(shutil.copy(each, folder)) for each in kernel()]
    console = folder / "console.log"
    boot = f"    <kernel>{vmlinuz}</kernel>\n    <initrd>{initrd}</initrd>\n    <cmdline>console=ttyS0 quiet</cmdline>\n  </os>"
    text, serials = re.subn(r"(?s)<serial type='pty'>.*?</serial>", f"<serial type='file'><source path='{console}'/></serial>", text)
    text, consoles = re.subn(r"(?s) *<console type='pty'>.*?</console>\n", "", text)
    assert serials and consoles and "</os>" in text
    return text.replace("</os>", boot), console


def wait(console: pathlib.Path, seconds: float = 180) -> None:
    """Until the guest has its shell."""
    end = time.monotonic() + seconds
    while not console.exists() or READY not in console.read_text(errors="replace"):
        assert time.monotonic() < end, console.read_text(errors="replace")[-2000:] if console.exists() else "the guest said nothing"
        time.sleep(0.2)
