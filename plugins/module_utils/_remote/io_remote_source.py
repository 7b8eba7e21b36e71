# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The source as the destination sees it: pinned host keys, one key for one migration, nothing of the user's ssh touched."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import LIBRARY, install_command, key_marker

# the program that answers on the source
AGENT = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.run_agent"

#: ssh's own exit code: not that of what it ran.
LINK_LOST = 255


def ensure_key(directory: pathlib.Path, name: str) -> str:
    """The public half of the migration's key; made when there is none."""
    private = directory / "id_ed25519"
    if not private.exists():
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        half_made = directory / "id_ed25519.new"
        half_made.unlink(missing_ok=True)
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key_marker(name), "-f", str(half_made)])
        os.replace(f"{half_made}.pub", f"{private}.pub")
        os.replace(half_made, private)
    return pathlib.Path(f"{private}.pub").read_text(encoding="ascii").strip()


def key_blob(directory: pathlib.Path) -> str | None:
    """The base64 part of the migration's public key, ``None`` when there is none."""
    text = read_text(directory / "id_ed25519.pub")
    return text.split()[1] if text and len(text.split()) > 1 else None


def drop_key_files(directory: pathlib.Path) -> None:
    """Forget the migration's key on this side, and whose host keys it was used with: nobody can use it from now on."""
    for pattern in ("id_ed25519*", "known_hosts*"):
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


class CopyAnswered(BackendError):
    """Not the source answered, but a machine with its host keys and without its state."""


@dataclasses.dataclass
class Identity:
    """How the source is told from its copy; several connections may share it.

    ``mark`` is what only the source itself knows from the moment it rests: it lies in a folder that is never copied.
    ``only`` is the one address at which it is asked while another machine may have the others.
    """

    mark: str | None = None
    only: str | None = None


class RemoteSource:
    """ssh to the source.

    ``agent`` is the module that answers there.

    :arg directory: of the migration; holds key and known hosts.
    :arg addresses: where the source may be found, tried in this order: admin and temporary address.
    :arg library: zip with this collection's code, copied to the source once.
    """

    agent = AGENT
    who = "source"
    known_hosts = "known_hosts"

    def __init__(self, name: str, directory: pathlib.Path, addresses: t.Sequence[str], port: int, host_keys: t.Sequence[str], library: pathlib.Path) -> None:
        self.name = name
        self.directory = directory
        self.addresses = list(addresses)
        self.address = self.addresses[0]
        self.port = port
        self.host_keys = list(host_keys)
        self.library = library
        self.identity = Identity()
        self._installed = False

    def ssh_argv(self, address: str | None = None) -> list[str]:
        """ssh with everything pinned; what is missing is the user@host and the command."""
        known = self.directory / self.known_hosts
        text = "".join(f"{self._known_name(each)} {key}\n" for each in self.addresses for key in self.host_keys)
        if not known.exists() or known.read_text(encoding="ascii") != text:
            write_atomic(known, text)
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known),
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "5",
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "3",
            "ControlPath": "none",
            "Compression": "no",
        }
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.directory / "id_ed25519"), "-p", str(self.port), "-l", "root"]
        for key, value in options.items():
            argv += ["-o", f"{key}={value}"]
        return argv

    def _known_name(self, address: str) -> str:
        return address if self.port == 22 else f"[{address}]:{self.port}"

    def _remote_library(self) -> str:
        return f"{LIBRARY}/{self.library.name}"

    def _install(self) -> None:
        """Bring our code to the source; content-addressed, so an existing one is right."""
        if self._installed:
            # at whatever address: the pinned host key says that it is the same machine
            return
        # the only words a remote shell sees are fixed here, no value of the user's is among them
        argv = [*self.ssh_argv(), self.address, install_command(self._remote_library())]
        # a restricted key brought the code with it, and says so
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(argv, input=self.library.read_bytes(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        if done.returncode != 0:
            raise CommandError(["ssh"], done.returncode, done.stderr.decode(errors="replace"), hint=self._hint())
        self._installed = True

    def _hint(self) -> str:
        return f"Make sure that root on {self.address} accepts the migration's key and that its host key is the one given."

    def program(self, module: str, *arguments: str) -> list[str]:
        """What runs another of our programs on the source, where it was found last.

        :raises CommandError: our code cannot be brought there.
        """
        self._install()
        return [*self.ssh_argv(), self.address, f"PYTHONPATH={self._remote_library()} python3 -m {module} {' '.join((*arguments, self.name))}"]

    def ask(self, command: str, given: t.Mapping[str, t.Any] | None = None, timeout: float = 60.0) -> dict[str, t.Any]:
        """Let the source's agent do something; at the last good address first, then at the other.

        :raises BackendError: the source cannot be reached at any address, or says no.
        """
        identity = self.identity
        order = [identity.only] if identity.only else [self.address] + [each for each in self.addresses if each != self.address]
        failure: BackendError | None = None
        for address in order:
            self.address = address
            try:
                self._install()
                done = run(
                    [*self.ssh_argv(), address, f"PYTHONPATH={self._remote_library()} python3 -m {self.agent} {command} {self.name}"],
                    stdin=json.dumps({**(given or {}), **({"mark": identity.mark} if identity.mark else {})}),
                    timeout=timeout,
                    ok=(0, 1),
                    hint=self._hint(),
                )
            except CommandError as error:
                failure = failure or self._unreachable(error, order)
                continue
            except subprocess.TimeoutExpired as error:
                failure = failure or self._unreachable(CommandError(["ssh"], None, str(error), hint=self._hint()), order)
                continue
            try:
                return self._answer(command, done.stdout, done.stderr)
            except CopyAnswered as error:
                failure = failure or error
        self.address = order[0]
        raise failure or BackendError(f"{self.name}: the {self.who} has no address.")

    def _unreachable(self, error: CommandError, addresses: t.Sequence[str]) -> CommandError:
        """A lost link in words; what ssh said of it comes last."""
        if error.rc not in (LINK_LOST, None):
            return error
        how = "did not answer in time" if error.rc is None else "cannot be reached"
        return CommandError(error.argv, error.rc, error.stderr, hint=error.hint, what=f"The {self.who} {how} at {' or '.join(addresses)}")

    def _answer(self, command: str, stdout: str, stderr: str) -> dict[str, t.Any]:
        try:
            answer = json.loads(stdout.strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            said = (stderr.strip().splitlines() or ["nothing"])[-1]
            raise BackendError(f"The {self.who}'s agent did not understand {command!r}; it said: {said}") from error
        if self.identity.mark and answer.get("mark") != self.identity.mark:
            # the copy has the host keys of the source, and its programs
            raise CopyAnswered(f"{self.address} is answered by a copy of the {self.who}, not by the {self.who} itself.")
        if "error" in answer:
            raise BackendError(f"On the {self.who}: {answer['error']['message']}", hint=answer["error"].get("hint"))
        return dict(answer["ok"])


def scan_host_keys(address: str, port: int, known: t.Iterable[str], timeout: int = 15) -> list[str]:
    """The host key somebody shows at an address, as ``type base64``.

    :arg known: keys of which the cheapest kind is asked for; every other kind would cost a slow
        machine another key exchange.
    """
    kinds = {each.split("-")[1] if each.startswith("ssh-") else "ecdsa" for each in (key.split()[0] for key in known)}
    kind = next((each for each in ("ed25519", "ecdsa", "rsa") if each in kinds), "ed25519,ecdsa,rsa")
    done = run(["ssh-keyscan", "-T", str(timeout), "-t", kind, "-p", str(port), address], timeout=timeout + 10, ok=range(256))
    return sorted(" ".join(line.split()[1:3]) for line in done.stdout.splitlines() if line and not line.startswith("#"))
