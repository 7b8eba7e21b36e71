# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether this machine lets root's ssh sessions with a key run commands. Changes nothing."""

from __future__ import annotations

import contextlib
import glob
import grp
import os
import pathlib
import pwd
import shutil
import socket
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_login import Cause, shell_causes, sshd_causes

_MARK = "reduced.footprint: command output"
_TIMEOUT = 20.0


def check(addresses: t.Sequence[str]) -> list[str]:
    """Check the login shell and the settings of sshd; returns warnings about what could not be checked.

    :arg addresses: from which the sessions come.
    """
    root = pwd.getpwuid(0)
    causes, warnings = _shell(root), []
    sshd = shutil.which("sshd", path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin")
    if sshd and _other_configuration():
        warnings.append("An sshd with another configuration file runs; whether it accepts a key of root was not checked.")
    elif sshd:
        try:
            address = addresses[0] if addresses else "127.0.0.1"
            text = run([sshd, "-T", "-C", f"user=root,host={address},addr={address}{_local(addresses)}"], timeout=_TIMEOUT).stdout
            groups = [grp.getgrgid(each).gr_name for each in os.getgrouplist("root", root.pw_gid)]
            causes += sshd_causes(text, addresses, groups, os.path.realpath)
        except CommandError as error:
            warnings.append(f"Whether sshd accepts a key of root was not checked: {error.message}")
    if causes:
        raise RefusedError(" ".join(message for message, _hint in causes), hint=" ".join(dict.fromkeys(hint for _message, hint in causes)))
    return warnings


def _shell(root: pwd.struct_passwd) -> list[Cause]:
    shell = root.pw_shell or "/bin/sh"
    # bash reads .bashrc in ssh sessions, and not in shells of other shells
    session = {"HOME": root.pw_dir, "SHELL": shell, "SSH_CLIENT": "127.0.0.1 1 22", "SSH_CONNECTION": "127.0.0.1 1 127.0.0.1 22", "SHLVL": "0"}
    try:
        done = run([shell, "-c", f"echo '{_MARK}'"], timeout=_TIMEOUT, ok=range(-64, 256), variables=session)
    except CommandError as error:
        return shell_causes(shell, _MARK, "", error.stderr)
    return shell_causes(shell, _MARK, done.stdout, done.stderr)


def _local(addresses: t.Sequence[str]) -> str:
    """The address of this machine to which the sessions probably come, for blocks with Match LocalAddress; empty if it is not known."""
    for address in addresses[:1]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return f",laddr={probe.getsockname()[0]}"
    return ""


def _other_configuration() -> bool:
    """Whether an sshd with another configuration file runs; which one answers is unknown then."""
    for each in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = pathlib.Path(each).read_bytes().replace(b"\0", b" ").split()
            if b"-f" in words and any(word.endswith(b"/sshd") for word in words[:2]):
                return True
    return False
