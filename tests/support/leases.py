# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM under leases, for tests."""

from __future__ import annotations

import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import Grants
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, Voter

# of no guest on this machine: processes with it are killed
UUID = str(uuid.uuid4())
KEYS = ("ssh-ed25519 AAAA",)
METAL2, WITNESS = Voter("metal2", "192.0.2.12", 22, KEYS), Voter("w1", "192.0.2.13", 22, KEYS)
JOB = Job("m", "blue", "blue-m", UUID, "qemu:///system", METAL2, (WITNESS,), 900, 2, 0, "metal1", automatic=True, watchdog="none")
ARMED = Grants(arm=5, running=True, grantors=("metal2", "w1"))
PARAMS = {"id": "m", "cluster": "blue"}
