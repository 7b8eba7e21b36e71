# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server whose files are in a temporary folder, and which is in no cluster."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_cluster, io_copies, io_store, run_start
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner


@pytest.fixture(autouse=True, name="homes")
def fixture_homes(tmp_path_factory, monkeypatch):
    home = tmp_path_factory.mktemp("server")
    for module, name in ((io_copies, "HOME"), (io_store, "HOME"), (io_owner, "HOME"), (io_owner, "PERMITS"), (io_owner, "RUN")):
        (home / f"{module.__name__.rpartition('.')[2]}-{name}").mkdir()
        monkeypatch.setattr(module, name, home / f"{module.__name__.rpartition('.')[2]}-{name}")
    io_owner.prepare()
    monkeypatch.setattr(io_cluster, "_STORED", home / "cib.xml")
    # asks libvirt, see test_run_fit.py
    monkeypatch.setattr(run_start, "refuse_unfit", lambda copy, uri: None)
