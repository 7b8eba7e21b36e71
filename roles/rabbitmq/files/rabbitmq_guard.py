# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Restart a member that continues to run in a minority, after a partition has ended.

``rabbitmq_guard.py UNIT SECONDS``, started by a timer on every member. RabbitMQ stops a member in a minority itself (``pause_minority``) while
it does not see the others. A member that was suspended for longer than ``net_ticktime`` sees them again at once: it is not paused, and remains
partitioned until it is restarted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import typing as t

# not the wrapper in /usr/sbin, which logs a session of su each time
STATUS = ["/usr/lib/rabbitmq/bin/rabbitmqctl", "--quiet", "--formatter=json", "cluster_status"]


def is_stuck(status: t.Mapping[str, t.Any]) -> bool:
    """Return whether a member is partitioned and runs without a majority.

    :arg status: the output of ``rabbitmqctl cluster_status``. A paused member, and one that is stopped or starts, has no partitions in it.
    """
    members = {*(status.get("disk_nodes") or ()), *(status.get("ram_nodes") or ())}
    running = set(status.get("running_nodes") or ())
    return bool(status.get("partitions")) and 2 * len(running & members) <= len(members)


def look() -> bool:
    """Ask the local member; one that does not answer is not stuck, systemd handles it."""
    done = subprocess.run(STATUS, capture_output=True, encoding="utf-8", check=False, timeout=60)
    try:
        return done.returncode == 0 and is_stuck(json.loads(done.stdout))
    except ValueError:
        return False


def main() -> None:
    """Check, check again after a while, and restart the member."""
    unit, hold = sys.argv[1], float(sys.argv[2])
    if not look():
        return
    time.sleep(hold)
    if look():
        print(f"<4>partitioned in a minority for {hold:.0f} s although the others are connected: restarting {unit}", flush=True)
        subprocess.run(["systemctl", "restart", unit], check=True)


if __name__ == "__main__":
    main()
