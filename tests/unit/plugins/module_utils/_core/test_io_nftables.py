# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A made-up ``nft``; the real one is asked in tests/controllers."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_nftables
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost

LISTED = """{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "footprint_x"}},
{"chain": {"family": "inet", "table": "footprint_x", "name": "revision_1"}}, {"chain": {"family": "inet", "table": "footprint_x", "name": "input"}}]}"""


@pytest.fixture(name="nft")
def fixture_nft(tmp_path, monkeypatch):
    """Makes a program that prints a text and ends with a code."""
    path = tmp_path / "nft"
    monkeypatch.setattr(io_nftables, "NFT", str(path))

    def make(text="", code=0):
        (tmp_path / "said").write_text(text, encoding="utf-8")
        path.write_text(f"#!/bin/sh\ncat {tmp_path}/said\nexit {code}\n", encoding="utf-8")
        path.chmod(0o755)

    return make


def test_chains_by_table(nft):
    nft(LISTED)
    assert io_nftables.PacketFilter.chains() == {"footprint_x": {"revision_1", "input"}}


def test_chains_are_empty_without_nft_or_tables(nft):
    assert io_nftables.PacketFilter.chains() == {}
    nft("")
    assert io_nftables.PacketFilter.chains() == {}


def test_error_of_the_kernel_is_reported(nft):
    nft("Operation not supported", code=1)
    with pytest.raises(BackendError, match="Operation not supported"):
        io_nftables.PacketFilter.check("table inet x", "/etc/x.nft")
    nft("no JSON")
    with pytest.raises(BackendError):
        io_nftables.PacketFilter.chains()


def test_files_and_folders_go(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.nft").touch()
    assert ServiceHost.names(str(tmp_path / "folder"), ".nft") == ["a"]
    ServiceHost.remove_folder(str(tmp_path / "folder"))
    for unused in range(2):
        ServiceHost.remove(str(tmp_path / "folder" / "a.nft"))
    for unused in range(2):
        ServiceHost.remove_folder(str(tmp_path / "folder"))
    assert list(tmp_path.iterdir()) == []
