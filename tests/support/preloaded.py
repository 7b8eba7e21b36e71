# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``ansible-playbook`` for unit tests, in a third of the processor time: the child of a process that has loaded Ansible already.

It differs from a program that was started only in this: the hash seed is the parent's.
"""

from __future__ import annotations

import atexit
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import typing as t

_SERVER = pathlib.Path(__file__).with_name("preloaded_server.py")
#: Read by Python itself when it starts, not by Ansible.
_OF_PYTHON = ("LANG", "LC_", "PYTHON")
_LOCK = threading.Lock()


class _Parent:
    """A process that has loaded Ansible. It ends with this process, whose end of the socket is closed then.

    :arg env: the part of the environment that it shares with its children.
    """

    def __init__(self, env: t.Mapping[str, str]) -> None:
        # no configuration is read from the home or the working directory
        self._home = tempfile.TemporaryDirectory(prefix="preloaded-")  # pylint: disable=consider-using-with
        own = {**env, "PATH": os.defpath, "HOME": self._home.name, "ANSIBLE_LOCAL_TEMP": self._home.name}
        self._channel, other = socket.socketpair()
        with other:
            argv = [sys.executable, str(_SERVER), str(other.fileno())]
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                argv, pass_fds=[other.fileno()], env=own, cwd=self._home.name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        atexit.register(self.close)

    def call(self, request: t.Mapping[str, t.Any], streams: t.Sequence[int]) -> socket.socket:
        """Ask for a child with these standard streams; returns the socket of the call."""
        call, other = socket.socketpair()
        with other:
            socket.send_fds(self._channel, [b"c"], [other.fileno(), *streams])
        call.sendall(json.dumps(request).encode())
        call.shutdown(socket.SHUT_WR)
        return call

    def close(self) -> None:
        """End the parent."""
        self._channel.close()
        self.process.wait()
        self._home.cleanup()


_PARENTS: dict[tuple[tuple[str, str], ...], _Parent] = {}


def _parent(env: t.Mapping[str, str]) -> _Parent:
    shared = {name: value for name, value in env.items() if name.startswith((*_OF_PYTHON, "ANSIBLE_NOCOLOR", "ANSIBLE_FORCE_COLOR"))}
    key = tuple(sorted(shared.items()))
    with _LOCK:
        if key not in _PARENTS or _PARENTS[key].process.poll() is not None:
            _PARENTS[key] = _Parent(shared)
        return _PARENTS[key]


def ansible_playbook(
    *arguments: str, cwd: pathlib.Path, env: t.Mapping[str, str], timeout: float = 600, merged: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run ``ansible-playbook`` and wait for its end.

    :arg timeout: seconds.
    :arg merged: standard error is part of standard output.
    :raises subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env)}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, open(os.devnull, encoding="ascii") as none:
        with _parent(env).call(request, [none.fileno(), out.fileno(), (out if merged else err).fileno()]) as call:
            _word, (child, *_unused), _flags, _address = socket.recv_fds(call, 3, 1)
            try:
                call.settimeout(timeout)
                code = call.recv(16)
            except BaseException as error:
                signal.pidfd_send_signal(child, signal.SIGKILL)
                call.settimeout(None)
                call.recv(16)
                if isinstance(error, TimeoutError):
                    raise subprocess.TimeoutExpired(["ansible-playbook", *arguments], timeout) from error
                raise
            finally:
                os.close(child)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(["ansible-playbook", *arguments], int(code), out.read(), err.read())
