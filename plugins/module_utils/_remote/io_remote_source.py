# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ssh connection to the source: pinned host keys and a one-time key per migration, independent of the user's ssh configuration."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import subprocess
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_login import hint
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import LIBRARY, install_command, key_marker

# the program that answers on the source
AGENT = "ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.run_agent"

_LOCK = 60.0
#: Exit code of ssh for a connection error.
LINK_LOST = 255


def has_key(directory: pathlib.Path) -> bool:
    """Whether the migration's key is complete: a power loss may have left empty files."""
    try:
        return (directory / "id_ed25519").stat().st_size > 0 and key_blob(directory) is not None
    except FileNotFoundError:
        return False


def ensure_key(directory: pathlib.Path, name: str) -> str:
    """Return the public half of the migration's key; creates the key when it is missing."""
    private = directory / "id_ed25519"
    # two jobs may prepare the same migration
    with host_lock("one_time_key", _LOCK):
        if not has_key(directory):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            half_made = directory / "id_ed25519.new"
            half_made.unlink(missing_ok=True)
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key_marker(name), "-f", str(half_made)])
            rename(f"{half_made}.pub", f"{private}.pub", new=False)
            rename(half_made, private, new=False)
        return pathlib.Path(f"{private}.pub").read_text(encoding="ascii").strip()


def key_blob(directory: pathlib.Path) -> str | None:
    """The base64 part of the migration's public key, ``None`` when there is none."""
    text = read_text(directory / "id_ed25519.pub")
    return text.split()[1] if text and len(text.split()) > 1 else None


def public_key(directory: pathlib.Path) -> str | None:
    """The whole line of the migration's public key, ``None`` when there is none."""
    return (read_text(directory / "id_ed25519.pub") or "").strip() or None


def drop_key_files(directory: pathlib.Path) -> None:
    """Delete the migration's key and its known hosts on this side."""
    for pattern in ("id_ed25519*", "known_hosts*"):
        for path in directory.glob(pattern):
            path.unlink(missing_ok=True)


class CopyAnswered(BackendError):
    """A machine with the source's host keys answered, but without the source's state."""


@dataclasses.dataclass
class Identity:
    """How the source is distinguished from its copy; several connections may share it.

    ``mark`` is known to the quiesced source only: it is stored in a folder that is never copied.
    ``only`` is the only address used while another machine may have the others.
    """

    mark: str | None = None
    only: str | None = None


class RemoteSource:
    """ssh connection to the source.

    ``agent`` is the module that answers there.

    :arg directory: folder of the migration, with key and known hosts.
    :arg addresses: possible addresses of the source, tried in this order: admin and temporary address.
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
        #: What root's login prints before the output of a command.
        self.printed = ""

    def ssh_argv(self, address: str | None = None) -> list[str]:
        """The ssh command with all options, without host and remote command."""
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
        """Copy the collection's code to the source; named by its content, so an existing file is valid."""
        if self._installed:
            # for all addresses: the pinned host key proves that it is the same machine
            return
        # the remote shell gets fixed words only, no value of the user
        argv = [*self.ssh_argv(), self.address, install_command(self._remote_library())]
        # with a restricted key the code was installed with the key, and the command succeeds
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        done = subprocess.run(argv, input=self.library.read_bytes(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        if done.returncode != 0:
            stderr = (done.stderr or done.stdout).decode(errors="replace")
            raise CommandError(["ssh"], done.returncode, stderr, hint=self._hint(stderr))
        self.printed = done.stdout.decode(errors="replace").strip()
        self._installed = True

    def _hint(self, text: str = "") -> str:
        return hint(text, self.address) or f"Make sure that root on {self.address} accepts the migration's key and that its host key is the one given."

    def program(self, module: str, *arguments: str) -> list[str]:
        """Return the command line of another of the collection's programs on the source, at its last known address."""
        self._install()
        return [*self.ssh_argv(), self.address, f"PYTHONPATH={self._remote_library()} python3 -m {module} {' '.join((*arguments, self.name))}"]

    def ask(self, command: str, given: t.Mapping[str, t.Any] | None = None, timeout: float = 60.0, *, once: bool = False) -> dict[str, t.Any]:
        """Send a command to the source's agent, at its last known address first, then at the others.

        :arg once: only at the first address, for a command that must not be sent again when its answer is lost.
        """
        identity = self.identity
        order = [identity.only] if identity.only else [self.address] + [each for each in self.addresses if each != self.address]
        order = order[:1] if once else order
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
                )
            except CommandError as error:
                error.hint = self._hint(error.stderr)
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
        """Turn a connection error into a message with all addresses, followed by ssh's own message."""
        if error.rc not in (LINK_LOST, None):
            return error
        how = "did not answer in time" if error.rc is None else "cannot be reached"
        return CommandError(error.argv, error.rc, error.stderr, hint=error.hint, what=f"The {self.who} {how} at {' or '.join(addresses)}")

    def _answer(self, command: str, stdout: str, stderr: str) -> dict[str, t.Any]:
        try:
            answer = json.loads(stdout.strip().splitlines()[-1])
        except (ValueError, IndexError) as error:
            output = (stderr.strip().splitlines() or ["no output"])[-1]
            raise BackendError(f"The {self.who}'s agent returned no valid answer to {command!r}: {output}", hint=hint(stderr, self.address)) from error
        if self.identity.mark and answer.get("mark") != self.identity.mark:
            # the copy has the source's host keys and programs
            raise CopyAnswered(f"The machine at {self.address} is a copy of the {self.who}, not the {self.who} itself.")
        if "error" in answer:
            raise BackendError(f"On the {self.who}: {answer['error']['message']}", hint=answer["error"].get("hint"))
        return dict(answer["ok"])


def scan_host_keys(address: str, port: int, known: t.Iterable[str], timeout: int = 15) -> list[str]:
    """Return the host keys presented at an address, as ``type base64``.

    :arg known: expected keys; only the cheapest of their types is requested, because each type costs a slow
        machine another key exchange.
    """
    kinds = {each.split("-")[1] if each.startswith("ssh-") else "ecdsa" for each in (key.split()[0] for key in known)}
    kind = next((each for each in ("ed25519", "ecdsa", "rsa") if each in kinds), "ed25519,ecdsa,rsa")
    done = run(["ssh-keyscan", "-T", str(timeout), "-t", kind, "-p", str(port), address], timeout=timeout + 10, ok=range(256))
    return sorted(" ".join(line.split()[1:3]) for line in done.stdout.splitlines() if line and not line.startswith("#"))
