# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The smoke tests of Tempest, OpenStack's own integration tests, against one controller and one compute server.

Their results are recorded in tests/output/controllers/LAB/tempest.txt.
"""

from __future__ import annotations

import configparser
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
from cloud_client import COMPUTE, IMAGES, NETWORK, Cloud
from cloud_lab import CLOUD, GROUPS, SERVICES, CloudLab
from controllers_lab import LOGS
from rflab import openstack_client
from tenant import resources

pytestmark = pytest.mark.chapter
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("tempest==47.0.0",)
#: Of the tests, at least; those of services that are not deployed are skipped.
LEAST = 60
SMALL = {"name": "small", "vcpus": 1, "ram": "192 MiB", "disk": 1}


@pytest.fixture(scope="module", name="cloud")
def fixture_cloud(lab: CloudLab, reuse_lab: bool) -> Cloud:
    """One controller, one compute server, an image, two flavors and the network outside."""
    made = resources(lab.net)
    made["cloud_bootstrap_flavors"] = [*made["cloud_bootstrap_flavors"], SMALL]
    lab.write_inventory({**CLOUD, **made}, GROUPS)
    if not reuse_lab:
        for name in ("deploy_controllers", "provision_virt", "provision_compute"):
            lab.succeeds(name)
    lab.succeeds([{"hosts": SERVICES, "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}])
    lab.succeeds("cloud_bootstrap", extra=openstack_client.variables())
    return Cloud(lab)


def program() -> pathlib.Path:
    """Return the folder of Tempest's programs, installed once for this checkout."""
    home = ROOT / ".cache" / "venv-tempest"
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", *PACKAGES], check=True)
        (home / "ready").touch()
    return home / "bin"


def settings(cloud: Cloud, folder: pathlib.Path) -> dict[str, dict[str, t.Any]]:
    """The settings that say what is deployed, and how its instances are reached."""
    ids = {
        (kind, one["name"]): str(one["id"])
        for port, path, kind in ((IMAGES, "/v2/images", "images"), (COMPUTE, "/v2.1/flavors", "flavors"), (NETWORK, "/v2.0/networks", "networks"))
        for one in cloud.send(port, path, "GET")[kind]
    }
    extensions = [str(one["alias"]) for one in cloud.send(NETWORK, "/v2.0/extensions", "GET")["extensions"]]
    rc = cloud.openrc
    return {
        "DEFAULT": {"log_dir": folder / "logs"},
        "oslo_concurrency": {"lock_path": folder / "locks"},
        "auth": {
            "admin_username": rc["OS_USERNAME"], "admin_password": rc["OS_PASSWORD"], "admin_project_name": rc["OS_PROJECT_NAME"],
            "admin_domain_name": rc["OS_USER_DOMAIN_NAME"],
        },
        "identity": {"uri_v3": rc["OS_AUTH_URL"], "ca_certificates_file": rc["OS_CACERT"], "region": rc["OS_REGION_NAME"]},
        "compute": {
            "image_ref": ids["images", "test"], "image_ref_alt": ids["images", "test"], "flavor_ref": ids["flavors", "tiny"],
            "flavor_ref_alt": ids["flavors", "small"], "build_timeout": 600,
        },
        "network": {"public_network_id": ids["networks", "public"], "floating_network_name": "public"},
        # by default it expects the agents of other network drivers
        "network-feature-enabled": {"ipv6": "false", "api_extensions": ",".join(extensions)},
        # its commands need curl and blkid, which the image does not have; the image itself takes its key from the metadata service
        "compute-feature-enabled": {"metadata_service": "false", "config_drive": "false"},
        "validation": {"image_ssh_user": "root", "ssh_timeout": 600, "ping_timeout": 300},
        "service_available": {"cinder": "false", "swift": "false", "horizon": "false"},
    }  # fmt: skip


def test_smoke_tests_pass(lab: CloudLab, cloud: Cloud, tmp_path: pathlib.Path) -> None:
    programs = program()
    folder = tmp_path / "tempest"
    # the program of the test runner is found beside it; a list of workspaces is kept at home
    environment = {"PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(tmp_path)}
    subprocess.run([str(programs / "tempest"), "init", str(folder)], env=environment, check=True, capture_output=True)
    parser = configparser.RawConfigParser()
    parser.read_dict({section: {key: str(value) for key, value in values.items()} for section, values in settings(cloud, folder).items()})
    config = folder / "etc" / "tempest.conf"
    config.touch(mode=0o600)
    with config.open("w", encoding="utf-8") as stream:
        parser.write(stream)
    argv = [str(programs / "tempest"), "run", "--smoke", "--serial"]
    done = subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=7200, check=False)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / "tempest.txt").write_text(done.stdout, "utf-8")
    counts = {name: int(number) for name, number in re.findall(r"^ - (Passed|Failed|Skipped): (\d+)", done.stdout, re.MULTILINE)}
    print(counts)
    assert done.returncode == 0 and not counts["Failed"] and counts["Passed"] >= LEAST, done.stdout[-12000:]
