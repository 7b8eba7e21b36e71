# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the keys of one keystone, looked at and changed in the order in which no reader misses one."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
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
    """What is to be done with a repository.

    :arg state: ``created``, ``promoted``, ``restaged`` or ``present``.
    :arg keys: number → key, for ``present``.
    :arg most: how many keys there are to be, the staged one included.
    :arg keep: seconds for which a key that no longer encrypts may be needed.
    """

    state: str
    keys: t.Mapping[int, str] | None = None
    most: int = FEWEST_KEYS
    keep: float = 0


@dataclasses.dataclass(frozen=True)
class KeysResult:
    """What was done, or in check mode would be, without secrets."""

    changed: bool
    actions: tuple[str, ...]
    before: t.Mapping[int, str]
    after: t.Mapping[int, str]


def local_repository(path: str, user: str) -> KeyRepository:
    """The repository in a directory of this host."""
    return KeyRepository(path, user)


def fingerprint(key: str) -> str:
    """Tells keys apart and nothing of them: they are 256 random bits."""
    return hashlib.sha256(key.encode("utf-8")).hexdigest()[:16]


def fingerprints(keys: t.Mapping[int, str]) -> dict[int, str]:
    """Number → fingerprint."""
    return {number: fingerprint(key) for number, key in sorted(keys.items())}


def look(repository: KeyRepository, secrets: bool = False) -> dict[str, t.Any]:
    """What is there.

    :arg secrets: the keys themselves too.
    """
    keys = repository.keys()
    marks = fingerprints(keys)
    found: dict[str, t.Any] = {
        "fingerprints": marks,
        "primary": primary(marks),
        "finished": finished(marks),
        "written": {number: int(when) for number, when in repository.written().items()},
    }
    if secrets:
        found["keys"] = keys
    return found


def parse_keys(raw: t.Mapping[t.Any, t.Any] | None) -> dict[int, str]:
    """Number → key, of what a module was given.

    :raises InputError: a number that is none, a key that is none; never with the key in the text.
    """
    keys = {}
    for name, key in (raw or {}).items():
        if not str(name).isdigit():
            raise InputError("is no number of a key.", path=f"keys[{str(name)[:20]!r}]", hint="Name keys by numbers, 0 being the staged one.")
        try:
            good = len(base64.urlsafe_b64decode(str(key).encode("ascii"))) == 32
        except (ValueError, binascii.Error):
            good = False
        if not good:
            raise InputError("is no fernet key of 32 bytes in URL-safe base64.", path=f"keys[{name}]", hint="Take the keys from keystone_keys_info.")
        keys[int(name)] = str(key)
    return keys


def ensure(request: KeysRequest, repository: KeyRepository, *, check_mode: bool) -> KeysResult:
    """Do one step.

    :raises InputError: keys that are none.
    :raises RefusedError: the step does not fit the repository.
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
        step.foresee(after)
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

    def foresee(self, keys: dict[int, str]) -> None:
        keys[self.number] = self.key


@dataclasses.dataclass(frozen=True)
class _Remove:
    number: int

    @property
    def what(self) -> str:
        return f"remove key {self.number}"

    def apply(self, repository: KeyRepository) -> None:
        repository.remove(self.number)

    def foresee(self, keys: dict[int, str]) -> None:
        keys.pop(self.number, None)


@dataclasses.dataclass(frozen=True)
class _Pause:
    what: str = "let readers finish"

    def apply(self, repository: KeyRepository) -> None:
        repository.let_readers_finish()

    def foresee(self, keys: dict[int, str]) -> None:
        """Changes nothing."""


_Step = t.Union[_Write, _Remove, _Pause]


def _created(_request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    if before:
        return []
    return [_Write(1, repository.new_key()), _Write(STAGED, repository.new_key())]


def _promoted(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    if not finished(fingerprints(before)):
        raise RefusedError(f"{repository.path} has no staged key to promote.", hint="Run the role keystone, which completes what was cut short.")
    change = promotion(repository.written(), repository.now(), request.most, request.keep)
    steps: list[_Step] = [_Write(change.number, before[STAGED]), _Pause(), _Write(STAGED, repository.new_key())]
    return steps + ([_Pause()] if change.surplus else []) + [_Remove(number) for number in change.surplus]


def _restaged(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    """The rest of a promotion, or of a creation, that was cut short."""
    if finished(fingerprints(before)):
        return []
    steps: list[_Step] = []
    if primary(before) <= STAGED:
        # only a staged key, which nobody has used yet
        steps += [_Write(1, before.get(STAGED) or repository.new_key()), _Pause()]
    gone = surplus(repository.written(), repository.now(), request.most, request.keep)
    return steps + [_Write(STAGED, repository.new_key())] + [_Remove(number) for number in gone]


def _present(request: KeysRequest, before: t.Mapping[int, str], repository: KeyRepository) -> list[_Step]:
    wanted = dict(request.keys or {})
    if not finished(fingerprints(wanted)):
        raise InputError("hold no primary and staged key of their own.", path="keys", hint="Take them from a member whose rotation is finished.")
    steps: list[_Step] = [_Write(number, key) for number, key in sorted(wanted.items()) if number != STAGED and before.get(number) != key]
    removed = [_Remove(number) for number in sorted(before) if number not in wanted]
    if before.get(STAGED) != wanted[STAGED]:
        # who listed the directory before the primary came reads its key as the staged one
        steps += [_Pause()] if steps and before else []
        steps.append(_Write(STAGED, wanted[STAGED]))
    if removed:
        steps += [_Pause()] if steps else []
        steps += removed
    return steps
