# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documentation site: links, chapters, and the examples of the page on continuous integration. The gate ``site`` builds it."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml

from tests.support.program import load

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "guide"))

import guide  # noqa: E402

REPOSITORY = "https://github.com/example/example"


def _build() -> t.Any:
    return load("docs/docsite/build.py")


build = _build()


@pytest.mark.parametrize(
    ("link", "page", "expected"),
    [
        ("concept.md", "docs/README.md", "concept.md"),
        ("../README.md#disclaimer", "docs/concept.md", "overview.md#disclaimer"),
        ("../roles/galera/README.md", "docs/database.md", "roles/galera/index.md"),
        ("../../docs/database.md#backup", "roles/galera/README.md", "../../database.md#backup"),
        ("docs/images/flow.svg", "README.md", "images/flow.svg"),
        ("images/flow.svg", "docs/README.md", "images/flow.svg"),
        ("../plugins/modules/vm_move.py", "docs/moving.md", "reference/vm_move_module.rst"),
        ("../plugins/filter/plan_servers.py", "docs/operation.md", "reference/plan_servers_filter.rst"),
        ("../plugins", "docs/README.md", "reference/index.rst"),
        ("defaults/main.yml", "roles/galera/README.md", f"{REPOSITORY}/blob/main/roles/galera/defaults/main.yml"),
        ("../lab/inventory", "docs/first-footprint.md", f"{REPOSITORY}/tree/main/lab/inventory"),
        ("#limits", "docs/concept.md", "#limits"),
        ("https://www.rabbitmq.com/docs", "docs/messaging.md", "https://www.rabbitmq.com/docs"),
        ("../plugins/callback/brief.py", "docs/operation.md", "reference/brief_callback.rst"),
        # two files whose names differ in the case of letters only
        ("SECURITY.md", "README.md", "project/security.md"),
        ("docs/security.md", "README.md", "security.md"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(link: str, page: str, expected: str) -> None:
    assert build.target(link, page, REPOSITORY)[0] == expected


def test_links_in_code_are_left_unchanged() -> None:
    text, needed = build.rewrite("[a](../README.md)\n\n```yaml\nx: [b](../README.md)\n```\n", "docs/a.md", REPOSITORY)
    assert text == "[a](overview.md)\n\n```yaml\nx: [b](../README.md)\n```\n"
    assert needed == ["README.md"]


def test_every_page_and_role_is_in_a_chapter() -> None:
    text, _needed = build.rewrite((ROOT / build.INDEX).read_text("utf-8"), build.INDEX, REPOSITORY)
    listed = [page for _heading, links in build.chapters(text) for _title, page in links]
    assert len(set(listed)) == len(listed)
    wanted = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"} | {f"roles/{path.parent.name}/index" for path in ROOT.glob("roles/*/README.md")}
    assert wanted - set(listed) == set(), "add them to docs/README.md"


def test_all_pages_and_pictures_are_staged(tmp_path: pathlib.Path) -> None:
    build.stage(tmp_path, REPOSITORY)
    for page in tmp_path.rglob("*.md"):
        for link in build.LINK.findall(build.FENCE.sub("", page.read_text("utf-8"))):
            path = link.partition("#")[0]
            # the reference is generated later
            if path and ":" not in path and "reference/" not in path:
                assert (page.parent / path).is_file(), f"{page.relative_to(tmp_path)}: {link}"
    assert (tmp_path / "index.md").read_text("utf-8").count("{toctree}") == len(build.chapters((ROOT / build.INDEX).read_text("utf-8")))


@pytest.mark.parametrize(
    ("text", "loads"),
    [
        ('<script src="https://cdn.example.com/a.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example.com/a.css">', True),
        ('<img alt="" src="http://example.com/a.png">', True),
        ('<script src="_static/a.js"></script><a href="https://example.com">x</a>', False),
        ('<link rel="canonical" href="https://example.com/">', False),
    ],
)
def test_a_page_that_loads_something_from_elsewhere_is_found(text: str, loads: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a.html").write_text(text, "utf-8")
    assert bool(build.foreign(tmp_path)) is loads


CI = (ROOT / "docs" / "ci.md").read_text("utf-8")
PIPELINES = {block.splitlines()[0].removeprefix("# "): block for block in re.findall(r"^```yaml\n(.*?)^```", CI, re.DOTALL | re.MULTILINE)}


def commands(name: str) -> list[str]:
    """The commands of an example, in their order."""
    jobs = yaml.safe_load(PIPELINES[name])
    if name.startswith(".github"):
        return [step["run"] for job in jobs["jobs"].values() for step in job["steps"] if "run" in step]
    return [line for job in jobs.values() if isinstance(job, dict) for line in job.get("script", [])]


def test_both_examples_run_the_same_commands() -> None:
    one, other = (commands(name) for name in (".github/workflows/footprint.yml", ".gitlab-ci.yml"))
    assert one == other
    assert [line for line in one if "--check" in line]


@pytest.mark.parametrize("name", [".github/workflows/footprint.yml", ".gitlab-ci.yml"])
def test_commands_of_the_examples_exist(name: str) -> None:
    for line in commands(name):
        for playbook in re.findall(r"reduced\.footprint\.(\w+)", line):
            text = (ROOT / "playbooks" / f"{playbook}.yml").read_text("utf-8")
            for variable in re.findall(r"-e (\w+)=", line):
                assert variable in text
    for line in (line for line in commands(name) if "--check" not in line and "ansible-playbook" in line):
        assert re.search(r"config_dump|plan_placement -e plan_placement_measure=false", line), "contacts a server"


def test_the_inventory_of_the_guide_has_the_style_that_is_checked(tmp_path: pathlib.Path) -> None:
    guide.write(tmp_path)
    (command,) = [line for line in commands(".gitlab-ci.yml") if line.startswith("yamllint ")]
    done = subprocess.run([sys.executable, "-m", *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
