# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: read and change a key repository, in an order in which a reader never misses a key."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_key_repository import KeyRepository
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_fernet import (
    FEWEST_KEYS,
    STAGED,
    finished,
    primary,
    promotion,
    surplus,
)


@dataclasses.dataclass(frozen=True)
class KeysRequest:
    """The requested state of a repository.

    :arg state: ``created``, ``promoted``, ``restaged`` or ``present``.
    :arg keys: number → key, for ``present``.
    :arg most: maximum number of keys, including the staged one.
    :arg keep: seconds for which a former primary key may still be needed.
    """

    state: str
    keys: t.Mapping[int, str] | None = None
    most: int = FEWEST_KEYS
    keep: float = 0


@dataclasses.dataclass(frozen=True)
class KeysResult:
    """Actions that were taken, or in check mode would be, and fingerprints before and after; contains no secrets."""

    changed: bool
    actions: tuple[str, ...]
    before: t.Mapping[int, str]
    after: t.Mapping[int, str]


def local_repository(path: str, user: str) -> KeyRepository:
    """Return the key repository in a directory of this host."""
    return KeyRepository(path, user)


def fingerprint(key: str) -> str:
    """Return a fingerprint that identifies a key without revealing it: keys are 256 random bits."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()[:16]


def fingerprints(keys: t.Mapping[int, str]) -> dict[int, str]:
    """Return number → fingerprint."""
    return {number: fingerprint(key) for number, key in sorted(keys.items())}


def look(repository: KeyRepository, secrets: bool = False) -> dict[str, t.Any]:
    """Return the content of the repository, as documented in ``keystone_keys_info``.

    :arg secrets: return the keys too.
    """
    keys = repository.keys()
    marks = fingerprints(keys)
    found: dict[str, t.Any] = {
        "fingerprints": marks,
        "primary": primary(marks),
        "finished": finished(marks),
        "written": {number: utc(when) for number, when in repository.written().items()},
        "fixes": repository.tidy() if keys else (),
    }
    if secrets:
        found["contents"] = keys
    return found


def parse_keys(raw: t.Mapping[t.Any, t.Any] | None) -> dict[int, str]:
    """Validate the module's mapping of number → key.

    :raises InputError: invalid number or key; the message never contains the key.
    """
    keys = {}
    for name, key in (raw or {}).items():
        if not str(name).isdigit():
            raise InputError("is not a valid key number.", path=f"keys[{str(name)[:20]!r}]", hint="Use numbers; 0 is the staged key.")
        try:
            good = len(base64.urlsafe_b64decode(str(key).encode("ascii"))) == 32
        except (ValueError, binascii.Error):
            good = False
        if not good:
            raise InputError("is not a Fernet key of 32 bytes in URL-safe base64.", path=f"keys[{name}]", hint="Use the keys that keystone_keys_info returns.")
        keys[int(name)] = str(key)
    return keys


def ensure(request: KeysRequest, repository: KeyRepository, *, check_mode: bool) -> KeysResult:
    """Bring the repository into the requested state.

    :raises InputError: invalid keys.
    :raises RefusedError: the step is not possible with this repository.
    """
    before = repository.keys()
    steps = {"created": _created, "promoted": _promoted, "restaged": _restaged, "present": _present}[request.state](request, before, repository)
    untidy = repository.tidy() if not steps else ()
    if not check_mode and (steps or untidy):
        repository.secure()
        for step in steps:
            step.apply(repository)
    after = dict(before)
    for step in steps:
        step.predict(after)
    return KeysResult(bool(steps or untidy), tuple(step.what for step in steps) or untidy, fingerprints(before), fingerprints(after))


@dataclasses.dataclass(frozen=True)
class _Write:
    number: int
    key: str

    @property
    def what(self) -> str:
        return f"write key {self.number}" if self.number != STAGED else "write the staged key"

    def apply(self, repository: KeyRepository) -> None:
        repository.write(self.number, self.key)

    def predict(self, keys: dict[int, str]) -> None:
        keys[self.number] = self.key


@dataclasses.dataclass(frozen=True)
class _Remove:
    number: int

    @property
    def what(self) -> str:
        return f"remove key {self.number}"

    def apply(self, repository: KeyRepository) -> None:
        repository.remove(self.number)

    def predict(self, keys: dict[int, str]) -> None:
        keys.pop(self.number, None)


@dataclasses.dataclass(frozen=True)
class _Pause:
    what: str = "let readers finish"

    def apply(self, repository: KeyRepository) -> None:
        repository.let_readers_finish()

    def predict(self, keys: dict[int, str]) -> None:
        """A pause changes no key."""


_Step = t.Union[_Write, _Remove, _Pause]


def _created(_request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    if before:
        return []
    return [_Write(1, repository.new_key()), _Write(STAGED, repository.new_key())]


def _promoted(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    if not finished(fingerprints(before)):
        raise RefusedError(f"{repository.path} has no staged key to promote.", hint="Run the role keystone, which completes an interrupted rotation.")
    change = promotion(repository.written(), repository.now(), request.most, request.keep)
    steps: list[_Step] = [_Write(change.number, before[STAGED]), _Pause(), _Write(STAGED, repository.new_key())]
    return steps + ([_Pause()] if change.surplus else []) + [_Remove(number) for number in change.surplus]


def _restaged(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    """Return the remaining steps of an interrupted promotion or creation."""
    if finished(fingerprints(before)):
        return []
    steps: list[_Step] = []
    if primary(before) <= STAGED:
        # there is only a staged key, which no member has used yet
        steps += [_Write(1, before.get(STAGED) or repository.new_key()), _Pause()]
    gone = surplus(repository.written(), repository.now(), request.most, request.keep)
    return steps + [_Write(STAGED, repository.new_key())] + [_Remove(number) for number in gone]


def _present(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    wanted = dict(request.keys or {})
    if not finished(fingerprints(wanted)):
        raise InputError("must contain a primary key and a different staged key.", path="keys", hint="Use the keys of a member whose rotation is finished.")
    steps: list[_Step] = [_Write(number, key) for number, key in sorted(wanted.items()) if number != STAGED and before.get(number) != key]
    removed = [_Remove(number) for number in sorted(before) if number not in wanted]
    if before.get(STAGED) != wanted[STAGED]:
        # a reader that listed the directory before the primary key was written has read that key as the staged one
        steps += [_Pause()] if steps and before else []
        steps.append(_Write(STAGED, wanted[STAGED]))
    if removed:
        steps += [_Pause()] if steps else []
        steps += removed
    return steps
