# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write CHANGELOG.md and changelogs/changelog.yaml for the version in galaxy.yml, from the fragments; repeated until the version is tagged.

``scripts/changelog`` runs it, with the date of the release as an argument.
"""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys

import workspace
import yaml

ROOT = workspace.ROOT
FILES = ("CHANGELOG.md", "changelogs/changelog.yaml")


def main(date: str) -> int:
    """Generate the files in the copy that checks read, where no link is dangling, and copy them back."""
    copy = workspace.refresh()
    version = str(yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))["version"])
    tag = subprocess.run(["git", "tag", "--list", version], cwd=ROOT, check=True, capture_output=True, text=True)
    if tag.stdout.strip():
        print(f"changelog: {version} is tagged. Raise the version in galaxy.yml first.", file=sys.stderr)
        return 1
    database = copy / FILES[1]
    known = yaml.safe_load(database.read_text("utf-8"))
    if known["releases"].pop(version, None):
        database.write_text(yaml.safe_dump(known, explicit_start=True, sort_keys=False), "utf-8")
    environment = {**os.environ, **workspace.environment(), "ANSIBLE_COLLECTIONS_PATH": str(workspace.COLLECTIONS)}
    argv = [str(workspace.BIN / "antsibull-changelog"), "release", "--version", version, "--date", date]
    subprocess.run(argv, cwd=copy, env=environment, check=True)
    for name in FILES:
        shutil.copyfile(copy / name, ROOT / name)
    print(f"changelog: {version}, {date}: {', '.join(FILES)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or [datetime.date.today().isoformat()])))
