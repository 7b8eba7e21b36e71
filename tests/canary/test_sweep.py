# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A canary in every input that is secret, and a sweep over everything that comes out: ``-vvv --diff``, logs, command lines, files, libvirt.

The playbook is run for real, again, with other secrets, in check mode, and with everything in it broken; with the newest ansible-core only
the first and the last.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

from tests.support.canary import Canaries, CommandLines, Finding, Syslog

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LOG = pathlib.Path("/dev/log")
INPUTS = sorted(set(re.findall(r"\bc_\w+", (HERE / "inputs.yml").read_text(encoding="utf-8"))))


class Place:
    """Where the playbook runs, and what came out of it."""

    def __init__(self, folder: pathlib.Path, daemon: dict[str, str], tool: str) -> None:
        self.canaries, self.daemon, self.tool = Canaries(), daemon, tool
        self.given, self.work = folder / "given", folder / "work"
        for each in (self.given, self.work, self.work / "home"):
            each.mkdir(mode=0o700)
        (self.given / "ansible.cfg").touch()
        self.shown: list[tuple[str, str]] = []
        self.found: set[Finding] = set()

    def play(self, name: str, *options: str, broken: bool = False, salt: str = "") -> str:
        """One run of the playbook; its output."""
        uri = self.daemon["FOOTPRINT_TEST_QEMU_URI"]
        given = {"libvirt": uri, "work": str(self.work), "broken": broken, "python": sys.executable}
        # VNC takes eight characters
        given.update({each: self.canaries(each + salt, 8 if each in ("c_vnc", "c_inline") else 0) for each in INPUTS})
        (self.given / "given.json").write_text(json.dumps(given), encoding="utf-8")
        env = {
            **os.environ,
            "HOME": str(self.work / "home"),
            "TMPDIR": str(self.work),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.work / "home" / "local"),
            "ANSIBLE_REMOTE_TEMP": str(self.work / "home" / "remote"),
            "ANSIBLE_NOCOLOR": "1",
            # otherwise newer versions do not show the parameters
            "ANSIBLE_INJECT_INVOCATION": "1",
            "ANSIBLE_CONFIG": str(self.given / "ansible.cfg"),
            "ANSIBLE_LOG_PATH": str(self.work / "home" / "ansible.log"),
        }
        argv = [self.tool, "-i", "localhost,", "-vvv", "--diff", *options, "-e", f"@{self.given / 'given.json'}", str(HERE / "inputs.yml")]
        with CommandLines(self.canaries) as watch:
            done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=900, check=False, stdin=subprocess.DEVNULL)
        self.found |= watch.found
        output = done.stdout + done.stderr
        self.shown.append((name, output))
        assert "PLAY RECAP" in output and "unreachable=0" in output, output[-2000:]
        return output

    def read_only(self) -> str:
        """Return every document that libvirt shows to a client that does not request secrets."""
        uri, texts = self.daemon["FOOTPRINT_TEST_QEMU_URI"], []
        names = subprocess.run(["virsh", "-r", "-c", uri, "list", "--all", "--name"], check=True, capture_output=True, text=True).stdout.split()
        for name in names:
            for which in ([], ["--inactive"]):
                texts.append(subprocess.run(["virsh", "-r", "-c", uri, "dumpxml", *which, name], check=True, capture_output=True, text=True).stdout)
        assert names, "no VM was defined, so nothing was swept"
        return "\n".join(texts)


@contextlib.contextmanager
def system_log(folder: pathlib.Path) -> t.Iterator[Syslog | None]:
    """Provide a system log during the test if this machine has none."""
    if LOG.exists():
        yield None
        return
    with Syslog(LOG) as log:
        try:
            yield log
        finally:
            LOG.unlink()


def test_canaries_are_not_disclosed(tmp_path: pathlib.Path, daemon: dict[str, str], ansible_playbook: str) -> None:
    place = Place(tmp_path, daemon, ansible_playbook)
    with system_log(tmp_path) as log:
        made = place.play("made")
        # what a version of ansible-core shows by itself, these two show; what modules return does not depend on it
        if pathlib.Path(ansible_playbook).parent == pathlib.Path(sys.executable).parent:
            place.play("again")
            place.play("other secrets", salt=" second")
            place.play("check mode", "--check", salt=" third")
        place.play("broken", broken=True, salt=" second")
    # the tasks that can succeed here did: a sweep of refusals only would prove little
    assert made.count('"actions": [') >= 2 and "VALUE_" in made and "shown-length" in made
    found = set(place.found)
    for name, text in place.shown:
        found.update(place.canaries.in_text(text, f"output, {name}"))
    found.update(place.canaries.in_text(place.read_only(), "virsh -r dumpxml"))
    if log is not None:
        assert any("vm_define: Invoked" in line for line in log.lines), "nothing was logged"
        found.update(place.canaries.in_text("\n".join(log.lines), "system log"))
    for file in ("service.conf", "free.conf"):
        (place.work / file).unlink(missing_ok=True)
    found.update(place.canaries.in_tree(place.work))
    found.update(place.canaries.in_tree(pathlib.Path(daemon["folder"], "log")))
    # libvirt keeps passwords of displays in files of root, seeds are disks: other users must not be able to read them
    found.update(place.canaries.in_tree(daemon["folder"], readable=True))
    for state in ("/var/lib/reduced.footprint", "/var/cache/reduced.footprint", "/run/reduced.footprint", "/etc/ansible/facts.d"):
        found.update(place.canaries.in_tree(state))
    assert not found, "\n".join(sorted(f"{each.name}: {each.place}" for each in found))
