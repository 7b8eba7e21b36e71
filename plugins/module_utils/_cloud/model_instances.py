# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances and compute services of Nova, and what is recorded of the instances of a server that is emptied."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

#: What is done with an instance.
MIGRATE, STOP, START = "migrate", "stop", "start"


class Instance(t.NamedTuple):
    """An instance.

    :arg host: name in Nova of the server that has it, empty if none has.
    :arg status: for example ``ACTIVE``.
    :arg task: what Nova is doing with it, empty if nothing.
    """

    id: str
    name: str
    host: str
    status: str
    task: str = ""


class Service(t.NamedTuple):
    """The compute service of a server.

    :arg host: name of the server in Nova.
    :arg enabled: whether the scheduler may use it.
    :arg up: whether Nova has heard of it recently.
    :arg reason: why it is disabled.
    """

    id: str
    host: str
    enabled: bool
    up: bool
    reason: str = ""


class Step(t.NamedTuple):
    """What happens to an instance of a server that is emptied, and is undone afterwards unless the server is removed.

    :arg stop: whether it may be stopped if it cannot be migrated.
    :arg destination: name of the only server that can take it; empty if Nova chooses one, or the instance is stopped.
    """

    id: str
    name: str
    action: str
    stop: bool = False
    destination: str = ""

    @property
    def text(self) -> str:
        """Return the step as text."""
        if self.action == STOP:
            return f"instance {self.name} is stopped"
        return f"instance {self.name} is migrated live to {self.destination or 'a server that Nova chooses'}"


class Record(t.NamedTuple):
    """What the run that emptied a server has begun, to be kept until the server is restored.

    :arg disable: whether the run disables the compute service.
    """

    disable: bool
    steps: tuple[Step, ...]

    def as_dict(self) -> dict[str, t.Any]:
        """Return the record as JSON values."""
        return {"disable": self.disable, "steps": [step._asdict() for step in self.steps]}


def parse_record(value: t.Mapping[str, t.Any]) -> Record:
    """Return the record of :meth:`Record.as_dict`."""
    with contextlib.suppress(KeyError, TypeError):
        record = Record(value["disable"], tuple(Step(**one) for one in value["steps"]))
        if isinstance(record.disable, bool) and all(_valid(step) for step in record.steps):
            return record
    raise InputError("is not what this module returned as record.", "record", "Use the value that the module returned in state emptied.")


def _valid(step: Step) -> bool:
    return [type(value) for value in step] == [str, str, str, bool, str] and step.action in (MIGRATE, STOP)
