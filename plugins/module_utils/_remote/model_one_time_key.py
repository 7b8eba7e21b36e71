# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One-time ssh keys, and the permanent ones of copies: their line in authorized_keys, and the commands such a key may run.

Commands are passed in SSH_ORIGINAL_COMMAND. They must match completely and are run without a shell.
"""

from __future__ import annotations

import re
import shlex
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

MIGRATE, MOVE, STANDBY, BACKUP = "migrate", "move", "standby", "backup"
PURPOSES = (MIGRATE, MOVE, STANDBY, BACKUP)
#: Keys that do not expire: they are withdrawn with what they are for.
PERMANENT = frozenset((STANDBY, BACKUP))
#: Where a backup of the database is created on a member, and what a backup has besides, by its name there.
BACKUP_SPOOL = "/var/lib/reduced.footprint/backup"
BACKUP_FOLDERS: t.Mapping[str, str] = {"images": "/var/lib/glance/images", "credential-keys": "/etc/keystone/credential-keys"}
#: Prefix of the comment of every one-time key, before the name.
MARKER = "reduced.footprint-migrate"
#: Lifetime of a key after it was placed or last renewed, in seconds.
LIFETIME = 24 * 3600
#: Interval of the renewals of a key in use, in seconds.
RENEW_EVERY = 3600
#: Maximum age up to which a key in use is renewed, in seconds.
LIMIT = 14 * 24 * 3600
LIBRARY = "/var/lib/reduced.footprint/lib"

_PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils"
#: The program of the forced command.
DISPATCH = f"{_PACKAGE}._keys.run_dispatch"
_PROGRAMS: t.Mapping[str, t.Mapping[str, int]] = {
    # module → number of its arguments; the last one is the key's name
    MIGRATE: {"_migrate.source.run_agent": 2, "_remote.run_manifest_agent": 1, "_migrate.disks.run_block_agent": 1},
    MOVE: {"_move.run_agent": 2, "_move.run_channel": 2},
    STANDBY: {"_standby.run_agent": 2, "_standby.run_channel": 2},
    BACKUP: {"_galera.run_backup_agent": 2},
}
#: Commands that withdraw the key that runs them.
WITHDRAWING = frozenset(("leave", "forget_key"))
#: Commands of the source's agent that a one-time key may run; all others are run by the source itself or only in the VM.
SOURCE_COMMANDS = frozenset(("mirror", "facts", "state", "quiesce", "renew", "detach", "restore", "hand_over", "confirm", "run", "leave", "forget_key"))

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_LIBRARY_FILE = re.escape(LIBRARY) + r"/[0-9a-f]{32}\.zip"
_PROGRAM = re.compile(rf"\APYTHONPATH={_LIBRARY_FILE} python3 -m {re.escape(_PACKAGE)}\.([a-z_.]+)((?: {_NAME}(?:@{_NAME})?)+)\Z")
_STANDBY_KEY = re.compile(rf"\A{STANDBY}-({_NAME})@({_NAME})\Z")
_BACKUP_KEY = re.compile(rf"\A{BACKUP}-({_NAME})\Z")
_BACKUP_PATH = re.compile(rf"\A(?:{re.escape(BACKUP_SPOOL)}/{_NAME}|(?:{'|'.join(map(re.escape, BACKUP_FOLDERS.values()))})/)\Z")
_INSTALL = re.compile(rf"\Ash -c 'test -s ({_LIBRARY_FILE}) \|\| ")
_EXPIRY = re.compile(r'expiry-time="[0-9]+Z?"')
# rsync's short options that copy attributes, select what is compared, or only report
_LETTERS = re.compile(r"\A-(s?)([ncvlHogDtpAXErxSIRW]*)(?:e[A-Za-z0-9.]*)?\Z")
_OPTIONS = re.compile(
    r"\A(?:--numeric-ids|--info=[A-Z0-9,]+|--log-format=%i|--bwlimit=[0-9.]+[kKmM]?|--delete(?:-during|-before|-after|-delay)?|--stats"
    r"|-@-1|--modify-window=-1|--inplace|--files-from=-|--from0|--ignore-missing-args|--no-implied-dirs|--one-file-system)\Z"
)
_ARRIVING = re.compile(r"\A(?:/[^/\0]+)+/\.[^/\0]+\.moving/?\Z")


class Program(t.NamedTuple):
    """One of the collection's own programs, with its arguments."""

    module: str
    arguments: tuple[str, ...]


class Rsync(t.NamedTuple):
    """The server side of rsync; ``protected`` arguments follow on standard input."""

    options: tuple[str, ...]
    protected: bool


class Installed(t.NamedTuple):
    """A request to install the collection's code, which was already installed with the key."""


def key_marker(name: str) -> str:
    """Comment of a one-time key."""
    return f"{MARKER}-{name}"


def standby_key(cluster: str, vm_id: str) -> str:
    """Name of the key of a VM's copies. Several clusters may use one standby or witness; neither name can contain ``@``."""
    return f"{STANDBY}-{vm_id}@{cluster}"


def parse_standby_key(name: str) -> tuple[str, str] | None:
    """Return cluster and ID of the VM from the name of the key of its copies, ``None`` if it is not the name of such a key."""
    found = _STANDBY_KEY.match(name)
    return (found.group(2), found.group(1)) if found else None


def install_command(target: str) -> str:
    """The shell command that installs the collection's code with an unrestricted key; only fixed words and a path created here."""
    # root's shell need not be a POSIX shell; a unit on that machine runs the code after a power loss
    script = f"(umask 077; mkdir -p {LIBRARY} && cat > {target}.new && sync {target}.new && mv {target}.new {target} && sync {LIBRARY})"
    return f"sh -c 'test -s {target} || {script}'"


def backup_key(cluster: str) -> str:
    """Name of the key with which another host fetches backups of a cluster's database."""
    return f"{BACKUP}-{cluster}"


def parse_backup_key(name: str) -> str | None:
    """Return the cluster from the name of the key of its backups, ``None`` if it is not the name of such a key."""
    found = _BACKUP_KEY.match(name)
    return found.group(1) if found else None


def parse_command(purpose: str, name: str, text: str) -> Program | Rsync | Installed:
    """Parse the command of a session.

    :arg name: name of the key; programs are accepted for this migration or move only.
    """
    found = _INSTALL.match(text)
    if found and text == install_command(found.group(1)):
        return Installed()
    found = _PROGRAM.match(text)
    if found:
        arguments = tuple(found.group(2).split())
        if _PROGRAMS[purpose].get(found.group(1)) == len(arguments) and arguments[-1] == name and arguments[0] not in ("watch", "maintain"):
            return Program(f"{_PACKAGE}.{found.group(1)}", arguments)
    elif text.startswith("rsync --server ") and purpose != STANDBY:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise _refused(text) from error
        return _rsync(purpose, words[1:], text)
    raise _refused(text)


def _rsync(purpose: str, words: list[str], text: str) -> Rsync:
    cluster = next((index for index, word in enumerate(words) if _LETTERS.match(word)), None)
    if cluster is None or words[:cluster] not in (["--server"], ["--server", "--sender"]):
        raise _refused(text)
    letters = t.cast("re.Match[str]", _LETTERS.match(words[cluster]))
    if letters.group(1):
        if words[cluster + 1 :]:
            raise _refused(text)
        return Rsync((*words[:cluster], f"-{words[cluster][2:]}"), True)
    return Rsync(check_rsync(purpose, words), False)


def check_rsync(purpose: str, words: t.Sequence[str]) -> tuple[str, ...]:
    """Return the command line of rsync's server side if all its options are allowed.

    For a migration it may only send: nothing is written to the source. For a move it may also receive, under the names
    of incomplete files. For backups it may only send what belongs to them.
    """
    command = " ".join(words)
    options, _dot, paths = list(words), "", []
    if "." in options:
        place = options.index(".")
        options, paths = options[:place], options[place + 1 :]
    if len(paths) != 1 or not paths[0].startswith("/") or ".." in paths[0].split("/") or options[:1] != ["--server"]:
        raise _refused(command)
    sends = options[1:2] == ["--sender"]
    rest = options[2:] if sends else options[1:]
    letters = _LETTERS.match(rest[0]) if rest else None
    if letters is None or letters.group(1) or not all(_OPTIONS.match(each) for each in rest[1:]):
        raise _refused(command)
    if not sends and (purpose != MOVE or not ("n" in letters.group(2) or _ARRIVING.match(paths[0]))):
        raise _refused(command)
    if purpose == BACKUP and (rest[1:] or not _BACKUP_PATH.match(paths[0])):
        raise _refused(command)
    return tuple(words)


def _refused(text: str) -> InputError:
    return InputError(f"This key must not run {text[:200]!r}.", hint="Use your own key; a one-time key runs only the commands of its migration or move.")


def check_source_command(command: str, given: t.Mapping[str, t.Any], name: str, allowed: t.Sequence[t.Sequence[str]]) -> None:
    """Check that a one-time key may run a command of the source's agent.

    :arg allowed: the hook commands that were given when the key was placed.
    """
    if command not in SOURCE_COMMANDS:
        raise InputError(f"A one-time key must not run {command!r}.")
    if command in WITHDRAWING and given.get("marker") != key_marker(name):
        raise InputError(f"The key of {name} must not withdraw another key.", "marker")
    if command == "run" and list(given.get("command") or ()) not in [list(each) for each in allowed]:
        raise InputError(
            f"The command {(list(given.get('command') or ['?']))[0]!r} was not given when the key of {name} was placed.",
            "hooks",
            "Place the key again with the commands of all hooks on the source; the role does so before the copy starts.",
        )


def expiry(moment: float) -> str:
    """A time in sshd's format, in the local time zone."""
    return time.strftime("%Y%m%d%H%M%S", time.localtime(moment))


def options(addresses: t.Sequence[str], expires: str | None, command: str) -> str:
    """The options of a key's line in authorized_keys; ``expires`` is ``None`` for a permanent key."""
    addressed = f'from="{",".join(addresses)}",' if addresses else ""
    ending = f'expiry-time="{expires}",' if expires else ""
    return f'{addressed}restrict,{ending}command="{command}"'


def renewed(text: str, marker: str, expires: str) -> str:
    """Return authorized_keys with a new expiry of one key; unchanged when the key is missing or has no expiry."""
    lines = []
    for line in text.splitlines(keepends=True):
        if line.rstrip().endswith(f" {marker}"):
            line = _EXPIRY.sub(f'expiry-time="{expires}"', line, count=1)
        lines.append(line)
    return "".join(lines)


def in_force(text: str, marker: str, key: str, now: float) -> bool:
    """Whether authorized_keys accepts a key: its line is there, is not a comment, and has not expired.

    :arg key: base64 part of the public key; a key of the same name may belong to another host by now.
    """
    for line in text.splitlines():
        if line.rstrip().endswith(f" {key} {marker}") and not line.lstrip().startswith("#"):
            ends = expires_at(line, marker)
            # an expiry that cannot be read counts as over
            return now < ends if ends is not None else "expiry-time=" not in line
    return False


def expires_at(text: str, marker: str) -> float | None:
    """The expiry of a key in Unix seconds; ``None`` when the key is missing or has no expiry."""
    for line in text.splitlines():
        found = re.search(r'expiry-time="([0-9]{14})"', line) if line.rstrip().endswith(f" {marker}") else None
        if found:
            return time.mktime(time.strptime(found.group(1), "%Y%m%d%H%M%S"))
    return None
