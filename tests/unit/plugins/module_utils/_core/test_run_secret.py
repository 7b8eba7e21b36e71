# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A secret is generated once, also with concurrent callers, and nothing is written in check mode."""

from __future__ import annotations

import multiprocessing
import pathlib
import stat
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import MARK, Permit, secret, secrets_directory

RECIPE = Recipe.parse(32, ["ascii_letters", "digits"])


def never(path: str) -> str:
    raise AssertionError(path)


def ask(directory: pathlib.Path, name: str = "rabbitmq/shop", check_mode: bool = False, decrypt: t.Callable[[str], str] = never) -> str:
    return secret(name, directory, RECIPE, check_mode=check_mode, decrypt=decrypt)


def ask_and_report(directory: pathlib.Path, start: t.Any, answers: t.Any) -> None:
    start.wait()
    answers.put(ask(directory))


def test_secret_is_generated_once(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "secrets"
    first = ask(root)
    file = root / "rabbitmq" / "shop.txt"
    assert file.read_text("utf-8") == f"{first}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(path.stat().st_mode) for path in (root, root / "rabbitmq")} == {0o700}
    assert ask(root) == first
    assert ask(root, "rabbitmq/other") != first
    assert sorted(path.name for path in file.parent.iterdir()) == ["other.txt", "shop.txt"]


def test_concurrent_callers_get_the_same_secret(tmp_path: pathlib.Path) -> None:
    """Forks of one play, or two plays: all get what the file holds."""
    context = multiprocessing.get_context("fork")
    for round_ in range(5):
        start, answers = context.Event(), context.Queue()
        root = tmp_path / str(round_)
        forks = [context.Process(target=ask_and_report, args=(root, start, answers)) for _fork in range(12)]
        for fork in forks:
            fork.start()
        start.set()
        values = {answers.get(timeout=60) for _fork in forks}
        for fork in forks:
            fork.join()
        assert values == {(root / "rabbitmq" / "shop.txt").read_text("utf-8").strip()}
        assert [path.name for path in (root / "rabbitmq").iterdir()] == ["shop.txt"]


def test_check_mode_writes_nothing(tmp_path: pathlib.Path) -> None:
    root = tmp_path / "secrets"
    stand_in = ask(root, check_mode=True)
    assert len(stand_in) == RECIPE.length
    assert ask(root, check_mode=True) == stand_in
    assert ask(root, "other", check_mode=True) != stand_in
    assert not root.exists()
    assert ask(root) != stand_in


def test_check_mode_returns_an_existing_secret(tmp_path: pathlib.Path) -> None:
    assert ask(tmp_path) == ask(tmp_path, check_mode=True)


def test_secret_of_the_operator_is_kept(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rabbitmq" / "shop.txt"
    file.parent.mkdir()
    file.write_text("short", "utf-8")
    file.chmod(0o644)
    assert ask(tmp_path, check_mode=True) == "short"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert ask(tmp_path) == "short"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_vaulted_file_is_decrypted(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rabbitmq" / "shop.txt"
    file.parent.mkdir()
    file.write_text("$ANSIBLE_VAULT;1.1;AES256\n3132\n", "utf-8")
    file.chmod(0o644)
    assert ask(tmp_path, decrypt=lambda path: "from the vault\n" if path == str(file) else "") == "from the vault"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize("text", ["", "\n", "two\nlines\n"])
def test_a_file_without_a_secret_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    file = tmp_path / "rabbitmq" / "shop.txt"
    file.parent.mkdir()
    file.write_text(text, "utf-8")
    with pytest.raises(InputError, match="must be one line of text") as refused:
        ask(tmp_path)
    assert refused.value.path == str(file)
    assert file.read_text("utf-8") == text


def test_directory_instead_of_the_file_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rabbitmq" / "shop.txt").mkdir(parents=True)
    with pytest.raises(BackendError, match=r"shop\.txt: cannot be read: Is a directory"):
        ask(tmp_path)


def test_file_instead_of_the_directory_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rabbitmq").write_text("", "utf-8")
    with pytest.raises(BackendError, match=r"shop\.txt: cannot be"):
        ask(tmp_path)


def test_kill_leaves_no_partial_secret(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def killed(*_words: t.Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(io_files, "_rename_new", killed)
        with pytest.raises(Killed):
            ask(tmp_path)
    assert not (tmp_path / "rabbitmq" / "shop.txt").exists()
    assert ask(tmp_path) == ask(tmp_path)


@pytest.mark.parametrize(
    ("given", "inventory", "environment", "wanted"),
    [
        ("", "/inv", "blue", "/inv/.secrets/blue"),
        (None, "/inv", "footprint", "/inv/.secrets/footprint"),
        ("/srv/keys", "/inv", "blue", "/srv/keys"),
        ("/srv/keys", None, "blue", "/srv/keys"),
    ],
)
def test_directory_of_the_secrets(given: t.Any, inventory: t.Any, environment: str, wanted: str) -> None:
    assert secrets_directory(given, inventory, environment) == pathlib.Path(wanted)


@pytest.mark.parametrize(
    ("given", "inventory", "environment", "path"),
    [("relative", "/inv", "a", "footprint_secrets"), ("", None, "a", "footprint_secrets"), ("", "/inv", "../b", "footprint_environment")],
)
def test_invalid_directory_is_refused(given: t.Any, inventory: t.Any, environment: str, path: str) -> None:
    with pytest.raises(InputError) as refused:
        secrets_directory(given, inventory, environment)
    assert refused.value.path == path


def permitted(directory: pathlib.Path, check_mode: bool = False, **given: t.Any) -> str:
    """Ask for a secret with conditions."""
    return secret("shop", directory, RECIPE, check_mode=check_mode, decrypt=lambda path: "of the vault\n", permit=Permit(directory, **given))


@pytest.mark.parametrize("check_mode", [False, True])
@pytest.mark.parametrize(
    "given, words",
    [
        ({"ephemeral": True}, "what a job of AWX generates is lost"),
        ({"generate": False}, "footprint_secrets_generate is false"),
        ({"ephemeral": True, "generate": True}, "is not a directory in this job of AWX"),
        ({"stores": ("other",)}, "deployed with the secrets of another directory"),
    ],
)
def test_a_secret_that_would_be_lost_or_not_match_is_refused(tmp_path: pathlib.Path, given: dict[str, t.Any], words: str, check_mode: bool) -> None:
    root = tmp_path / "secrets"
    with pytest.raises(RefusedError, match=words):
        permitted(root, check_mode, **given)
    assert not root.exists()


def test_what_exists_needs_no_permission(tmp_path: pathlib.Path) -> None:
    (tmp_path / "shop.txt").write_text("mine\n", "utf-8")
    for given in ({"ephemeral": True}, {"generate": False}, {"stores": ("other",)}):
        assert permitted(tmp_path, **given) == "mine"


def test_a_mounted_directory_may_be_filled_by_a_job(tmp_path: pathlib.Path) -> None:
    assert permitted(tmp_path, ephemeral=True, generate=True) == permitted(tmp_path, ephemeral=True)


def test_secrets_are_generated_next_to_those_in_use(tmp_path: pathlib.Path) -> None:
    permitted(tmp_path)
    mark = (tmp_path / MARK).read_text("utf-8").strip()
    assert len(mark) == 32
    assert stat.S_IMODE((tmp_path / MARK).stat().st_mode) == 0o600
    (tmp_path / "shop.txt").unlink()
    assert permitted(tmp_path, stores=(mark, "of a third"))
    assert (tmp_path / MARK).read_text("utf-8").strip() == mark


def test_the_mark_may_be_encrypted(tmp_path: pathlib.Path) -> None:
    (tmp_path / MARK).write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n", "utf-8")
    assert permitted(tmp_path, stores=("of the vault",))
    with pytest.raises(RefusedError):
        (tmp_path / "shop.txt").unlink()
        permitted(tmp_path, stores=("other",))


def test_check_mode_leaves_no_mark(tmp_path: pathlib.Path) -> None:
    permitted(tmp_path, check_mode=True)
    assert list(tmp_path.iterdir()) == []
