# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of earlier versions, in ``tests/unit/frozen/``, are read by this one; those of newer versions are refused."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import typing as t
from unittest import mock

import pytest
from lxml import etree

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_run_lock, run_write_probe
from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock, model_schema, run_secret
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import parse_note
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.model_identity import parse_identity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import io_facts, run_node
from ansible_collections.reduced.footprint.plugins.module_utils._metal import plan_install_files
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_blocks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_state
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, run_gather_metrics
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_replacement import parse_replacement
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_deadman, io_trial
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import servers_from_variables
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_authorized_keys, io_worker_starts
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import Header, parse_header
from ansible_collections.reduced.footprint.plugins.module_utils._service import run_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import PathFound
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_copies import CopyStore
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_store import StandbyStore
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import parse_copy
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm_record, io_machine_proof
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import parse_record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_disk_header
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_render
from ansible_collections.reduced.footprint.plugins.filter.metal_decision import discovery_step
from ansible_collections.reduced.footprint.plugins.filter.controlplane_decision import rolling_restart
from ansible_collections.reduced.footprint.plugins.filter.state_text import state_text
from tests.support import state_files
from tests.support.controlplane import look
from tests.support.fake_node import FakeBackend

FROZEN = pathlib.Path(__file__).parent / "frozen"
SETS = sorted(path.name for path in FROZEN.iterdir())
MARK = "0123456789abcdef0123456789abcdef"


def place(text: bytes, path: pathlib.Path) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def journal(store: t.Any, text: bytes) -> t.Any:
    place(text, store.directory / "journal.json")
    return store.read()


def request(store: t.Any, text: bytes) -> t.Any:
    place(text, store.directory / "job.json")
    return store.read_job()


def source_state(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / f"{state_files.NAME}.json")
    with mock.patch.object(io_state, "HOME", home):
        return io_state.SourceState(state_files.NAME).read()


def vm_guard(home: pathlib.Path, text: bytes) -> t.Any:
    guard = VmGuard(state_files.NAME, home)
    place(text, guard.file)
    return guard.read()


def starts(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / f"migrate-{state_files.NAME}.starts")
    return list(io_worker_starts.note(state_files.NAME, home))[:-1]


def standby_record(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "lab" / "m" / "record.json")
    return CopyStore("lab", "m", home).record()["state"]


def standby_partial(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "lab" / "m" / "partial.json")
    return CopyStore("lab", "m", home).partial()


def controlplane_run(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "locks" / run_run_lock.FILE)
    with mock.patch.object(io_lock, "lock_folder", lambda: home / "locks"):
        found = run_run_lock.take({}, takeover=False, check_mode=True)
    return {key: found[key] for key in found if key != "since"}


def host_facts(home: pathlib.Path, text: bytes) -> t.Any:
    """Every reader, then a run that changes nothing."""
    path = place(text, home / "facts")
    run_render._proofs(str(path))
    servers_from_variables({"metal1": {"ansible_local": {"reduced_footprint": json.loads(text)}}}, ["metal1"], {}, {})
    backend = FakeBackend()
    backend.text, backend.pools = text.decode(), {"default": ["/pool", True, True]}
    backend.read_recorded = lambda unused: io_facts.read_recorded(str(path))
    return run_node.prepare_node(state_files.NODE, check_mode=False, backend=backend)["actions"]


def kvm_proof(home: pathlib.Path, text: bytes) -> t.Any:
    path = place(text, home / "kvm.json")
    with mock.patch.object(io_kvm_record, "record_path", lambda: path), mock.patch.object(io_kvm_record, "_key", lambda: "boot|qemu"):
        with mock.patch.object(io_machine_proof, "prove", lambda *unused: (False, "proven again", None)):
            return io_kvm_record.proof(False)["reason"]


def pool_mounts(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "pool-mounts.json")
    mounts = state_files.mounts(home)
    mounts.declare("/srv/pool", True)
    assert (home / "pool-mounts.json").read_bytes() == text
    return mounts.recorded("/srv/pool"), mounts.recorded("/srv/plain")


def volume_origin(home: pathlib.Path, text: bytes) -> t.Any:
    os.setxattr(place(b"", home / "disk"), "user.footprint.image", text)
    return io_disk_header.origin_of(str(home / "disk"))


def grown(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "volumes" / "p.v.growing")
    pool = state_files.pool(home)
    with mock.patch.object(state_files.Volume, "info", lambda unused: [0, 4096, 0]):
        return pool.find("v", "disks[0]").capacity


def huge_pages(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "run/reduced.footprint/huge-pages.json")
    return state_files.settings(home).pages()[2048].tried


def network_trial(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "network" / "plan.json")
    with mock.patch.object(io_trial, "RUN_DIR", str(home)), mock.patch.object(io_deadman, "write"), mock.patch.object(io_deadman, "_remove"):
        place(b"applied\n\n", home / "network" / "state")
        return io_trial.confirm()


def write_probe(home: pathlib.Path, text: bytes) -> t.Any:
    place(text, home / "target")
    place(b"secret", home / "password")
    with mock.patch.object(run_write_probe, "pymysql") as client:
        run_write_probe._connect(home, 1)
    return client.connect.call_args.kwargs["host"], client.connect.call_args.kwargs["port"]


def allow_list(home: pathlib.Path, text: bytes) -> t.Any:
    path = run_allow_list.path_of("galera")
    return run_allow_list._refuse_newer(path, {path: PathFound("root", "root", 0o600, 0.0, text.decode())})


def state_metrics(home: pathlib.Path, text: bytes) -> t.Any:
    asked: list[t.Any] = []
    with mock.patch.object(run_gather_metrics.io_files, "write_atomic"):
        run_gather_metrics.run(plan_gatherers.SERVICES, place(text, home / "state_metrics.json"), lambda asking: asked.append(asking) or {})
    return asked


def rolling(home: pathlib.Path, text: bytes) -> t.Any:
    looks = {name: look(name == "c1") for name in state_files.CONTROLLERS}
    found = rolling_restart(looks, {"galera": state_files.CONTROLLERS}, "restart", "galera", text.decode())
    if found.get("error"):
        raise RefusedError(found["error"], hint=model_schema.HINT)
    return found["journal"]["began"]


def maintenance(home: pathlib.Path, text: bytes) -> t.Any:
    found = state_files.maintenance(text.decode())
    if found.get("error"):
        raise RefusedError(found["error"], hint=model_schema.HINT)
    return found["begun"], found["steps"]


def block_hashes(home: pathlib.Path, text: bytes) -> t.Any:
    place(bytes(io_blocks.BLOCK), home / "device")
    return bytes(io_blocks.Target(str(home / "device"), io_blocks.BLOCK, place(text, home / "list")).hashes()) == bytes(32)


def manifest(home: pathlib.Path, text: bytes) -> t.Any:
    try:
        return parse_header(text)
    except ValueError:
        return None


def secrets_record(home: pathlib.Path, text: bytes) -> t.Any:
    """A record of another directory is refused in any case."""
    marks = run_secret.Permit(home, stores=(text.decode().strip(),))._marks()
    return marks == {MARK}


def discovered(unused: pathlib.Path, text: bytes) -> str:
    return discovery_step("metal1", kept=text.decode())["action"]


#: Kind → its reader, and what it reads from the frozen file. Of a newer cache, the reader returns the third value.
READERS: t.Mapping[str, tuple[t.Any, ...]] = {
    "migration_journal": (lambda home, text: journal(JournalStore(state_files.NAME, home), text), state_files.JOURNAL),
    "move_journal": (lambda home, text: journal(MoveStore("7", home), text), state_files.MOVE),
    "migration_request": (lambda home, text: request(JournalStore(state_files.NAME, home), text), state_files.JOB),
    "move_request": (lambda home, text: request(MoveStore("7", home), text), state_files.JOB),
    "source_state": (source_state, state_files.SOURCE),
    "source_report": (lambda home, text: place(text, home / "m.journal") and io_state.kept_reports(home), [state_files.REPORT]),
    "key_commands": (lambda home, text: place(text, home / "m.commands") and io_authorized_keys.allowed("m", home), state_files.COMMANDS),
    "vm_guard": (vm_guard, {"uri": "qemu:///system", "uuid": state_files.UUID, "vm": state_files.NAME, "lease": 30.0, "heard": 5.0}),
    "worker_starts": (starts, [7.5], []),
    "standby_journal": (lambda home, text: journal(StandbyStore(state_files.NAME, home), text), state_files.COPIES),
    "standby_copy": (lambda home, text: parse_copy(text.decode(), "a file"), state_files.COPY),
    "standby_record": (standby_record, "started"),
    "standby_partial": (standby_partial, {"base": None, "disks": []}, None),
    "replacement": (lambda home, text: parse_replacement(text.decode(), "a file"), state_files.REPLACED),
    "server_identity": (lambda home, text: parse_identity(text.decode(), "a file"), state_files.SERVER),
    "vm_owner": (lambda home, text: parse_record(text.decode(), f"{state_files.UUID}.json"), state_files.RECORD),
    "domain_metadata": (lambda home, text: xml_metadata.read(etree.fromstring(text)), state_files.OWNER),
    "host_facts": (host_facts, []),
    "kvm_proof": (kvm_proof, state_files.PROOF[1], "proven again"),
    "pool_mounts": (pool_mounts, ("/srv/pool", None)),
    "volume_grown": (grown, 1024),
    "volume_unfinished": (lambda home, text: place(text, home / "volumes/p.v.unfinished") and state_files.pool(home).leaving("v"), True),
    "volume_origin": (volume_origin, ("debian-12", "/pool/images/debian-12.qcow2", 5, 1790000000000000000)),
    "huge_pages": (huge_pages, 16, None),
    "network_trial": (network_trial, True),
    "write_probe": (write_probe, ("192.0.2.20", 3306)),
    "allow_list": (allow_list, None),
    "state_metrics": (state_metrics, [plan_gatherers.questions(state_files.METRICS, plan_gatherers.SERVICES)]),
    "backup": (lambda home, text: parse_note(text.decode(), "a file"), state_files.BACKUP),
    "maintenance": (maintenance, (True, [{"name": "c1", "action": "stop", "destination": "", "id": "", "cluster": ""}])),
    "controlplane_run": (controlplane_run, state_files.RUN),
    "rolling_restart": (rolling, "2026-11-24"),
    "block_hashes": (block_hashes, True, False),
    "manifest": (manifest, Header("a1", 5), None),
    "secrets_record": (secrets_record, True),
    "discovered_server": (discovered, "known", "ask"),
    "installed_server": (lambda home, text: plan_install_files.mark(text.decode()), {"name": "metal1", "disk": "S1"}),
}


def schema_of(kind: str) -> model_schema.Schema:
    return model_schema.KINDS.get(kind) or getattr(model_schema, "REQUEST" if kind.endswith("_request") else kind.upper())


@pytest.mark.parametrize("version", SETS)
@pytest.mark.parametrize("kind", READERS)
def test_a_file_of_an_earlier_version_is_read(kind: str, version: str, tmp_path: pathlib.Path) -> None:
    reader, wanted = READERS[kind][:2]
    assert reader(tmp_path, (FROZEN / version / kind).read_bytes()) == wanted


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What this version writes."""
    home = tmp_path_factory.mktemp("written")
    state_files.write_all(home)
    (home / "discovered_server").write_text(state_text(state_files.DISCOVERED, "discovered_server"), encoding="utf-8")
    (home / "installed_server").write_text(plan_install_files.record("metal1", "S1"), encoding="utf-8")
    (home / "secrets_record").write_text(state_text({"mark": MARK}, "secrets_record"), encoding="utf-8")
    return home


@pytest.mark.parametrize("kind", READERS)
def test_what_is_written_has_a_schema_number_and_is_read(kind: str, written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = (written / kind).read_bytes()
    assert READERS[kind][0](tmp_path / "now", text) == READERS[kind][1]
    newer = numbered(kind, text, 99)
    assert newer != text and numbered(kind, newer, schema_of(kind).number) == text


@pytest.mark.parametrize("kind", READERS)
def test_a_newer_schema_is_refused_or_determined_again(kind: str, written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    newer = numbered(kind, (written / kind).read_bytes(), 99)
    if len(READERS[kind]) == 3:
        assert schema_of(kind).cache and READERS[kind][0](tmp_path, newer) == READERS[kind][2]
    else:
        with pytest.raises(RefusedError, match=r"has the schema 99; this version of reduced.footprint supports schemas up to 1\. Use the version"):
            READERS[kind][0](tmp_path, newer)


def numbered(kind: str, text: bytes, number: int) -> bytes:
    """Return the text with another schema number."""
    now = schema_of(kind).number if number == 99 else 99
    places = [f'"{schema_of(kind).key}": %d', "xmlns/domain/%d", "# schema %d\n", "blocks %d ", "manifest %d "]
    for pattern in places:
        text = text.replace((pattern % now).encode(), (pattern % number).encode())
    return text


def test_every_kind_has_a_frozen_file_and_a_reader() -> None:
    kinds = {name.lower() for name, value in vars(model_schema).items() if isinstance(value, model_schema.Schema)} | set(model_schema.KINDS)
    # only written, for administrators, or gone with the guest's process; their number is in the namespace
    kinds -= {"live_metadata", "seed_metadata", "moved_metadata"}
    kinds = kinds - {"request"} | {"migration_request", "move_request"}
    assert kinds - {"completed_step"} == set(READERS)
    for version in SETS:
        assert {path.name for path in (FROZEN / version).iterdir()} == kinds


@pytest.mark.parametrize("number", [True, "1", -1, 1.0, 2, [1]])
def test_a_number_that_is_none_is_refused(number: t.Any) -> None:
    with pytest.raises(RefusedError, match="has the schema"):
        model_schema.REQUEST.values({"schema": number, "name": "a"}, "job.json")
    assert model_schema.KVM_PROOF.values({"schema": number, "usable": True}, "kvm.json") == {}


def test_a_record_of_digits_is_a_mark() -> None:
    assert run_secret.Permit(pathlib.Path("/none"), stores=("12345678",))._marks() == {"12345678"}


def test_the_state_of_a_migration_is_what_it_was() -> None:
    text = (FROZEN / "unnumbered" / "migration_journal").read_text(encoding="utf-8")
    assert dataclasses.asdict(state_files.JOURNAL.parse(text)) == dataclasses.asdict(state_files.JOURNAL)
    assert state_files.JOURNAL.parse(text).to_json() == text
