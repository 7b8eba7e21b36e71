# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_units

LISTED = """\
  ssh.service               loaded active running OpenBSD Secure Shell server
  mariadb.service           loaded active running MariaDB
● broken.service            loaded failed failed  Something
  docker.socket             loaded active running Docker Socket
  apt-daily.timer           loaded active waiting Daily apt
  networking.service        loaded active exited  Raise interfaces
  once.service              loaded active exited  Done long ago
  retry.service             loaded activating auto-restart Comes and goes
  gone.service              not-found active running Half removed
  user@0.service            loaded active running User manager
  blk-availability.service  loaded active exited  Availability of block devices
  getty@tty1.service        loaded active running Getty
"""


def test_all_covers_services_and_what_starts_them():
    units = model_units.parse_units(LISTED)
    assert model_units.units_to_stop(units, ()) == ["apt-daily.timer", "docker.socket", "mariadb.service", "retry.service"]
    assert model_units.units_to_stop(units, {"mariadb.service"}) == ["apt-daily.timer", "docker.socket", "retry.service"]


def test_a_maintenance_boot_starts_the_carriers_but_no_session():
    assert model_units.units_to_keep(model_units.parse_units(LISTED)) == ["blk-availability.service", "getty@tty1.service", "networking.service", "ssh.service"]


@pytest.mark.parametrize(
    "name",
    "ssh.service sshd.service ssh@7.service systemd-networkd.service systemd-journald.socket dbus.service dbus-broker.service NetworkManager.service "
    "networking.service netplan-ovs.service firewalld.service nftables.service multipathd.socket iscsid.service lvm2-lvmpolld.socket watchdog.service "
    "reduced-footprint-source-master.service reduced-footprint-migrate-other.service".split(),
)
def test_carriers_keep_running(name):
    assert model_units.is_carrier(name)


@pytest.mark.parametrize("name", "sshguard.service mariadb.service nginx.service docker.service cron.service networkd-thing.service ufwlog.service".split())
def test_everything_else_does_not(name):
    assert not model_units.is_carrier(name)


def test_the_maintenance_target_starts_no_sockets_and_no_timers():
    text = model_units.maintenance_target("w.service", ["ssh.service"])
    assert "Requires=sysinit.target" in text and "basic.target" not in text.replace("# ", "") and "multi-user" not in text
    assert "Wants=ssh.service\nWants=w.service\n" in text


@pytest.mark.parametrize(
    "crypttab, volume",
    [
        ("root UUID=1 none luks\n", "root"),
        ("root UUID=1\n", "root"),
        ("# root UUID=1 none\ndata UUID=2 /etc/key luks\n", None),
        ("swap /dev/sda2 /dev/urandom swap\n", None),
        ("late UUID=3 none luks,noauto\n", None),
        ("chip UUID=3 - tpm2-device=auto\n", None),
        ("", None),
    ],
)
def test_volumes_that_require_a_passphrase_are_found(crypttab, volume):
    assert model_units.passphrase_volume(crypttab) == volume


@pytest.mark.parametrize(
    ("cgroup", "found"),
    [
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n", (1000, "web.service")),
        ("1:name=systemd:/user.slice/user-7.slice/user@7.service/user.slice/libpod-1.scope/container\n0::/\n", (7, "libpod-1.scope")),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", None),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/dbus.service\n", None),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", None),
        ("0::/system.slice/mariadb.service\n", None),
    ],
)
def test_services_of_users_are_known_by_their_cgroup(cgroup, found):
    assert model_units.user_service(cgroup) == found
