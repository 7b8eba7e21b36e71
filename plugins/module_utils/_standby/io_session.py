# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ssh session to a machine that grants leases, which stays open: one line for each request and each answer."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_MOST = 1 << 20


class LeaseSession:
    """The session.

    :arg argv: the command line of ssh.
    """

    def __init__(self, argv: t.Sequence[str]) -> None:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        self._process = subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        self._rest = b""

    def ask(self, given: t.Mapping[str, t.Any], timeout: float) -> dict[str, t.Any]:
        """Send a request and return its answer.

        :raises BackendError: there is none within the time, or it is an error; the session must be closed then.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise BackendError("the session has no streams.")
        until = time.monotonic() + timeout
        try:
            # shorter than the buffer of a pipe
            os.write(stdin.fileno(), json.dumps(given).encode() + b"\n")
            while b"\n" not in self._rest:
                ready = select.select([stdout], [], [], max(0.0, until - time.monotonic()))[0]
                part = os.read(stdout.fileno(), 65536) if ready else b""
                if not part or len(self._rest) > _MOST:
                    raise BackendError("the connection ended." if ready else f"no answer within {timeout:.0f} s.")
                self._rest += part
        except OSError as error:
            raise BackendError(f"the connection ended: {error.strerror}.") from error
        line, self._rest = self._rest.split(b"\n", 1)
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise BackendError("the answer is not valid.") from error
        if "ok" not in answer:
            raise BackendError(str((answer.get("error") or {}).get("message")))
        return dict(answer["ok"])

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(OSError):
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
