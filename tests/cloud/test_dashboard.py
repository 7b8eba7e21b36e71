# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard in a browser on one controller and one compute server: log in, create an instance, see its console. Pictures are kept."""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest
import yaml
from cloud_lab import CLOUD, GROUPS, CloudLab
from controllers_lab import LOGS
from dashboard import Dashboard
from rflab import openstack_client

pytestmark = pytest.mark.chapter
FILES = "{{ inventory_dir }}/.images/test"
RESOURCES = {
    "cloud_bootstrap_flavors": [{"name": "tiny", "vcpus": 1, "ram": "128 MiB", "disk": 1}],
    "cloud_bootstrap_images": [
        {"name": "test-kernel", "file": f"{FILES}.vmlinuz", "disk_format": "aki"},
        {"name": "test-ramdisk", "file": f"{FILES}.initrd", "disk_format": "ari"},
        {"name": "test", "file": f"{FILES}.raw", "disk_format": "raw", "min_ram": "128 MiB", "kernel": "test-kernel", "ramdisk": "test-ramdisk"},
    ],
    "cloud_bootstrap_networks": [{"name": "demo", "subnets": [{"cidr": "192.168.10.0/24"}]}],
}
NAME = "seen-in-a-browser"


@pytest.fixture(scope="module", name="login")
def fixture_login(lab: CloudLab, reuse_lab: bool) -> dict[str, t.Any]:
    """The cloud of test_instance.py with an image, a flavor and a network; the login of its administrator."""
    lab.write_inventory({**CLOUD, **RESOURCES}, GROUPS)
    if not reuse_lab:
        for playbook in ("deploy_controllers", "provision_virt", "provision_compute"):
            lab.succeeds(playbook)
    client = openstack_client.variables()
    lab.succeeds("build_image", variables={"build_image_kind": "test"}, extra=client)
    lab.succeeds("cloud_bootstrap", extra=client)
    (path,) = lab.inventory_path.glob(".secrets/*/clouds.yaml")
    return dict(yaml.safe_load(path.read_text("utf-8"))["clouds"]["footprint"])


@pytest.fixture(scope="module", name="browser")
def fixture_browser(lab: CloudLab, login: dict[str, t.Any], tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Dashboard]:
    address = login["auth"]["auth_url"].partition("//")[2].partition(":")[0]
    with Dashboard(address, pathlib.Path(login["cacert"]), tmp_path_factory.mktemp("browser"), LOGS) as browser:
        yield browser


def test_administrator_logs_in(browser: Dashboard, login: dict[str, t.Any]) -> None:
    browser.log_in(login["auth"]["username"], login["auth"]["password"])


def test_instance_is_created_and_its_console_is_shown(browser: Dashboard) -> None:
    began = time.monotonic()
    browser.launch(NAME, "test", "tiny", "demo")
    try:
        browser.wait("active instance", lambda: any("Active" in row for row in browser.rows(NAME)), 240)
        print(f"active {time.monotonic() - began:.1f} s after the dashboard was opened")
        browser.picture("instances")
        assert browser.console(NAME).startswith("Connected")
        browser.picture("console")
    finally:
        browser.delete(NAME)
