# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration import parse_spec

GIB = 1024**3
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOaucw27"


def params(**changes):
    base = {
        "vm": {"id": "master"},
        "admin": {"address": "192.0.2.2/24", "temporary_address": "192.0.2.3"},
        "source": {"host_keys": [KEY + " root@laptop"]},
    }
    base.update(changes)
    return base


def test_what_is_left_out_has_a_sensible_value():
    spec = parse_spec(params())
    assert (spec.name, spec.pool, spec.uri, spec.cluster) == ("master", "default", "qemu:///system", "footprint")
    assert (spec.admin.address, spec.admin.prefix, spec.source.address) == ("192.0.2.2", 24, "192.0.2.2")
    assert spec.source.host_keys == (KEY,)
    assert spec.source_after == "temp_address"


def test_services_get_their_ending_and_keep_their_order():
    spec = parse_spec(params(services=["api", "dnsmasq.service", "backup.timer", "getty@tty1", "a.b"]))
    assert spec.services == ("api.service", "dnsmasq.service", "backup.timer", "getty@tty1.service", "a.b.service")


def test_partitions_take_sizes_and_the_rest():
    spec = parse_spec(params(partitions=[{"mount": "/", "size": 4}, {"mount": "/srv/", "fs": "xfs"}, {"fs": "swap", "size": "512 MiB"}]))
    assert [(each.mount, each.fs, each.size) for each in spec.partitions] == [("/", "ext4", 4 * GIB), ("/srv", "xfs", None), (None, "swap", GIB // 2)]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"vm": {}}, "name"),
        ({"vm": []}, None),
        ({"admin": {}}, "admin.address"),
        ({"admin": {"address": "192.0.2.2"}}, "admin.temporary_address"),
        ({"admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.2"}}, "admin.temporary_address"),
        ({"admin": {"address": "laptop", "temporary_address": "192.0.2.3"}}, "admin.address"),
        ({"admin": {"address": "192.0.2.2/40", "temporary_address": "192.0.2.3"}}, "admin.address"),
        ({"admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3", "interface": "-o x"}}, "admin.interface"),
        ({"source": {"address": "-oProxyCommand=x"}}, "source.address"),
        ({"source": {"host_keys": ["-----BEGIN"]}}, "source.host_keys[0]"),
        ({"source": {"machine_id": "x"}}, "source.machine_id"),
        ({"services": ["--now"]}, "services[0]"),
        ({"services": [""]}, "services[0]"),
        ({"services": ["a", "a.service"]}, "services"),
        ({"services": ["ssh"]}, "services[0]"),
        ({"partitions": [{"mount": "/srv"}]}, "partitions"),
        ({"partitions": [{"mount": "/"}, {"mount": "/"}]}, "partitions"),
        ({"partitions": [{"mount": "/"}, {"mount": "/srv"}]}, "partitions"),
        ({"partitions": [{"mount": "/", "fs": "vfat"}]}, "partitions[0].fs"),
        ({"partitions": [{"mount": "srv"}]}, "partitions[0].mount"),
        ({"partitions": [{"mount": "/a/../b"}]}, "partitions[0].mount"),
        ({"partitions": [{"fs": "swap", "mount": "/x"}]}, "partitions[0].mount"),
        ({"partitions": [{"mount": "/", "size": -1}]}, "partitions[0].size"),
        ({"partitions": [{"mount": "/", "size": "1 MiB"}]}, "partitions[0].size"),
        ({"partitions": [{"mount": "/", "sice": 1}]}, "partitions[0]"),
        ({"partitions": ["/"]}, "partitions[0]"),
        ({"excludes": ["/"]}, "excludes[0]"),
        ({"excludes": ["cache"]}, "excludes[0]"),
        ({"health_checks": [{"type": "tcp"}]}, "health_checks[0].port"),
        ({"health_checks": [{"type": "http", "url": "file:///etc/passwd"}]}, "health_checks[0].url"),
        ({"health_checks": [{"type": "command"}]}, "health_checks[0].type"),
        ({"health_checks": [{"type": "tcp", "port": 70000}]}, "health_checks[0].port"),
        ({"max_passes": 0}, "max_passes"),
        ({"return_after": 1}, "return_after"),
        ({"boot_timeout": "soon"}, "boot_timeout"),
        ({"source_after": "burn"}, "source_after"),
    ],
)
def test_bad_values_are_refused_with_their_path(changes, path):
    with pytest.raises(InputError) as caught:
        parse_spec(params(**changes))
    assert path is None or caught.value.path == path
    assert caught.value.mend
