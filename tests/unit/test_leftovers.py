# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whatever kills a gate, nothing of it is left."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
#: A run that creates what the tests of gates create, and waits.
RUN = """
import os, pathlib, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import leftovers
with leftovers.run(), leftovers.folder("rfleft") as folder:
    name = f"rfleft{os.getpid() % 10**6}"
    leftovers.note("link", name)
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    leftovers.note("netns", name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    # one leaves the session, the other has no environment, as the guests of libvirt
    child = subprocess.Popen(["sleep", "300"], start_new_session=True)
    guest = subprocess.Popen(["sh", "-c", "sleep 300; :", str(folder / "guest.sock")], start_new_session=True, env={})
    pathlib.Path(sys.argv[2]).write_text(f"{name} {folder} {child.pid} {guest.pid}")
    time.sleep(300)
"""


def left(name: str, folder: str, *pids: str) -> list[str]:
    """Return what is left of a run."""
    paths = [f"/sys/class/net/{name}", f"/run/netns/{name}", folder]
    running = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists() and "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8").split()[2]]
    return [path for path in paths if os.path.exists(path)] + running


@pytest.mark.parametrize("way", ["make clean", "the next run"])
def test_nothing_is_left_of_a_run_that_was_killed(tmp_path: pathlib.Path, way: str) -> None:
    copy = tmp_path / "tests/support"
    copy.mkdir(parents=True)
    for name in ("leftovers.py", "libvirtd"):
        shutil.copy(SUPPORT / name, copy / name)
    (tmp_path / "run.py").write_text(RUN, "utf-8")
    with subprocess.Popen([sys.executable, str(tmp_path / "run.py"), str(copy), str(tmp_path / "made")]) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "made").exists() or not (tmp_path / "made").read_text("utf-8"):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    made = (tmp_path / "made").read_text("utf-8").split()
    assert len(left(*made)) == 5, "the test cannot fail"
    again = "import sys; sys.path.insert(0, sys.argv[1]); import leftovers\nwith leftovers.run(): pass"
    command = [str(copy / "leftovers.py")] if way == "make clean" else ["-c", again, str(copy)]
    subprocess.run([sys.executable, *command], check=True)
    assert left(*made) == [] and not (tmp_path / ".cache/leftovers").exists()


def test_a_second_run_leaves_the_first_alone(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "tests/support"
    copy.mkdir(parents=True)
    for name in ("leftovers.py", "libvirtd"):
        shutil.copy(SUPPORT / name, copy / name)
    code = "import sys; sys.path.insert(0, sys.argv[1]); import leftovers\nwith leftovers.run():\n    print('runs', flush=True); sys.stdin.read()"
    first = subprocess.Popen([sys.executable, "-c", code, str(copy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with first:
        assert first.stdout and first.stdout.readline() == "runs\n"
        (tmp_path / ".cache/leftovers").write_text(f"folder {tmp_path / 'of-the-first'}\n", "utf-8")
        (tmp_path / "of-the-first").mkdir()
        subprocess.run([sys.executable, "-c", code, str(copy)], check=True, stdin=subprocess.DEVNULL, capture_output=True)
        assert (tmp_path / "of-the-first").is_dir() and first.poll() is None
        first.communicate("", timeout=60)
    assert not (tmp_path / "of-the-first").exists()


def test_a_terminated_pytest_removes_what_its_fixtures_created(tmp_path: pathlib.Path) -> None:
    shutil.copy(SUPPORT.parent / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "test_waits.py").write_text(
        "import pathlib, time, pytest\nHERE = pathlib.Path(__file__).parent\n"
        "@pytest.fixture(scope='session')\ndef made():\n    yield\n    (HERE / 'removed').touch()\n"
        "def test_waits(made):\n    (HERE / 'runs').touch()\n    time.sleep(300)\n",
        "utf-8",
    )
    with subprocess.Popen([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)], stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "runs").exists():
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
    assert process.returncode != 0 and (tmp_path / "removed").exists()
