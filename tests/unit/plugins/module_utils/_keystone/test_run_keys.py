# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One key repository: real files, changed in an order in which no reader misses a key."""

from __future__ import annotations

import os
import pathlib
import pwd
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.io_key_repository import KeyRepository
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_keys import KeysRequest, ensure, fingerprints, look, parse_keys


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> KeyRepository:
    return KeyRepository(str(tmp_path / "keys"), pwd.getpwuid(os.getuid()).pw_name, pause=0)


def do(repository: KeyRepository, state: str, check_mode: bool = False, **words: t.Any) -> t.Any:
    return ensure(KeysRequest(state, **words), repository, check_mode=check_mode)


def test_keys_are_made_once_and_for_their_owner_alone(repository: KeyRepository) -> None:
    predicted = do(repository, "created", check_mode=True)
    assert predicted.changed and not repository.path.exists()
    assert do(repository, "created").actions == ("write key 1", "write the staged key")
    keys = repository.keys()
    assert sorted(keys) == [0, 1] and parse_keys(keys) == keys
    assert repository.path.stat().st_mode & 0o7777 == 0o700
    assert {path.stat().st_mode & 0o7777 for path in repository.path.iterdir()} == {0o600}
    again = do(repository, "created")
    assert not again.changed and repository.keys() == keys


def test_modes_are_fixed(repository: KeyRepository) -> None:
    do(repository, "created")
    (repository.path / "1").chmod(0o644)
    assert do(repository, "created", check_mode=True).changed
    assert (repository.path / "1").stat().st_mode & 0o777 == 0o644
    assert do(repository, "created").changed
    assert (repository.path / "1").stat().st_mode & 0o777 == 0o600
    assert not do(repository, "created").changed


def test_a_promotion_keeps_every_key_at_hand(repository: KeyRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    do(repository, "created")
    before, seen = repository.keys(), []
    write = KeyRepository.write
    monkeypatch.setattr(KeyRepository, "write", lambda self, number, key: (write(self, number, key), seen.append(self.keys()))[0])
    result = do(repository, "promoted")
    assert result.actions == ("write key 2", "let readers finish", "write the staged key")
    assert all(set(before.values()) <= set(keys.values()) for keys in seen)
    after = repository.keys()
    assert after[2] == before[0] and after[0] not in before.values()
    assert fingerprints(after) == result.after and look(repository)["finished"]


def test_old_keys_go_when_nothing_needs_them(repository: KeyRepository) -> None:
    do(repository, "created")
    for _turn in range(3):
        do(repository, "promoted", keep=3600)
    assert sorted(repository.keys()) == [0, 1, 2, 3, 4]
    do(repository, "promoted", keep=0)
    assert sorted(repository.keys()) == [0, 4, 5]


@pytest.mark.parametrize("done", range(3))
def test_a_promotion_cut_short_is_completed(repository: KeyRepository, done: int) -> None:
    do(repository, "created")
    before = repository.keys()
    if done >= 1:
        repository.write(2, before[0])
    if done >= 2:
        (repository.path / ".0.new").write_text("half", encoding="ascii")
    assert look(repository)["finished"] is (done == 0)
    assert do(repository, "restaged").changed is (done > 0)
    assert look(repository)["finished"]
    assert set(before.values()) <= set(repository.keys().values())


def test_a_creation_cut_short_is_completed(repository: KeyRepository) -> None:
    repository.write(1, repository.new_key())
    with pytest.raises(RefusedError, match="no staged key"):
        do(repository, "promoted")
    do(repository, "restaged")
    assert sorted(repository.keys()) == [0, 1] and look(repository)["finished"]


def test_a_member_takes_over_the_primary_before_the_staged_key(repository: KeyRepository, tmp_path: pathlib.Path) -> None:
    leader = KeyRepository(str(tmp_path / "leader"), repository.user, pause=0)
    do(leader, "created")
    assert do(repository, "present", keys=leader.keys()).actions == ("write key 1", "write the staged key")
    assert repository.keys() == leader.keys()
    do(leader, "promoted")
    wanted = leader.keys()
    predicted = do(repository, "present", keys=wanted, check_mode=True)
    assert predicted.actions == ("write key 2", "let readers finish", "write the staged key") and repository.keys() != wanted
    assert do(repository, "present", keys=wanted).after == fingerprints(wanted)
    assert repository.keys() == wanted
    assert not do(repository, "present", keys=wanted).changed
    del wanted[1]
    assert do(repository, "present", keys=wanted).actions == ("remove key 1",)


@pytest.mark.parametrize(
    ("keys", "path"),
    [({"x": "A" * 43 + "="}, "keys['x']"), ({"0": "secret-and-short"}, "keys[0]"), ({"1": "é" * 44}, "keys[1]")],
)
def test_invalid_keys_are_refused(keys: dict[str, str], path: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_keys(keys)
    assert caught.value.path == path
    assert not any(key in str(caught.value) for key in keys.values())


def test_a_half_set_of_keys_is_not_handed_on(repository: KeyRepository) -> None:
    with pytest.raises(InputError, match="a primary key and a different staged key"):
        do(repository, "present", keys={1: repository.new_key()})


def test_without_the_keystone_user_keys_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(Exception, match="the user no-such-user does not exist"):
        do(KeyRepository(str(tmp_path / "keys"), "no-such-user", pause=0), "created")
    assert do(KeyRepository(str(tmp_path / "keys"), "no-such-user", pause=0), "created", check_mode=True).changed
