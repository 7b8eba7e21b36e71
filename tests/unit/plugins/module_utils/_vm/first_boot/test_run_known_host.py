# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host keys in a known_hosts file: what is replaced, what remains, and concurrent runs."""

from __future__ import annotations

import base64
import multiprocessing
import pathlib
import stat
import struct
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_known_host


def public(kind: str, number: int) -> str:
    name = kind.encode("ascii")
    data = struct.pack(">I", len(name)) + name + struct.pack(">I", 32) + bytes([number]) * 32
    return f"{kind} {base64.b64encode(data).decode('ascii')}"


NEW, EARLIER, RSA, OTHER = public("ssh-ed25519", 1), public("ssh-ed25519", 2), public("ssh-rsa", 3), public("ssh-ed25519", 4)


def record(path: pathlib.Path, key: str = NEW, name: str = "metal1", check: bool = False, **options: t.Any) -> bool:
    params = {"path": str(path), "name": name, "key": key, "exclusive": False, "lock_timeout": 30, **options}
    return bool(run_known_host.record(params, check).as_result()["changed"])


@pytest.fixture(name="path")
def fixture_path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "secrets/known_hosts.txt"


def test_a_missing_file_is_created_for_its_owner_only_and_a_second_run_changes_nothing(path: pathlib.Path) -> None:
    assert record(path, check=True) and not path.parent.exists()
    assert record(path, f"{NEW} root@metal1")
    assert path.read_text("utf-8") == f"metal1 {NEW}\n" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not record(path) and not record(path, exclusive=True)


def test_a_new_key_replaces_the_earlier_ones_of_every_type(path: pathlib.Path) -> None:
    path.parent.mkdir()
    others = f"# mine\nmetal10 {OTHER}\n@revoked metal1 {OTHER}\n*.example {RSA}\nmetal1.example {OTHER}\n"
    path.write_text(f"metal1 {RSA}\n{others}metal1,192.0.2.11 {EARLIER} comment", "utf-8")
    path.chmod(0o644)
    assert record(path, check=True) and record(path)
    assert path.read_text("utf-8") == f"{others}192.0.2.11 {EARLIER} comment\nmetal1 {NEW}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_further_keys_of_the_same_installation_remain_unless_the_host_has_this_one_only(path: pathlib.Path) -> None:
    path.parent.mkdir()
    path.write_text(f"metal1 {NEW}\nmetal1 {RSA}\n", "utf-8")
    assert not record(path)
    assert record(path, exclusive=True)
    assert path.read_text("utf-8") == f"metal1 {NEW}\n"


def test_hashed_entries_are_found(path: pathlib.Path) -> None:
    path.parent.mkdir()
    path.write_text(f"[192.0.2.11]:2222 {RSA}\nmetal2 {OTHER}\n|1|damaged|x {RSA}\n", "utf-8")
    subprocess.run(["ssh-keygen", "-H", "-f", str(path)], check=True, capture_output=True)
    assert "192.0.2.11" not in path.read_text("utf-8")
    assert record(path, name="[192.0.2.11]:2222")
    text = path.read_text("utf-8")
    assert RSA not in text.splitlines()[0] and OTHER in text and text.endswith(f"[192.0.2.11]:2222 {NEW}\n")


def test_a_link_to_the_file_remains(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path.parent.mkdir()
    path.write_text(f"metal2 {OTHER}\n", "utf-8")
    (tmp_path / "link").symlink_to(path)
    assert record(tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and path.read_text("utf-8") == f"metal2 {OTHER}\nmetal1 {NEW}\n"


def record_many(path: str, first: int) -> None:
    """Another job."""
    for number in range(first, first + 25):
        record(pathlib.Path(path), name=f"vm{number}")


def test_concurrent_jobs_keep_the_entries_of_each_other(path: pathlib.Path) -> None:
    jobs = [multiprocessing.get_context("fork").Process(target=record_many, args=(str(path), first)) for first in (0, 25, 50, 75)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert {line.split()[0] for line in path.read_text("utf-8").splitlines()} == {f"vm{number}" for number in range(100)}


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"name": ""}, "name"), ({"name": "a b"}, "name"), ({"name": "a,b"}, "name"), ({"name": "@revoked"}, "name"), ({"name": "*.example"}, "name"),
        ({"key": ""}, "key"), ({"key": f"metal1 {NEW}"}, "key"), ({"key": "ssh-ed25519 AAAA"}, "key"), ({"key": NEW.replace("ed25519", "rsa")}, "key"),
    ],
)  # fmt: skip
def test_what_is_not_a_name_or_a_key_is_an_error(path: pathlib.Path, given: dict[str, str], where: str) -> None:
    with pytest.raises(InputError) as error:
        record(path, **given)  # type: ignore[arg-type]
    assert error.value.path == where and error.value.hint and not path.parent.exists()


def test_a_file_that_cannot_be_written_is_an_error(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*unused: t.Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(io_files, "write_atomic", full)
    with pytest.raises(BackendError, match="No space left on device"):
        record(path)


def test_every_host_key_is_recorded_with_the_lock() -> None:
    root = pathlib.Path(__file__).resolve().parents[6]
    tasks = [path for folder in ("playbooks", "roles") for path in (root / folder).rglob("*.yml")]
    assert tasks and not [str(path) for path in tasks if "ansible.builtin.known_hosts:" in path.read_text("utf-8")]
