# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copy of the checkout that the checks read.

ansible-test requires a path ``…/ansible_collections/reduced/footprint`` with a git repository and without symbolic links, so the
checkout is copied there, without ignored files. All static checks read this copy, without caches, labs and virtual environments.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
COLLECTIONS = CACHE / "checked"
COPY = COLLECTIONS / "ansible_collections" / "reduced" / "footprint"
#: ansible-test keeps environments and caches below its home; it gets a separate one, not the user's.
HOME = CACHE / "ansible-test-home"
OUTPUT = ROOT / "tests" / "output"
BIN = ROOT / ".venv" / "bin"
OWN_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

# ansible-test downloads get-pip.py from a host that is not reachable from closed networks. ensurepip contains pip as well.
GET_PIP = '''\
"""Replacement of get-pip.py: installs pip from the standard library, then the requested packages."""

import subprocess
import sys

wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
subprocess.check_call([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install"] + [word for word in wanted if word != "install"]))
'''


def git(*arguments: str, cwd: pathlib.Path = ROOT) -> str:
    who = ["-c", "user.name=checks", "-c", "user.email=checks@localhost", "-c", "core.hooksPath=/dev/null"]
    done = subprocess.run(["git", "-c", f"safe.directory={cwd}", *who, *arguments], cwd=cwd, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout


def tracked() -> list[str]:
    """Return the paths of all files that are part of the repository, or would be after ``git add``."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return sorted({name for name in listed if name and (ROOT / name).is_file()})


def changed(base: str | None = None) -> list[str]:
    """The tracked files that differ from a commit, and those git does not know yet.

    :arg base: the commit; by default where the branch left its upstream, and without one the commit before this one.
    """
    if not base:
        upstream = git("for-each-ref", "--format=%(upstream)", git("rev-parse", "--symbolic-full-name", "HEAD").strip()).strip()
        base = git("merge-base", "HEAD", upstream).strip() if upstream else git("rev-list", "--max-count=2", "HEAD").split()[-1]
    listed = git("diff", "--name-only", "-z", base) + git("ls-files", "--others", "--exclude-standard", "-z")
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def code_state(without: tuple[str, ...] = ()) -> str:
    """Return a digest of all files that can change the result of a test: everything but documentation.

    :arg without: beginnings of the paths of files that cannot change the result of this one.
    """
    digest = hashlib.sha256()
    for name in tracked():
        if not name.startswith(("docs/", "changelogs/", "benchmarks/", *without)) and not name.endswith(".md"):
            digest.update(name.encode() + b"\0" + hashlib.sha256((ROOT / name).read_bytes()).digest())
    return digest.hexdigest()


def refresh() -> pathlib.Path:
    """Update the copy and return its path. Unchanged files keep their times.

    A check may be running in the copy: its own files are kept.
    """
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "checked.lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _refresh()


def _refresh() -> pathlib.Path:
    wanted = tracked()
    keep = set(wanted)
    for name in wanted:
        source, target = ROOT / name, COPY / name
        if target.is_file() and not target.is_symlink() and _same(source, target):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    for folder, folders, files in os.walk(COPY, topdown=False):
        here = pathlib.Path(folder)
        relative = here.relative_to(COPY)
        if relative.parts and relative.parts[0] in (".git", ".ansible") or relative.parts[:2] == ("tests", "output"):
            continue
        for name in files:
            if str(relative / name) not in keep:
                (here / name).unlink()
        if relative.parts and not any(here.iterdir()):
            here.rmdir()
    if not (COPY / ".git").is_dir():
        git("init", "--quiet", "--initial-branch=main", cwd=COPY)
    git("add", "--all", cwd=COPY)
    git("commit", "--quiet", "--allow-empty", "--no-verify", "--message", "what is checked", cwd=COPY)
    return COPY


def clone(target: pathlib.Path) -> None:
    """Clone the repository as ``git clone`` does, and apply uncommitted changes; links stay links."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    git("clone", "--quiet", "--no-hardlinks", str(ROOT), str(target))
    here = {name for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0") if name and os.path.lexists(ROOT / name)}
    for name in git("ls-files", "-z", cwd=target).split("\0"):
        if name and name not in here:
            (target / name).unlink()
    for name in here:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).unlink(missing_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def _same(source: pathlib.Path, target: pathlib.Path) -> bool:
    one, other = source.stat(), target.stat()
    if (one.st_size, one.st_mode) != (other.st_size, other.st_mode):
        return False
    return one.st_mtime_ns == other.st_mtime_ns or source.read_bytes() == target.read_bytes()


def shell_scripts() -> list[str]:
    """The files of the copy that are shell scripts by their name or their first line."""
    found = []
    for name in tracked():
        path = COPY / name
        with path.open("rb") as file:
            first = file.readline(80)
        if name.endswith((".sh", ".bash")) or first.startswith(b"#!") and first.rstrip().endswith((b"bash", b"/sh")):
            found.append(name)
    return found


def place_get_pip(environment_of: pathlib.Path = BIN.parent, home: pathlib.Path = HOME) -> None:
    """Write the replacement under every name that the ansible-test of a virtual environment may use.

    :arg home: the user's home in its run.
    """
    for source in environment_of.glob("lib/python3*/site-packages/ansible_test/_internal/python_requirements.py"):
        for version in re.findall(r"pip='([0-9.]+)'", source.read_text(encoding="utf-8")):
            target = home / ".ansible" / "test" / "cache" / f"get_pip_{version.replace('.', '_')}.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(GET_PIP, encoding="utf-8")


def search_path() -> str:
    """Return a PATH with the tools of the virtual environment first and real interpreters before shims."""
    system = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    # More Pythons mean more checked versions; a version manager keeps them here.
    manager = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    others = sorted((str(path) for path in manager.glob("versions/3.*/bin")), key=_version)
    return os.pathsep.join([str(BIN), *system, *others])


def edges(versions: tuple[str, ...]) -> list[str]:
    """Return the first and the last of some versions of Python that are on this machine, without the one of the virtual environment."""
    here = [version for version in versions if version != OWN_PYTHON and shutil.which(f"python{version}", path=search_path())]
    return here[:1] + here[1:][-1:]


def _version(path: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.split("versions")[-1]))


def environment() -> dict[str, str]:
    """Return the environment of every step: without colours and the user's settings."""
    return {
        "PATH": search_path(),
        "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "PY_COLORS": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
