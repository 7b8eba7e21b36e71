# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write host settings: files, systemd units, kernel limits, huge pages, groups, labels."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import stat
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo, read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import HUGE_PAGES
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.model_settings import FileFound, Label, PagesFound, Unit, WriteFile

KVM_DEVICE = "/dev/kvm"
_PAGES = "sys/kernel/mm/hugepages"
#: Requests that the kernel could not fulfil; lost at a reboot, after which they are tried again.
_TRIED = "run/reduced.footprint/huge-pages.json"
_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState,ExecMainStartTimestampMonotonic,NeedDaemonReload,MainPID"
_START_TIMEOUT = 120
_PATIENCE = 1.0


class SettingsHost:
    """Access to this host."""

    def __init__(self, root: str = "/") -> None:
        self._root = pathlib.Path(root)
        self._restarted = 0.0

    def _at(self, path: str) -> pathlib.Path:
        return self._root / path.lstrip("/")

    def files(self, paths: t.Iterable[str]) -> dict[str, FileFound]:
        """Return the existing files."""
        found = {}
        for path in paths:
            try:
                written = self._at(path).stat().st_mtime
                text = self._at(path).read_text(encoding="utf-8", errors="surrogateescape")
            except FileNotFoundError:
                continue
            found[path] = FileFound(text, written)
        return found

    def times(self, folders: t.Iterable[str]) -> dict[str, float]:
        """Return the modification times of the existing folders."""
        return {folder: self._at(folder).stat().st_mtime for folder in folders if self._at(folder).is_dir()}

    def write(self, step: WriteFile) -> None:
        """Write or remove a file; symbolic links are followed."""
        path = pathlib.Path(os.path.realpath(self._at(step.path)))
        if step.text is None:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        else:
            write_atomic(path, step.text, step.mode)

    def restore(self, steps: t.Sequence[WriteFile]) -> None:
        """Undo :meth:`write`."""
        for step in reversed(steps):
            self.write(WriteFile(step.path, step.text, step.before, step.mode))

    def units(self, names: t.Sequence[str]) -> dict[str, Unit]:
        """Return the state of each unit from systemd."""
        output = run(["systemctl", "show", f"--property={_PROPERTIES}", "--", *names], timeout=60).stdout
        blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in output.split("\n\n") if block.strip()]
        began = time.time() - time.monotonic()
        # an alias is shown with another name, so they are matched by their order
        return {name: _unit(name, block, began) for name, block in zip(names, blocks)}

    def limits(self, paths: t.Mapping[str, str]) -> dict[str, int | None]:
        """Return the number in each file of the kernel, ``None`` if there is none."""
        return {name: _number(read_text(self._at(path)) if self._at(path).is_file() else None) for name, path in paths.items()}

    def memory(self) -> tuple[int, int]:
        """Return the host's memory and the default huge page size, in KiB."""
        sizes = meminfo(str(self._root))
        return sizes.get("MemTotal", 0) // 1024, sizes.get("Hugepagesize", 0) // 1024

    def pages(self) -> dict[int, PagesFound]:
        """Return the huge pages of each supported size."""
        tried = self._tried()
        found = {}
        for folder in sorted(self._at(_PAGES).glob("hugepages-*kB")):
            size = int(folder.name[len("hugepages-") : -len("kB")])
            count, free = (_number(read_text(folder / name)) or 0 for name in ("nr_hugepages", "free_hugepages"))
            found[size] = PagesFound(count, free, tried.get(str(size)))
        return found

    def give_pages(self, size_kib: int, count: int) -> int:
        """Request huge pages from the kernel; returns the allocated number."""
        path = self._at(f"{_PAGES}/hugepages-{size_kib}kB/nr_hugepages")
        tried = self._tried()
        _put(path, count)
        given = _number(read_text(path)) or 0
        if given < count:
            with contextlib.suppress(OSError):
                self._at("proc/sys/vm/compact_memory").write_text("1", encoding="ascii")
            _put(path, count)
            given = _number(read_text(path)) or 0
        tried.pop(str(size_kib), None)
        if given < count:
            tried[str(size_kib)] = count
        write_atomic(self._at(_TRIED), json.dumps(HUGE_PAGES.mark(tried)), 0o644)
        return given

    def _tried(self) -> dict[str, int]:
        try:
            return HUGE_PAGES.load(read_text(self._at(_TRIED)) or "{}", _TRIED)
        except ValueError:
            return {}

    def set_number(self, path: str, value: int) -> None:
        """Write a number to a file of the kernel."""
        _put(self._at(path), value)

    def modules(self) -> dict[str, str]:
        """Return the value of the parameter nested of each loaded KVM module."""
        found = {name: read_text(self._at(f"sys/module/{name}/parameters/nested")) for name in ("kvm_intel", "kvm_amd")}
        return {name: text for name, text in found.items() if text is not None}

    def has_kvm(self) -> bool:
        """Whether the KVM device exists."""
        return self._at(KVM_DEVICE).is_char_device()

    @staticmethod
    def prove_kvm(facts_file: str, timeout: float) -> tuple[bool | None, str]:
        """Return whether a guest runs under KVM and the reason, from the node's record if that is valid; ``None`` without QEMU.

        The test guest is a child of this process, which sees the device even if it is hidden from libvirt.
        """
        # imported on demand, because these modules have many dependencies and most hosts do not need them
        from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts, io_hypervisor_probe
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm
        from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HypervisorProof

        if io_kvm.qemu_binary() is None or os.uname().machine != "x86_64":
            return None, "QEMU for x86_64 is not installed yet"
        facts = io_facts.measure()
        known = io_facts.read_recorded(facts_file)[1].get("hypervisors")
        proof = HypervisorProof.from_dict("kvm", known.get("kvm")) if isinstance(known, dict) else None
        if proof is None or proof.key != io_facts.proof_key("kvm", facts):
            proof = io_hypervisor_probe.prove("kvm", facts, timeout)
        return proof.usable, proof.reason

    def hides_kvm(self, pid: int) -> bool:
        """Whether a process sees another KVM device than the host, or none."""
        try:
            real = os.stat(self._at(KVM_DEVICE))
        except OSError:
            return False
        if not pid:
            return False
        try:
            seen = os.stat(self._at(f"proc/{pid}/root{KVM_DEVICE}"))
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return not (stat.S_ISCHR(seen.st_mode) and seen.st_rdev == real.st_rdev)

    @staticmethod
    def members(group: str) -> frozenset[str] | None:
        """Return the members of a group, ``None`` if the group does not exist."""
        import grp  # only needed if users are configured
        import pwd

        try:
            entry = grp.getgrnam(group)
        except KeyError:
            return None
        return frozenset(entry.gr_mem) | {user.pw_name for user in pwd.getpwall() if user.pw_gid == entry.gr_gid}

    @staticmethod
    def known_users(names: t.Iterable[str]) -> frozenset[str]:
        """Return the existing users."""
        import pwd

        found = set()
        for name in names:
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwnam(name).pw_name)
        return frozenset(found)

    def labels(self, paths: t.Iterable[str]) -> tuple[Label, ...] | None:
        """Return the SELinux types of folders, ``None`` if SELinux is disabled."""
        if not self._at("sys/fs/selinux/enforce").exists():
            return None
        found = []
        for path in paths:
            policy = run(["matchpathcon", "-n", path], timeout=60, hint="Install libselinux-utils.").stdout.strip()
            try:
                actual: str | None = _type_of(os.getxattr(self._at(path), "security.selinux").decode("utf-8", "replace"))
            except FileNotFoundError:
                actual = None
            except OSError:
                actual = ""
            found.append(Label(path, _type_of(policy), actual))
        return tuple(found)

    @staticmethod
    def command(argv: t.Sequence[str]) -> None:
        """Run a command."""
        run(argv, timeout=_START_TIMEOUT)

    def restart(self, daemon: str, read: t.Iterable[str]) -> None:
        """Restart a daemon; its guests continue to run.

        :arg read: the files it reads. Modification times in the future (after the clock was set back) are reset, because
            they would be newer than any start.
        """
        # reset the start limit after repeated failures, of the daemon and its socket
        run(["systemctl", "reset-failed", daemon], ok=range(256), timeout=60)
        self._restarted = time.time()
        try:
            run(["systemctl", "restart", daemon], timeout=_START_TIMEOUT)
        except CommandError as error:
            # on a busy host it can fail before systemd considers it started
            raise BackendError(_last_errors(daemon, self._restarted) or error.message) from error
        now = time.time()
        for path in read:
            with contextlib.suppress(FileNotFoundError):
                if self._at(path).stat().st_mtime > now:
                    os.utime(self._at(path))

    def answers(self, daemon: str, uri: str) -> str | None:
        """Return ``None`` if libvirt's QEMU driver answers, else the error of the daemon's log or of the connection."""
        since = self._restarted or time.time()
        try:
            run(["virsh", "--connect", uri, "uri"], timeout=_START_TIMEOUT)
        except CommandError as error:
            return _last_errors(daemon, since) or error.message
        return None

    def revive(self, daemon: str) -> None:
        """Start the daemon and its socket after the old settings were restored."""
        socket = daemon.replace(".service", ".socket")
        run(["systemctl", "daemon-reload"], timeout=60)
        run(["systemctl", "reset-failed", daemon, socket], ok=range(256), timeout=60)
        run(["systemctl", "stop", daemon], ok=range(256), timeout=_START_TIMEOUT)
        run(["systemctl", "start", socket], ok=range(256), timeout=_START_TIMEOUT)
        run(["systemctl", "start", daemon], timeout=_START_TIMEOUT)


def _unit(name: str, block: t.Mapping[str, str], began: float) -> Unit:
    start = int(block.get("ExecMainStartTimestampMonotonic") or 0)
    return Unit(
        name=name,
        load=block.get("LoadState", "not-found"),
        active=block.get("ActiveState", "inactive"),
        file_state=block.get("UnitFileState", ""),
        started=began + start / 1e6 if start else None,
        needs_reload=block.get("NeedDaemonReload") == "yes",
        pid=int(block.get("MainPID") or 0),
    )


def _last_errors(daemon: str, since: float) -> str:
    """Return the last errors of a daemon from the journal, which may contain them with a short delay."""
    errors: list[str] = []
    for unused in range(10):
        # the journal may not assign the last messages of an ended process to its unit
        ended = [line for line in _errors(since) if "Initialization of" in line]
        if ended:
            # the fatal one among other errors
            return ended[-1]
        errors = _errors(since, "--unit", daemon)
        time.sleep(_PATIENCE)
    return " | ".join(dict.fromkeys(errors[-2:]))


def _errors(since: float, *which: str) -> list[str]:
    argv = ["journalctl", *which, f"--since=@{int(since)}", "--lines=200", "--output=cat", "--no-pager"]
    output = run(argv, ok=range(256), timeout=60).stdout
    return [line.partition("error : ")[2] or line for line in output.splitlines() if "error" in line.lower()]


def _put(path: pathlib.Path, value: int) -> None:
    try:
        path.write_text(str(value), encoding="ascii")
    except OSError as error:
        raise BackendError(f"cannot write {value} to {path}: {error.strerror}.", hint="Check whether the host is a container.") from error


def _number(text: str | None) -> int | None:
    try:
        return int((text or "").strip())
    except ValueError:
        return None


def _type_of(context: str) -> str:
    parts = context.rstrip("\0").split(":")
    return parts[2] if len(parts) > 2 else ""
