# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each gate has shown: on which commit, when, in how many seconds, with which inputs.

``tests/evidence.json`` is part of the repository and only written from a clean checkout; ``tests/output/passed.json`` is for ``--resume``
in any state of the checkout. In both, a gate that failed has no entry.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import re
import subprocess
import threading
import typing as t

import workspace
from counts import Count
from engine import NOT_REACHED, Gate, Outcome

FILE = workspace.ROOT / "tests" / "evidence.json"
#: What is made from the evidence.
PAGES = ("docs/evidence.md",)
#: What every gate with real parts runs.
PRODUCT = (
    *("plugins", "roles", "playbooks", "meta", "lab", "scripts", "galaxy.yml", "pytest.ini", "requirements-dev.txt"),
    *("tests/conftest.py", "tests/runner", "tests/support"),
)
#: A gate that took less is not worth reusing.
SHORT = 120.0
#: Older evidence is not reused: packages of the distribution and images, which are no inputs, have changed.
DAYS = 14
#: Seconds after the start of a run at which a long gate is ended, so that the whole of it, with set-up and cleanup, stays below 70 minutes.
LIMIT = 64 * 60.0
#: A long gate is started only if this times its recorded duration fits.
MARGIN = 1.25
EARLIER = "passed in an earlier run"
#: Variables that change what a gate runs.
CHOICES = ("LAB_RELEASE", "ROUNDS", "SEED")
_FOLDER = re.compile(r"\"tests\" / \"(\w+)\"|\bfrom tests\.(\w+)|\btests/(\w+)/")
Entry = t.Dict[str, t.Any]


def folders(*names: str) -> tuple[str, ...]:
    """Return folders and files below ``tests/`` and all folders there that their Python code names, directly or through others."""
    found = list(names)
    for name in found:
        path = workspace.ROOT / "tests" / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            named = {"".join(match) for match in _FOLDER.findall(file.read_text("utf-8"))} - {"unit", "output", "runner", "support"}
            found += sorted(each for each in named if each not in found and (workspace.ROOT / "tests" / each).is_dir())
    return tuple(f"tests/{name}" for name in found)


def inputs(gate: Gate) -> tuple[str, ...]:
    """Return the paths that can change the result of a gate, as git pathspecs.

    A gate of the same name as a folder of tests depends on the product and on this folder. Without that and without paths of its own, on everything.
    """
    own = gate.inputs or (folders(gate.name) if (workspace.ROOT / "tests" / gate.name).is_dir() else ())
    unused = (":(exclude)*.md", ":(exclude)docs", ":(exclude)changelogs") if own else (f":(exclude){name}" for name in PAGES)
    return (*(PRODUCT if own else ()), *(own or (".",)), ":(exclude)tests/evidence.json", *unused)


@functools.lru_cache(maxsize=None)
def _content(path: str, _modified: int, _size: int) -> bytes:
    return hashlib.sha256(pathlib.Path(path).read_bytes()).digest()


def digest(gate: Gate) -> str:
    """Return a hash of a gate's inputs as they are in the checkout, committed or not."""
    whole = hashlib.sha256()
    listed = workspace.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *inputs(gate)).split("\0")
    for name in sorted({name for name in listed if name and (workspace.ROOT / name).is_file()}):
        path = workspace.ROOT / name
        facts = path.stat()
        whole.update(name.encode() + b"\0" + _content(str(path), facts.st_mtime_ns, facts.st_size))
    return whole.hexdigest()[:32]


def environment() -> str:
    """Return the class of this machine: results of one class say nothing about another."""
    system = platform.freedesktop_os_release()
    python = ".".join(platform.python_version_tuple()[:2])
    core = ".".join(importlib.metadata.version("ansible-core").split(".")[:2])
    kvm = "with" if os.access("/dev/kvm", os.R_OK | os.W_OK) else "without"
    chosen = "".join(f", {name}={os.environ[name]}" for name in CHOICES if name in os.environ)
    return f"{system['ID']} {system.get('VERSION_ID', '')} {platform.machine()} {kvm} /dev/kvm, Python {python}, ansible-core {core}{chosen}"


def clean_commit() -> str:
    """Return the commit of a checkout without changes, otherwise an empty text."""
    status = workspace.git("status", "--porcelain", "--", ".", ":(exclude)tests/evidence.json", *(f":(exclude){name}" for name in PAGES))
    return "" if status.strip() else workspace.git("rev-parse", "HEAD").strip()


def commits_since(gate: Gate, commit: str) -> int | None:
    """Return how many commits touched a gate's inputs since another; ``None``: this repository does not know the other one."""
    try:
        workspace.git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    except subprocess.CalledProcessError:
        return None
    return int(workspace.git("rev-list", "--count", f"{commit}..HEAD", "--", *inputs(gate)))


def load(path: pathlib.Path = FILE) -> dict[str, Entry]:
    """Return the entries of a file; none if it is absent or damaged, so that everything runs."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        return {name: entry for name, entry in kept.items() if {"commit", "date", "seconds", "passed", "skipped", "inputs", "environment"} <= set(entry)}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def save(path: pathlib.Path, entries: t.Mapping[str, Entry]) -> None:
    """Replace a file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    # one line for each gate
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries.items()))
    new.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    os.replace(new, path)


def measure(gates: t.Sequence[Gate], path: pathlib.Path = FILE) -> dict[str, Entry]:
    """Note in the evidence how many commits touched the inputs of each gate since it was shown (``None``: unknown), and return it."""
    entries = load(path)
    for gate in gates:
        if entry := entries.get(gate.name):
            entry["commits_since"] = 0 if entry["inputs"] == digest(gate) else commits_since(gate, entry["commit"])
    save(path, entries)
    return entries


class Evidence:
    """What earlier runs showed, and what this run adds.

    :arg gates: all gates, for :meth:`lines`.
    :arg resume: do not repeat gates that passed in this checkout with the same inputs.
    :arg reuse: nor those that the evidence of the same class of machine has with the same inputs, unless they are short.
    :arg write: add what passes to the evidence.
    :arg facts: the hash of a gate's inputs, the clean commit or an empty text, and the class of the machine; for tests.
    """

    def __init__(
        self,
        local: pathlib.Path,
        committed: pathlib.Path = FILE,
        *,
        gates: t.Sequence[Gate] = (),
        resume: bool = False,
        reuse: bool = False,
        write: bool = False,
        facts: tuple[t.Callable[[Gate], str], t.Callable[[], str], t.Callable[[], str]] = (digest, clean_commit, environment),
    ) -> None:
        self._gates = gates
        self._files = {"local": local, "committed": committed}
        self._entries = {which: load(path) for which, path in self._files.items()}
        self._resume, self._reuse, self._write = resume, reuse, write
        self._digest, self._commit, environment_of = facts
        self._began: dict[str, str] = {}
        self._lock = threading.Lock()
        self._environment = environment_of()
        self._start = self._commit()
        self.written = False

    def known(self, gate: Gate) -> Outcome | None:
        """Return the outcome of a gate that need not run. What is reused from the evidence counts no tests in this run."""
        self._began[gate.name] = now = self._digest(gate)
        entry = self._entries["local"].get(gate.name)
        if self._resume and entry and entry["inputs"] == now:
            return Outcome(gate.name, Count(entry["passed"], 0, entry["skipped"]), entry["seconds"], EARLIER)
        entry = self._entries["committed"].get(gate.name)
        since = (datetime.date.today() - datetime.timedelta(days=DAYS)).isoformat()
        same = self._reuse and entry and entry["inputs"] == now and entry["environment"] == self._environment
        if same and entry["seconds"] >= SHORT and entry["date"] >= since:
            return Outcome(gate.name, remark=f"reused: {entry['passed']} passed on {entry['date']} at {entry['commit'][:8]}")
        return None

    def add(self, gate: Gate, count: Count, seconds: float) -> None:
        """Keep a gate that passed, forget one that failed; neither if its inputs or the commit changed while it ran."""
        with self._lock:
            if self._began.get(gate.name) != self._digest(gate):
                return
            entry = {"passed": count.passed, "skipped": count.skipped, "failed": 0, "seconds": round(seconds, 1), "inputs": self._began[gate.name]}
            entry |= {"date": datetime.date.today().isoformat(), "commit": self._start, "environment": self._environment}
            places = ["local"] + ["committed"] * bool(self._write and self._start and self._start == self._commit())
            for which in places:
                self._entries[which].pop(gate.name, None)
                if count.passed and not count.failed:
                    self._entries[which][gate.name] = entry
            save(self._files["local"], self._entries["local"])
            self.written |= len(places) > 1

    def publish(self) -> None:
        """Write what was added to the evidence. After the run: a gate of the same run compares the evidence with the pages made from it."""
        if self.written:
            save(self._files["committed"], self._entries["committed"])

    def stalest(self, gates: t.Sequence[Gate], elapsed: float) -> Gate | None:
        """Return the long gate whose inputs changed most since it was shown on this class of machine, of those that end before ``LIMIT``."""
        entries = self._entries["committed"]
        fitting = [
            gate
            for gate in gates
            if (entry := entries.get(gate.name)) and entry["environment"] == self._environment
            if elapsed + MARGIN * entry["seconds"] <= LIMIT and entry["inputs"] != self._digest(gate)
        ]

        def age(gate: Gate) -> tuple[float, str]:
            number = commits_since(gate, entries[gate.name]["commit"])
            return (float("-inf") if number is None else -float(number), entries[gate.name]["date"])

        return min(fitting, key=age, default=None)

    def lines(self, outcomes: t.Sequence[Outcome]) -> list[str]:
        """Return what ran, what was reused, what is stale and what was never recorded, as the last lines of a run."""
        reused = {one.name: one.remark for one in outcomes if one.remark.startswith("reused: ")}
        ran = [one.name for one in outcomes if one.name not in reused and one.remark not in (EARLIER, NOT_REACHED)]
        found = [f"ran: {', '.join(ran) or 'nothing'}", *(f"{remark.replace(': ', f': {name}, ', 1)}" for name, remark in reused.items())]
        if earlier := [one.name for one in outcomes if one.remark == EARLIER]:
            found.append(f"{EARLIER}: {', '.join(earlier)}")
        if self._write and not self._start:
            found.append("nothing was recorded: the checkout has changes that are not committed")
        others = [gate for gate in self._gates if gate.name not in {one.name for one in outcomes}]
        entries = self._entries["committed"]
        stale = [gate for gate in others if gate.name in entries and entries[gate.name]["inputs"] != self._digest(gate)]
        found += [f"stale: {gate.name}, shown on {entries[gate.name]['date']} at {entries[gate.name]['commit'][:8]}" for gate in stale]
        missing = [gate.name for gate in others if gate.name not in entries]
        return [*found, f"not run, and not recorded: {', '.join(missing)}"] if missing else found
