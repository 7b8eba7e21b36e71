# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why root's ssh sessions on a machine fail: refused keys, login shells, text that start files print."""

from __future__ import annotations

import fnmatch
import ipaddress
import re
import typing as t

KEYS = "/root/.ssh/authorized_keys"
_GREETING = "Let only interactive shells print it, e.g. in .bashrc: case $- in *i*) ... ;; esac"
_SHELL = "Give root a shell that runs the commands of ssh sessions (chsh -s /bin/bash root), and start tmux or another shell in interactive ones only."
# what ssh, login shells and rsync report, and the hint
_CAUSES = (
    (
        r"Permission denied \([a-z]|Too many authentication failures",
        f"sshd on {{0}} refuses the key. Compare sshd -T -C user=root,host=x,addr=ADDRESS there: AuthorizedKeysFile must name {KEYS}, AllowUsers, "
        "DenyUsers, AllowGroups, DenyGroups, PermitRootLogin, PubkeyAuthentication and AuthenticationMethods must permit root with a key.",
    ),
    (r"Host key verification failed|IDENTIFICATION HAS CHANGED", "Another machine answers at {0}, or its host keys have changed: compare them."),
    (r"account is currently not available|^fish: |open terminal failed|PYTHONPATH=\S+: Command not found", _SHELL),
    (r"is your shell clean|protocol version mismatch", f"Root's login on {{0}} prints text, which breaks the transfer. {_GREETING}"),
)
Cause = tuple[str, str]


def hint(text: str, address: str) -> str | None:
    """The hint for an error of an ssh session with root on a machine; ``None`` for an unknown one."""
    return next((each.format(address) for pattern, each in _CAUSES if re.search(pattern, text, re.MULTILINE)), None)


def shell_causes(shell: str, mark: str, stdout: str, stderr: str) -> list[Cause]:
    """Why sessions fail, after the login shell ran a command that prints ``mark``: message and hint."""
    before, found, _after = stdout.partition(f"{mark}\n")
    if not found:
        return [(f"Root's login shell {shell} does not run commands: {((stderr or stdout).strip().splitlines() or ['no output'])[-1]}.", _SHELL)]
    return [greeting(before)] if before else []


def greeting(text: str) -> Cause:
    """The cause that a login prints text, which breaks the protocols of a transfer."""
    return f"Root's login prints text before the output of a command: {text.strip()[:80]!r}.", _GREETING


def sshd_causes(text: str, addresses: t.Sequence[str], groups: t.Sequence[str], resolve: t.Callable[[str], str]) -> list[Cause]:
    """Why sshd refuses a key of root from these addresses: message and hint.

    :arg text: output of ``sshd -T`` for one of them.
    :arg resolve: returns a path without symbolic links.
    """
    given: dict[str, list[str]] = {}
    for name, _blank, value in (line.partition(" ") for line in text.splitlines()):
        given.setdefault(name, []).extend(value.split())
    causes = []

    def cause(name: str, fix: str) -> None:
        causes.append((f"sshd on this machine has {name} {' '.join(given[name.lower()])} for root.", f"{fix}, e.g. in a block Match User root of sshd_config."))

    files = [each.replace("%%", "%").replace("%h", "/root").replace("%u", "root") for each in given.get("authorizedkeysfile", [])]
    if files and resolve(KEYS) not in [resolve(each if each.startswith("/") else f"/root/{each}") for each in files]:
        cause("AuthorizedKeysFile", f"Add {KEYS}, where the key is placed")
    for name, names in (("AllowUsers", ["root"]), ("DenyUsers", ["root"]), ("AllowGroups", groups), ("DenyGroups", groups)):
        patterns, allowed = given.get(name.lower()), name.startswith("Allow")
        if patterns and _match(patterns, names, addresses) is not allowed:
            cause(name, f"{'Add root to' if allowed else 'Remove root from'} it")
    if given.get("permitrootlogin") == ["no"]:
        cause("PermitRootLogin", "Set prohibit-password")
    if given.get("pubkeyauthentication") == ["no"]:
        cause("PubkeyAuthentication", "Set yes")
    if not {"any", "publickey"}.intersection(given.get("authenticationmethods", ["any"])):
        cause("AuthenticationMethods", "Set publickey")
    if given.get("forcecommand", ["none"]) != ["none"]:
        cause("ForceCommand", "Set none: it replaces the command of the key")
    return causes


def _match(patterns: t.Sequence[str], names: t.Sequence[str], addresses: t.Sequence[str]) -> bool:
    parts = [(each, *each.lstrip("!").partition("@")[::2]) for each in patterns]
    fitting = [each for each, name, host in parts if any(fnmatch.fnmatchcase(one, name) for one in names) and _from(host, addresses)]
    return bool(fitting) and not any(each.startswith("!") for each in fitting)


def _from(pattern: str, addresses: t.Sequence[str]) -> bool:
    """Whether a pattern for hosts covers the addresses; an unknown address may be covered."""
    if not pattern or not addresses:
        return True
    try:
        network = ipaddress.ip_network(pattern, strict=False)
        return all(ipaddress.ip_address(each) in network for each in addresses)
    except ValueError:
        # a pattern of names is resolved by sshd only
        return all(fnmatch.fnmatchcase(each, pattern) for each in addresses) or bool(re.search("[A-Za-z]", pattern))
