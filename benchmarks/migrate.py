# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the part of a migration's downtime that is needed for the data, compared with one offline rsync.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 python -m benchmarks.migrate [--sizes 1 2 4] [--rate KIB] [--rates 512 4096] [--files 1000000]

Run as root; it creates a separate lab and uses its laptop and its first server. For each size the same files are
copied twice from the same machine to a new disk on the same server: by one rsync after the services stopped, and by the
steps of the worker, with a service that writes until the pause. See benchmarks/kept/migration.md.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import typing as t

from benchmarks import figures, process
from benchmarks.contenders import HERE, ROOT

GIB = 1024**3
SOURCE, DESTINATION = "laptop", "metal1"
WRITER = "footprint-bench-writer.service"
FOLDER = "/srv/bench"
#: Minimum ratio of the offline rsync to the pause at 4 GiB, minimum speed relative to rsync, maximum memory in bytes.
SHORTER, SPEED, MEMORY = 10.0, 0.9, 150 * 1024**2
HEADS = (
    "size, GiB", "written, KiB/s", "offline rsync, s", "data part of the pause, s", "shorter by", "final, s", "proof, s", "predicted, s",
    "copied in the pause, MiB", "first pass, × rsync's speed",
)  # fmt: skip


class Pair:
    """The two machines of the lab."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT / "lab"))
        from rflab.settings import current  # pylint: disable=import-outside-toplevel

        self.lab = current()
        if not self.lab.name:
            sys.exit("Set a separate lab, e.g. LAB_NAME=bench LAB_NETWORK=10.240.0.0/24.")

    def command(self, *arguments: str, given: bytes | None = None) -> str:
        """Run a command of ``lab/lab``, and return its output."""
        done = subprocess.run([str(ROOT / "lab" / "lab"), *arguments], input=given, stdout=subprocess.PIPE, check=True)
        return done.stdout.decode()

    def ssh(self, machine: str, *command: str, given: bytes | None = None) -> str:
        """Run a command on a machine, and return its output."""
        return self.command("ssh", machine, *command, given=given)

    def up(self, room: int) -> None:
        """Start the lab with the required packages, and ``room`` bytes on the source."""
        self.command("down")
        self.cache(room)
        self.command("up")
        self.ssh(DESTINATION, "apt-get", "-qq", "update")
        self.ssh(DESTINATION, "DEBIAN_FRONTEND=noninteractive apt-get -qq -y install rsync python3-libvirt python3-lxml python3-jinja2 fdisk >/dev/null")
        self.ssh(SOURCE, "mkdir", "-p", FOLDER)
        self.ssh(SOURCE, "tee", "/root/migrate_source.py", given=(HERE / "migrate_source.py").read_bytes())
        # other writing services must not be measured
        self.ssh(SOURCE, "systemctl", "stop", "mariadb", "dnsmasq", "footprint-api")

    def cache(self, room: int) -> None:
        """Copy the lab's cache by links, except for the source's second disk, which gets ``room`` bytes."""
        known = pathlib.Path(os.environ.get("LAB_CACHE") or ROOT / ".cache" / "lab")
        if not list(known.glob("laptop-*/srv.img")):
            self.command("up")
            self.command("down")
        own = ROOT / ".cache" / "lab-bench"
        shutil.rmtree(own, ignore_errors=True)
        for laptop in known.glob("laptop-*"):
            (own / laptop.name).mkdir(parents=True)
            for each in laptop.iterdir():
                (own / laptop.name / each.name).symlink_to(each)
            image = own / laptop.name / "srv.img"
            image.unlink()
            subprocess.run(["cp", "--sparse=always", str(laptop / "srv.img"), str(image)], check=True)
            os.truncate(image, room + 2 * GIB)
            # the exit code is 1 if something was repaired
            subprocess.run(["e2fsck", "-fy", str(image)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["resize2fs", str(image)], stdout=subprocess.DEVNULL, check=True)
        for each in known.iterdir():
            # parts are being built by another lab
            if not each.name.startswith(("lock-", "laptop-", "part-")):
                (own / each.name).symlink_to(each)
        os.environ["LAB_CACHE"] = str(own)

    def params(self, room: int) -> dict[str, t.Any]:
        """Return the parameters of the worker."""
        key = self.ssh(SOURCE, "cat", "/etc/ssh/ssh_host_ed25519_key.pub").strip()
        return {
            "name": "bench",
            "vm": {"id": "bench", "cpu": 1, "ram": 1, "hypervisor": "qemu", "disks": [{"size": f"{room // GIB + 7}GiB"}], "nics": [{"bridge": "br-admin"}]},
            "source": {"address": f"{self.lab.net}.2", "host_keys": [key]},
            "admin": {"address": f"{self.lab.net}.2", "temporary_address": f"{self.lab.net}.3"},
            "disk_schema": [{"mount": "/", "size": "4GiB"}, {"mount": "/srv", "size": "rest"}],
            "excludes": ["/tmp/*", "/var/cache/*", "/var/log/*"],
        }

    def write(self, rate: int) -> None:
        """Start the service that writes continuously."""
        self.ssh(
            SOURCE,
            f"systemctl stop {WRITER} 2>/dev/null; systemd-run --quiet --collect --unit={WRITER} python3 /root/migrate_source.py write {FOLDER}/live {rate}",
        )

    def run(self, what: str, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Run migrate_destination on the server, and return its result."""
        given = json.dumps({"what": what, "params": params}).encode()
        command = f"PYTHONPATH={LIBRARY} unshare -m python3 {LIBRARY}/migrate_destination.py"
        return dict(json.loads(self.ssh(DESTINATION, command, given=given).strip().splitlines()[-1]))

    def install(self, params: t.Mapping[str, t.Any]) -> None:
        """Copy the code to the server, and its key to the source."""
        self.ssh(DESTINATION, "mkdir", "-p", LIBRARY)
        inner = "ansible_collections/reduced/footprint/plugins/module_utils"
        packed = subprocess.run(
            ["tar", "-c", "--exclude=__pycache__", f"--transform=s,^plugins/module_utils,{inner},", "--transform=s,^benchmarks/,,",
             "plugins/module_utils", "benchmarks/migrate_destination.py"],
            cwd=ROOT, stdout=subprocess.PIPE, check=True,
        ).stdout  # fmt: skip
        self.ssh(DESTINATION, "tar", "-x", "-C", LIBRARY, given=packed)
        key = self.run("key", params)["key"]
        self.ssh(SOURCE, "tee", "-a", "/root/.ssh/authorized_keys", given=f"{key}\n".encode())


LIBRARY = "/root/footprint-bench"


def compared(pair: Pair, size: int, rate: int, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Measure one size both ways; the files are in the source's page cache for both."""
    pair.ssh(SOURCE, "python3", "/root/migrate_source.py", "fill", FOLDER, str(size * 1024))
    pair.write(rate)
    time.sleep(2)
    pair.ssh(SOURCE, f"find {FOLDER} -type f -exec cat {{}} + > /dev/null; sync")
    offline = pair.run("offline", params)
    pair.write(rate)
    found = pair.run("ours", params)
    return {"size": size, "rate": rate, "offline": offline["data"], **found}


def row(found: t.Mapping[str, t.Any]) -> list[str]:
    """Return one line of the table."""
    return [
        str(found["size"]),
        str(found["rate"]),
        f"{found['offline']:.1f}",
        f"{found['data']:.2f}",
        f"{found['offline'] / found['data']:.1f} ×",
        f"{found['parts']['final']:.2f}",
        f"{found['parts']['verify']:.2f}",
        f"{found['predicted']:.1f}",
        f"{found['final_bytes'] / 1024**2:.1f}",
        f"{found['offline'] / found['cold']:.2f}",
    ]


def slope(found: t.Sequence[t.Mapping[str, t.Any]], by: str) -> float | None:
    """Return seconds of the pause per unit (least squares), ``None`` for a single point."""
    points = [(float(each[by]), float(each["data"])) for each in found]
    mean_x, mean_y = (sum(each) / len(points) for each in zip(*points)) if points else (0.0, 0.0)
    spread = sum((x - mean_x) ** 2 for x, _y in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else None


def main() -> None:
    """Set up, measure, print and remove the lab."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1, 2, 4, 8], metavar="GIB")
    parser.add_argument("--rate", type=int, default=1024, metavar="KIB", help="write rate of the service, for all sizes")
    parser.add_argument("--rates", type=int, nargs="*", default=[], metavar="KIB", help="additional rates, for the first size")
    parser.add_argument("--files", type=int, default=0, help="number of small files for the memory of the unit")
    asked = parser.parse_args()
    room = max([*asked.sizes, asked.files * 18 // 1024**2, 1]) * GIB
    pair = Pair()
    # remove the lab if the benchmark is terminated
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("ended"))
    facts = process.machine(sys.executable, str(pathlib.Path(sys.executable).with_name("ansible-playbook")))
    results: dict[str, t.Any] = {"machine": facts, "sizes": [], "rates": []}
    try:
        pair.up(room)
        params = pair.params(room)
        pair.install(params)
        for size, rate, where in [*((size, asked.rate, "sizes") for size in asked.sizes[:1]), *((asked.sizes[0], rate, "rates") for rate in asked.rates),
                                  *((size, asked.rate, "sizes") for size in asked.sizes[1:])]:  # fmt: skip
            results[where].append(compared(pair, size, rate, params))
            keep(results)
            print(" | ".join(row(results[where][-1])), file=sys.stderr, flush=True)
        if asked.files:
            pair.ssh(SOURCE, "rm", "-rf", FOLDER)
            pair.ssh(SOURCE, "python3", "/root/migrate_source.py", "many", f"{FOLDER}/many", str(asked.files))
            pair.write(asked.rate)
            results["many"] = {"files": asked.files, **pair.run("many", params)}
            keep(results)
    finally:
        pair.command("down")
        shutil.rmtree(ROOT / ".cache" / "lab-bench", ignore_errors=True)
    print(report(results))


def keep(results: t.Mapping[str, t.Any]) -> None:
    """Write the results so far."""
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "migrate.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def report(results: t.Mapping[str, t.Any]) -> str:
    """Format all tables in Markdown."""
    everything = [*results["sizes"], *results["rates"]]
    parts = [figures.markdown(HEADS, [row(each) for each in everything])]
    largest = next((each for each in results["sizes"] if each["size"] == 4), None)
    targets = []
    if largest:
        value = largest["offline"] / largest["data"]
        targets.append(["data part of the pause at 4 GiB, shorter by", f"≥ {SHORTER:g} ×", f"{value:.1f} ×", "met" if value >= SHORTER else "MISS"])
    if everything:
        speed = sorted(each["offline"] / each["cold"] for each in everything)[len(everything) // 2]
        targets.append(["first pass, of plain rsync's speed (median)", f"≥ {SPEED:g}", f"{speed:.2f}", "met" if speed >= SPEED else "MISS"])
        for by, of, unit in (("size", results["sizes"], "GiB"), ("rate", [*results["rates"], *results["sizes"][:1]], "KiB/s")):
            found = slope(of, by)
            if found is not None:
                targets.append([f"one more {unit}, seconds of the pause", "", f"{found:.4f}", ""])
    many = results.get("many")
    if many:
        value = many["unit_bytes"]
        targets.append(
            [f"memory of the unit at {many['files']} files", f"< {MEMORY // 1024**2} MiB", f"{value / 1024**2:.0f} MiB", "met" if value < MEMORY else "MISS"]
        )
        targets.append(["of these, the worker", "", f"{many['worker_bytes'] / 1024**2:.0f} MiB", ""])
    parts.append(figures.markdown(("what", "limit", "measured", ""), targets))
    parts.append(figures.markdown(("machine", "value"), [list(each) for each in results["machine"].items()]))
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
