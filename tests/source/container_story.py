#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the container operations of a source with a real podman; print the observed states as JSON.

Run it in a mount namespace of its own: crun refuses the hybrid layout of control groups, so the new one is hidden there.
The argument is the root of the containers, with a busybox in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_services
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_source import Container

WEB, DB, GONE = (Container("podman", name) for name in ("web", "db", "gone"))


def states() -> list[str]:
    return [io_services.container_state(each) for each in (WEB, DB, GONE)]


def running() -> list[str]:
    return sorted(each.name for each in io_services.running_containers() if each.engine == "podman")


def make(name: str, root: str) -> None:
    """Create a container that only waits for the signal to end."""
    # below the limits of this machine, which may not permit raising them
    limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
    plain = ["--cgroups=disabled", "--network=host", "--security-opt=seccomp=unconfined", "--log-driver=none", f"--name={name}"]
    argv = ["podman", "--runtime=crun", "run", "--detach", "--init=false", *limits, *plain, "--rootfs", root, "/bin/busybox", "sh", "-c"]
    subprocess.run([*argv, "trap 'exit 0' TERM; while :; do sleep 0.2; done"], check=True, stdout=sys.stderr)


def main(root: str) -> None:
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    if os.path.ismount("/sys/fs/cgroup/unified"):
        subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=True)
    # this machine may have no systemd; tests/migrate starts the containers of a whole machine
    io_services.model_units.IN_A_SCOPE = ()
    seen: dict[str, object] = {}
    try:
        for each in (WEB, DB):
            make(each.name, root)
        seen["before"] = [states(), running()]
        io_services.stop_containers([WEB, DB])
        seen["stopped"] = [states(), running()]
        seen["failed"] = io_services.start_containers([DB, WEB, GONE])
        seen["after"] = [states(), running()]
    finally:
        subprocess.run(["podman", "rm", "--force", "--time=1", "--all"], check=False, stdout=sys.stderr)
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
