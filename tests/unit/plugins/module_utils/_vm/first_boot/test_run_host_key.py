# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys a seed has: those of its first boot."""

from __future__ import annotations

import dataclasses
import json
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init, model_host_key, run_host_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs"
HOST = model_host_key.parse(io_certificates.make_ssh_key(), "")
SEED = model_cloud_init.default("uuid", "a")


def vm(authorized: tuple[str, ...] = (KEY,), host_key: model_host_key.HostKey | None = HOST) -> VmDetails:
    return dataclasses.replace(parse_vms([{"id": "a"}], cluster="lab")[0], authorized_keys=authorized, host_key=host_key)


def disk(creates: bool = True, image: str | None = "debian") -> t.Any:
    return types.SimpleNamespace(creates=creates, image=image)


def vendor(seed: model_cloud_init.CloudInit) -> t.Any:
    return json.loads(seed.vendor_data.removeprefix(model_cloud_init.HEADER)) if seed.vendor_data else None


def test_a_new_machine_gets_both() -> None:
    made = run_host_key.with_keys(SEED, None, vm(), [disk()])
    assert vendor(made) == {
        "ssh_keys": {"ed25519_private": HOST.private, "ed25519_public": HOST.public},
        "ssh_authorized_keys": [KEY],
        "disable_root": False,
    }
    assert model_host_key.public_in(made.vendor_data) == HOST.public


def test_the_users_host_keys_leave_the_operators_key() -> None:
    own = dataclasses.replace(SEED, user_data="ssh_keys: {}")
    assert set(vendor(run_host_key.with_keys(own, None, vm(), [disk()]))) == {"ssh_authorized_keys", "disable_root"}
    assert vendor(run_host_key.with_keys(own, None, vm(()), [disk()])) is None


def test_an_existing_machine_is_not_changed() -> None:
    assert run_host_key.with_keys(SEED, None, vm(), [disk(creates=False)]) == SEED
    made = run_host_key.with_keys(SEED, None, vm(), [disk()])
    there = made.files()
    for later in (vm(), vm((f"{KEY} other",)), vm((), None)):
        assert run_host_key.with_keys(SEED, there, later, [disk(creates=False)]) == made


@pytest.mark.parametrize("there", [None, {"user-data": b""}])
def test_a_killed_creation_is_completed_with_the_keys(there: t.Any) -> None:
    # the root of a container comes before its seed: without the key there, cloud-init would replace the one in the root
    made = run_host_key.with_keys(SEED, there, vm(), [disk(creates=False)], unfinished=True)
    assert made == run_host_key.with_keys(SEED, None, vm(), [disk()])


def test_a_disk_created_again_keeps_the_host_key_and_gets_the_current_operator() -> None:
    there = run_host_key.with_keys(SEED, None, vm(), [disk()]).files()
    other = model_host_key.parse(io_certificates.make_ssh_key(), "")
    again = run_host_key.with_keys(SEED, there, vm((f"{KEY} new",), other), [disk()])
    assert model_host_key.public_in(again.vendor_data) == HOST.public
    assert vendor(again)["ssh_authorized_keys"] == [f"{KEY} new"]
    foreign = {"vendor-data": b"#!/bin/sh\n"}
    assert run_host_key.with_keys(SEED, foreign, vm(), [disk()]).vendor_data == "#!/bin/sh\n"


def test_a_seed_without_details_is_for_new_machines_from_an_image() -> None:
    assert run_host_key.default_seed(vm(), None, [disk()])
    for volumes in ([], [disk(creates=False)], [disk(image=None)]):
        assert not run_host_key.default_seed(vm(), None, volumes)
    assert not run_host_key.default_seed(vm(()), None, [disk()])


def test_such_a_seed_is_kept_and_others_are_not() -> None:
    made = run_host_key.with_keys(SEED, None, vm(), [disk()])
    assert run_host_key.default_seed(vm(()), made.files(), [disk(creates=False)])
    # user_data was removed from the details
    assert not run_host_key.default_seed(vm(), dict(made.files(), **{"user-data": b"#cloud-config\n"}), [disk(creates=False)])
    assert not run_host_key.default_seed(vm(), SEED.files(), [disk(creates=False)])


def test_keys_are_checked_once_for_all() -> None:
    vms = parse_vms([{"id": "a"}, {"id": "b"}], cluster="lab")
    given = run_host_key.given(vms, vms, {"b": HOST.private}, [KEY, KEY])
    assert [(one.host_key, one.authorized_keys) for one in given] == [(None, (KEY,)), (HOST, (KEY,))]
    with pytest.raises(InputError, match=r"authorized_keys\[0\]"):
        run_host_key.given(vms, vms, {}, ["nonsense"])
