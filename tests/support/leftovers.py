# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gates have outside of the checkout: processes, folders, network interfaces and namespaces.

Tests remove what they create. If they are killed, this does it: each thing is noted before it is created, and the processes of gates
carry the checkout in their environment.

    leftovers.py            ends and removes all of it, for make clean
    leftovers.py KIND NAME  notes a thing
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

_HERE = pathlib.Path(__file__).resolve()
#: The checkout; the copy that ansible-test runs in is a part of its cache.
ROOT = pathlib.Path(str(_HERE.parents[2]).partition("/.cache/")[0])
#: Environment variable of all processes of gates.
MARK = "FOOTPRINT_CHECKOUT"
#: Seconds for processes to end after SIGTERM.
PATIENCE = 20


def _journal() -> pathlib.Path:
    return ROOT / ".cache" / "leftovers"


def note(kind: str, name: str | pathlib.Path) -> None:
    """Note a thing before it is created.

    :arg kind: ``folder`` (with everything that runs or is mounted in it), ``link`` or ``netns``.
    """
    _journal().parent.mkdir(parents=True, exist_ok=True)
    with _journal().open("a", encoding="utf-8") as file:
        file.write(f"{kind} {name}\n")


@contextlib.contextmanager
def folder(name: str) -> t.Iterator[pathlib.Path]:
    """Provide an empty folder with a short path, for sockets, on a disk."""
    path = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir="/var/tmp"))
    note("folder", path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def run() -> t.Iterator[None]:
    """Remove the leftovers of earlier runs before a run of gates, and its own afterwards, unless another run of this checkout is active."""
    lock = ROOT / ".cache" / "gates.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w", encoding="ascii") as file:
        _clean_if_alone(file)
        fcntl.flock(file, fcntl.LOCK_SH)
        os.environ[MARK] = str(ROOT)
        try:
            yield
        finally:
            _clean_if_alone(file)


def _clean_if_alone(lock: t.IO[str]) -> None:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        clean()


def clean() -> list[str]:
    """End and remove everything that is left; return a line for each thing."""
    found = [f"process {pid}" for pid in _end(_marked)]
    journal = _journal()
    lines = journal.read_text("utf-8").splitlines() if journal.exists() else []
    remove = {"folder": _remove_folder, "link": _remove_link, "netns": _remove_netns}
    for line in dict.fromkeys(lines):
        kind, _separator, name = line.partition(" ")
        if kind in remove and remove[kind](name):
            found.append(line)
    journal.unlink(missing_ok=True)
    return found


def _end(find: t.Callable[[], set[int]]) -> set[int]:
    """End processes and return them."""
    first = find()
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = time.monotonic() + PATIENCE
        for pid in find():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while find() and time.monotonic() < until:
            time.sleep(0.1)
    return first


def _marked() -> set[int]:
    """The processes of gates, without this one and its ancestors."""
    own, pid = set(), os.getpid()
    while pid > 1:
        own.add(pid)
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    mark = f"{MARK}={ROOT}".encode()
    return {pid for pid, words in _processes("environ") if mark in words and pid not in own}


def _processes(file: str) -> t.Iterator[tuple[int, list[bytes]]]:
    """The processes, each with the strings of a file in ``/proc``."""
    for path in pathlib.Path("/proc").glob(f"[0-9]*/{file}"):
        # it has ended, or is another user's
        with contextlib.suppress(OSError):
            yield int(path.parts[2]), path.read_bytes().split(b"\0")


def _remove_folder(name: str) -> bool:
    if not os.path.isdir(name):
        return False
    subprocess.run([str(_HERE.with_name("libvirtd")), "stop", name], check=False, capture_output=True)
    inside = name.encode() + b"/"
    _end(lambda: {pid for pid, words in _processes("cmdline") if any(inside in word for word in words) and pid != os.getpid()})
    mounts = [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text("utf-8").splitlines()]
    for mount in reversed([each for each in mounts if each.startswith(f"{name}/")]):
        subprocess.run(["umount", "--lazy", mount], check=False)
    shutil.rmtree(name, ignore_errors=True)
    return True


def _remove_link(name: str) -> bool:
    return subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True).returncode == 0


def _remove_netns(name: str) -> bool:
    pids = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True).stdout.split()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    return subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True).returncode == 0


if __name__ == "__main__":
    if sys.argv[1:]:
        note(*sys.argv[1:])
    else:
        for each in clean():
            print(f"removed: {each}")
