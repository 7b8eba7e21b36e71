# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a host with a module, for action plugins to which a host that does not answer is a result, which neither fails the run nor is asked again."""

from __future__ import annotations

import signal
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError

#: What ssh reports of a host that is off.
_OFF = ("timed out", "no route to host", "host is down", "network is unreachable")
Answer = t.TypeVar("Answer")


class NoAnswer(Exception):
    """A host did not answer.

    :arg reason: why; empty for a host that is off.
    :arg reachable: whether the host accepts connections and answers.
    """

    def __init__(self, reason: str, reachable: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.reachable = reason, reachable


class _Late(Exception):
    """The host accepts connections and does not answer."""


def within(seconds: int, ask: t.Callable[[], Answer]) -> Answer:
    """Return the answer of a host.

    :arg seconds: for the connection and the answer.
    :raises NoAnswer: it does not answer.
    """

    def late(*_unused: t.Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        return ask()
    except _Late:
        raise NoAnswer(f"accepts ssh, but does not answer within {seconds} s") from None
    except AnsibleConnectionFailure as error:
        raise NoAnswer(_reason(str(error))) from None
    except AnsibleError as error:
        raise NoAnswer(_reason(str(error)), reachable=True) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def result(action: t.Any, module: str, arguments: dict[str, t.Any], key: str, variables: t.Any) -> dict[str, t.Any]:
    """Return the result of a module.

    :arg key: a result without it is a failure of the module.
    :raises NoAnswer: the module failed.
    """
    found: dict[str, t.Any] = action._execute_module(module_name=f"reduced.footprint.{module}", module_args=arguments, task_vars=variables)
    if key not in found:
        raise NoAnswer(_reason(str(found.get("module_stderr") or found.get("msg") or "the module did not answer")), reachable=True)
    return found


def _reason(message: str) -> str:
    """Return the last line of an error, empty for a host that is off."""
    line = ([text.strip() for text in message.splitlines() if text.strip()] or [""])[-1]
    # what follows is ssh's own message
    line = line.partition("can be reached over ssh: ")[2] or line
    return "" if any(text in line.lower() for text in _OFF) else line
