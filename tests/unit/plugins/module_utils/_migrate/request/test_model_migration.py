# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOaucw27"


def params(**changes):
    base = {
        "vm": {"id": "master"},
        "admin": {"address": "192.0.2.2/24", "temporary_address": "192.0.2.3"},
        "source": {"host_keys": [KEY + " root@laptop"]},
    }
    base.update(changes)
    return base


def test_omitted_options_have_defaults():
    spec = parse_spec(params())
    assert (spec.name, spec.pool, spec.uri, spec.cluster) == ("master", "default", "qemu:///system", "footprint")
    assert (spec.admin.address, spec.admin.prefix, spec.source.address) == ("192.0.2.2", 24, "192.0.2.2")
    assert spec.source.host_keys == (KEY,)
    assert spec.source_after == "temp_address"
    assert (spec.boot, spec.pxe_from_source) == ("image", False)


def test_services_get_their_suffix_and_keep_their_order():
    spec = parse_spec(params(services=["api", "dnsmasq.service", "backup.timer", "getty@tty1", "a.b"]))
    assert spec.services == ("api.service", "dnsmasq.service", "backup.timer", "getty@tty1.service", "a.b.service")


def test_every_option_reaches_the_request():
    spec = parse_spec(
        params(
            quiesce="maintenance_boot",
            services=["all"],
            containers=[{"engine": "podman", "name": "api"}],
            disk_schema=[{"mount": "/", "size": "rest"}],
            bandwidth_limit="50 MiB/s",
            rehearse=False,
            boot_timeout=99,
            hooks=[{"phase": "quiesce", "on": "source", "command": ["drain"]}],
            preparation_timeout=3600,
            stop_after="rehearse",
            boot="pxe",
            pxe_from_source=True,
        )
    )
    assert (spec.boot, spec.pxe_from_source) == ("pxe", True)
    assert (spec.quiesce, spec.services, spec.bandwidth_limit, spec.rehearse) == ("maintenance_boot", ("all",), 50 * 1024, False)
    assert (spec.rehearse_timeout, spec.preparation_timeout, spec.stop_after) == (99, 3600, "rehearse")
    assert spec.hooks == (Hook("quiesce", "before", "source", ("drain",), 600),)
    assert [each.mount for each in spec.disk_schema] == ["/"] and [each.name for each in spec.containers] == ["api"]


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
        ({"disk_schema": [{"mount": "/srv"}]}, "disk_schema"),
        ({"boot": "floppy"}, "boot"),
        ({"sync": "dd"}, "sync"),
        ({"bandwidth_limit": "fast"}, "bandwidth_limit"),
        ({"bandwidth_limit": "-1"}, "bandwidth_limit"),
        ({"preparation_timeout": -1}, "preparation_timeout"),
        ({"preparation_timeout": True}, "preparation_timeout"),
        ({"cutover_at": "tonight"}, "cutover_at"),
        # without a time zone
        ({"cutover_at": "2026-12-24T02:00:00"}, "cutover_at"),
        ({"cutover_at": "9999-12-31T23:59:59-99:00"}, "cutover_at"),
        ({"cutover_window": 0}, "cutover_window"),
        ({"max_pause": -1}, "max_pause"),
        ({"stop_after": "quiesce"}, "stop_after"),
        ({"stop_after": "lunch"}, "stop_after"),
        ({"hooks": ["true"]}, "hooks[0]"),
        ({"hooks": [{"phase": "lunch", "command": ["true"]}]}, "hooks[0].phase"),
        ({"hooks": [{"phase": "final", "command": "true"}]}, "hooks[0].command"),
        ({"hooks": [{"phase": "final", "command": []}]}, "hooks[0].command"),
        ({"hooks": [{"phase": "final", "command": ["sleep", 1]}]}, "hooks[0].command[1]"),
        ({"hooks": [{"phase": "final", "command": ["true"], "on": "moon"}]}, "hooks[0].on"),
        ({"hooks": [{"phase": "final", "command": ["true"], "shell": 1}]}, "hooks[0].shell"),
        ({"hooks": [{"phase": "commit", "when": "after", "on": "source", "command": ["true"]}]}, "hooks[0].when"),
        ({"excludes": ["/"]}, "excludes[0]"),
        ({"excludes": ["cache"]}, "excludes[0]"),
        ({"health_checks": [{"type": "tcp"}]}, "health_checks[0].port"),
        ({"health_checks": [{"type": "http", "url": "file:///etc/passwd"}]}, "health_checks[0].url"),
        ({"health_checks": [{"type": "tcp", "port": 70000}]}, "health_checks[0].port"),
        ({"max_passes": 0}, "max_passes"),
        ({"lease_timeout": 1}, "lease_timeout"),
        ({"boot_timeout": "soon"}, "boot_timeout"),
        ({"source_after": "burn"}, "source_after"),
    ],
)
def test_invalid_values_are_refused_with_their_path(changes, path):
    with pytest.raises(InputError) as caught:
        parse_spec(params(**changes))
    assert path is None or caught.value.path == path
    assert caught.value.hint


def test_a_raw_device_requires_rsync_dd():
    schema = {"disk_schema": [{"mount": "/"}, {"raw": "/dev/x"}]}
    with pytest.raises(InputError, match=r"disk_schema\[1\]\.raw: .*sync: rsync_dd"):
        parse_spec(params(**schema))
    assert parse_spec(params(**schema, sync="rsync_dd")).disk_schema[1].raw.path == "/dev/x"


@pytest.mark.parametrize("text", ["2026-12-24T02:00:00+01:00", "2026-12-24T01:00:00Z", "2026-12-24 01:00:00+00:00"])
def test_the_time_of_the_pause_has_a_time_zone(text):
    given = {"vm": {"id": "master"}, "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"}}
    assert parse_spec({**given, "cutover_at": text}).cutover_at == 1798074000.0
    assert parse_spec(given).cutover_at is None
