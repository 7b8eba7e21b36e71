# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the documentation site from the Markdown files of the repository and the documentation of plugins and roles.

    build.py [FOLDER]     default: .cache/site; the first page is FOLDER/html/index.html

The chapters of the site are the headings of docs/README.md, their pages are the links below each heading. Pages that they link to are part
of the site as well. A warning of antsibull-docs or Sphinx fails the build, and so does a page that would load something from elsewhere.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
INDEX = "docs/README.md"
REFERENCE = "reference"
#: Folders of plugins, and the names of their pages in the reference.
KINDS = {"modules": "module", "filter": "filter", "lookup": "lookup", "inventory": "inventory", "callback": "callback"}
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
#: What a page loads when it is opened, unlike a link.
LOADS = re.compile(r"""<(?:script|img|iframe|source|link rel="(?:stylesheet|preload|icon)")\s[^>]*?(?:src|href)="(?:https?:)?//[^"]*\"""")


def place(name: str) -> str:
    """Return where a Markdown file of the repository is in the site."""
    if name == INDEX:
        return "index.md"
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name == "README.md":
        return "overview.md"
    if "/" not in name:
        # apart from the guides: one of them is called security.md as well
        return f"project/{name.lower()}"
    return name.replace("README.md", "index.md").lower()


def target(link: str, page: str, repository: str) -> tuple[str, str]:
    """Return a link of a page as the site needs it, and the Markdown file or picture that the site must contain for it, if any."""
    path, hash_sign, heading = link.partition("#")
    if not path or ":" in path:
        return link, ""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
    parts = name.split("/")
    if name.endswith(".md"):
        where, needed = place(name), name
    elif name.startswith("docs/images/"):
        where, needed = name.removeprefix("docs/"), name
    elif name == "plugins":
        where, needed = f"{REFERENCE}/index.rst", ""
    elif parts[0] == "plugins" and len(parts) == 3 and parts[1] in KINDS and name.endswith(".py"):
        where, needed = f"{REFERENCE}/{parts[2].removesuffix('.py')}_{KINDS[parts[1]]}.rst", ""
    else:
        return f"{repository}/{'tree' if (ROOT / name).is_dir() else 'blob'}/main/{name}", ""
    return posixpath.relpath(where, posixpath.dirname(place(page)) or ".") + hash_sign + heading, needed


def rewrite(text: str, page: str, repository: str) -> tuple[str, list[str]]:
    """Return the text of a page with the links of the site, and the files that it links to."""
    needed: list[str] = []

    def replace(match: re.Match[str]) -> str:
        link, file = target(match[1], page, repository)
        if file:
            needed.append(file)
        return link

    parts = FENCE.split(text)
    return "".join(part if part.startswith("```") else LINK.sub(replace, part) for part in parts), needed


def chapters(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the headings of the first page, each with the title and the page of every link of its list."""
    found = []
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _newline, body = part.partition("\n")
        links = re.findall(r"^[-*] \[([^\]]+)\]\(([^)#\s]+)\)", body, flags=re.MULTILINE)
        if links:
            found.append((heading.strip(), [(title, link.rpartition(".")[0]) for title, link in links if ":" not in link]))
    return found


def toctrees(text: str) -> str:
    """Return the navigation of the site."""
    blocks = []
    for heading, links in chapters(text):
        pages = "\n".join(f"{title} <{page}>" for title, page in links)
        blocks.append(f"```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n")
    return "\n".join(blocks)


def stage(source: pathlib.Path, repository: str) -> None:
    """Write all pages and pictures of the guides to a folder."""
    waiting = [INDEX, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
    done: set[str] = set()
    listed: set[str] = set()
    while waiting:
        name = waiting.pop(0)
        if name in done:
            continue
        done.add(name)
        if not name.endswith(".md"):
            to = source / name.removeprefix("docs/")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to)
            continue
        text, needed = rewrite((ROOT / name).read_text("utf-8"), name, repository)
        waiting += needed
        if name == INDEX:
            listed = {page for _heading, links in chapters(text) for _title, page in links}
            text += "\n" + toctrees(text)
        elif not name.startswith("docs/") and place(name).removesuffix(".md") not in listed:
            text = f"---\norphan: true\n---\n{text}"
        to = source / place(name)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, "utf-8")


def fit(text: str) -> str:
    """Return a generated page as the theme needs it: without its own table of contents, with short names in the navigation."""
    text = re.sub(r"^\.\. contents::\n(?:   :\w+:.*\n)+", "", text, flags=re.MULTILINE)
    text = re.sub(rf"^    (\w+)_({'|'.join([*KINDS.values(), 'role'])})$", r"    \1 <\1_\2>", text, flags=re.MULTILINE)
    # it refers to a page of Ansible's own documentation, which is not loaded
    text = re.sub(r"^See :ref:`callback_plugins`.*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^Reduced\.Footprint\n=+$", "Modules, plugins and roles\n==========================", text, flags=re.MULTILINE)


def foreign(html: pathlib.Path) -> list[str]:
    """Return what pages would load from other hosts."""
    return [f"{page.relative_to(html)}: {match[0]}" for page in sorted(html.rglob("*.html")) for match in LOADS.finditer(page.read_text("utf-8"))]


def run(*argv: str, **variables: str) -> None:
    """Run a tool of the virtual environment, and end with its exit code if it fails."""
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(argv, check=False, cwd=ROOT, env={**os.environ, "PATH": path, **variables})
    if done.returncode:
        sys.exit(done.returncode)


def main(arguments: t.Sequence[str]) -> None:
    """Build the site."""
    folder = pathlib.Path(arguments[0] if arguments else ROOT / ".cache" / "site").resolve()
    source, doctrees, html = folder / "source", folder / "doctrees", folder / "html"
    for old in (source, doctrees, html):
        shutil.rmtree(old, ignore_errors=True)
    (source / REFERENCE).mkdir(parents=True, mode=0o755)
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    stage(source, galaxy["repository"])
    config = ["--config-file", str(HERE / "antsibull-docs.cfg")]
    to = ["--use-current", "--squash-hierarchy", "--fail-on-error", "--dest-dir", str(source / REFERENCE)]
    # the link that scripts/setup makes, unless the caller names another place: without it ansible-doc finds no collection of this checkout
    collections = os.environ.get("ANSIBLE_COLLECTIONS_PATH", str(ROOT / ".cache" / "collections"))
    run("antsibull-docs", *config, "collection", *to, f"{galaxy['namespace']}.{galaxy['name']}", ANSIBLE_COLLECTIONS_PATH=collections)
    for page in (source / REFERENCE).glob("*.rst"):
        page.write_text(fit(page.read_text("utf-8")), "utf-8")
    build = ["sphinx-build", "--quiet", "--fail-on-warning", "--keep-going", "-b", "html", "-c", str(HERE)]
    run(*build, "-d", str(doctrees), str(source), str(html), SITE_VERSION=galaxy["version"])
    if found := foreign(html):
        sys.exit("\n".join(["Pages load files from other hosts:", *found]))
    print(f"{sum(1 for _page in html.rglob('*.html'))} pages, {html / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
