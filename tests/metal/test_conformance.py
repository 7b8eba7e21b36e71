# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The application of the role redfish_emulator and the interoperability profile of OpenStack Ironic, with DMTF's validator."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import subprocess
import tarfile
import typing as t
import urllib.error

import bare
import pytest
import service

#: The sources of Ironic contain the profile, its wheel does not.
IRONIC, SHA256 = "39.0.0", "205364829cf7ab1d03f80e4c684cf2aa6693170eae8457b9344100e43b737a5e"
PROFILE = "redfish-interop-profiles/OpenStackIronicProfile.v1_2_0.json"
DOCUMENT = bare.ROOT / "docs" / "metal.md"
#: Prints the results of a report: of resources, then of properties.
READ = """
import json, openpyxl, sys
book = openpyxl.load_workbook(sys.argv[1])
found = []
for sheet, columns in (("Resources", (1, None, 2, 3)), ("Results", (4, 5, 7, 8))):
    for row in list(book[sheet].iter_rows(values_only=True))[1:]:
        found.append([row[column] if column is not None else "" for column in columns])
print(json.dumps(found))
"""


class Outcome(t.NamedTuple):
    """What the validator found: the result of each requirement, and the resources that it could not read."""

    results: dict[str, str]
    unread: list[str]


@pytest.fixture(scope="module", name="profile")
def fixture_profile() -> pathlib.Path:
    """The profile of this version of Ironic, from its sources on PyPI."""
    folder = bare.ROOT / ".cache" / f"ironic-{IRONIC}"
    archive = folder / f"ironic-{IRONIC}.tar.gz"
    if not archive.exists():
        argv = [str(bare.environment() / "bin" / "pip"), "download", "--quiet", "--disable-pip-version-check", "--retries", "5", "--no-deps"]
        subprocess.run([*argv, "--no-binary", "ironic", "--dest", str(folder), f"ironic=={IRONIC}"], check=True, timeout=600)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
    with tarfile.open(archive) as sources:
        content = sources.extractfile(f"ironic-{IRONIC}/{PROFILE}")
        assert content
        target = folder / pathlib.Path(PROFILE).name
        target.write_bytes(content.read())
    return target


def validate(profile: pathlib.Path, running: service.Service, user: str, password: str, folder: pathlib.Path) -> Outcome:
    """Run the validator; a requirement that is met by one machine and not by another has the worse result."""
    folder.mkdir()
    argv = [str(bare.environment() / "bin" / "rf_interop_validator"), "--rhost", running.url, "--user", user, "--password", password]
    done = subprocess.run([*argv, "--authtype", "Basic", "--logdir", str(folder), str(profile)], capture_output=True, text=True, timeout=300, check=False)
    (report,) = folder.rglob("*.xlsx")
    read = subprocess.run([str(bare.environment() / "bin" / "python"), "-c", READ, str(report)], capture_output=True, text=True, check=True).stdout
    worst = ["PASS", "SKIP", "WARN", "FAIL"]
    results: dict[str, str] = {}
    for resource, name, result, why in json.loads(read):
        if "Cannot test" in why:
            # whether a property can be written: the validator only reads
            continue
        requirement = re.sub(r"/\d+", "", f"{resource.split(' ')[0]} {name}".strip())
        results[requirement] = max(results.get(requirement, "PASS"), result, key=worst.index)
    assert done.returncode == int("FAIL" in results.values()), done.stdout[-2000:] + done.stderr[-2000:]
    return Outcome(results, re.findall(r"Could not access (\S+);", done.stdout + done.stderr))


def documented() -> dict[str, str]:
    """The requirements in the table of the documentation that are not met, and their result."""
    section = DOCUMENT.read_text("utf-8").partition("### Conformance\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| (failed|absent) \|", section, re.MULTILINE)
    return {name: {"failed": "FAIL", "absent": "SKIP"}[result] for names, result in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.fixture(scope="module", name="running")
def fixture_running(place: t.Any, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[service.Service]:
    place.machine("one", uefi=True)
    place.machine("two")
    # libvirt knows the volumes that were created without it afterwards
    place.connection.storagePoolLookupByName("footprint-test").refresh()
    with service.Service(place, tmp_path_factory.mktemp("service"), {"operator": ("one-secret", "*"), "tenant": ("other-secret", "two")}) as running:
        yield running


def test_what_is_not_met_is_documented(running: service.Service, profile: pathlib.Path, tmp_path: pathlib.Path) -> None:
    found = validate(profile, running, "operator", "one-secret", tmp_path / "all")
    assert {name: result for name, result in found.results.items() if result != "PASS"} == documented()
    assert not found.unread, "links to resources that the service does not have"
    assert list(found.results.values()).count("PASS") > 60


def test_an_account_of_one_vm_has_a_complete_service(running: service.Service, profile: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """No link leads to a machine of others, which the account could not read."""
    found = validate(profile, running, "tenant", "other-secret", tmp_path / "own")
    assert "FAIL" not in found.results.values() and not found.unread


def test_the_version_of_the_protocol_is_documented(running: service.Service, profile: pathlib.Path) -> None:
    """The validator does not compare it."""
    wanted = json.loads(profile.read_text("utf-8"))["Protocol"]["MinVersion"]
    offered = running.get("/redfish/v1/")[0]["RedfishVersion"]
    assert offered < wanted and f"| protocol {wanted} | {offered} |" in DOCUMENT.read_text("utf-8")


def test_answers_are_those_of_the_specification(running: service.Service, place: t.Any) -> None:
    assert running.get("/redfish")[0] == {"v1": "/redfish/v1/"}
    system = place.connection.lookupByName("one").UUIDString()
    _body, headers = running.get(f"/redfish/v1/Systems/{system}", ("operator", "one-secret"))
    assert headers["OData-Version"] == "4.0" and {"GET", "PATCH"} <= set(headers["Allow"].split(", ")) and "POST" not in headers["Allow"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        running.get(f"/redfish/v1/Systems/{system}", ("tenant", "other-secret"))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        running.get(f"/redfish/v1/Systems/{system}", ("tenant", "one-secret"))
