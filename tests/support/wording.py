# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words that documentation, messages, names and comments do not use, and what to write instead.

    python tests/support/wording.py PATH ...

lists what it finds below these paths, one finding a line, and fails when there is one. An underscore ends a word, so that
identifiers are read too.
"""

from __future__ import annotations

import fnmatch
import pathlib
import re
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: What is read.
FOLDERS = (
    "plugins", "roles", "playbooks", "docs", "awx", "changelogs", "meta", "lab", "benchmarks", "extensions", "tests",
    "README.md", "CONTRIBUTING.md", "SECURITY.md", ".github", "galaxy.yml",
)
#: What is not read, as patterns of paths, and why.
EXCLUDED: t.Mapping[str, str] = {
    "tests/support/wording.py": "contains the words themselves",
    "tests/unit/test_wording.py": "contains planted words",
    "tests/support/awx_schema.json": "names of AWX",
    "tests/unit/**/golden*/*": "files and messages of other programs in their own format",
}
_TEXT = {".py", ".md", ".yml", ".yaml", ".j2", ".sh", ".cfg", ".ini", ".toml", ""}

#: Each as a regular expression, and the words of this field for it.
WORDS: t.Mapping[str, str] = {
    r"ailments?": "problem",
    r"mend(s|ed|ing)?": "fix, hint",
    r"(fore)?told|foretells?": "reported, given, predicted",
    r"tells?(?!-)( of)?|telling": "reports, returns, shows, names",
    r"nobody": "no one, or who exactly: no member, no server, no client",
    r"somebody|whoever|everybody": "who exactly: a user, a process, another host",
    r"anew": "again",
    r"go(es)? on( with)?|went on|gone on with": "continues",
    r"gives? (it )?back|who gives back": "returns, rolls back",
    r"looks? away|see(s|n)? to it": "ignores, makes sure",
    r"is no (?!longer\b|more\b|less\b|other\b|one\b|need\b|problem\b|limit\b|reason\b|way\b|difference\b)[a-z]+": "is not a, expected",
    r"stands? (on|still|for it|there|as)|how it stands|it stands": "runs on, is in use, state",
    r"not well|is well|are well|be well|all well": "healthy, unhealthy",
    r"all the while": "meanwhile, continuously",
    r"put(s|ting)? (it |that |the cause )?right": "correct, fix",
    r"taken? back|takes back|took back|taking back": "rolled back, reverted",
    r"(last|first|final) word|the word(s)? of|a word|word for it": "report, message, answer",
    r"thing to do with": "related to",
    r"in its stead|in their stead": "instead",
    r"be spared|can spare": "be taken out of service",
    r"riddle|stranger('s)?|strangers": "another's, an unauthorized client, an unmanaged domain",
    r"of (his|her) own": "own",
    r"(of|not|is) ours": "managed by this collection",
    r"blotted out": "redacted",
    r"begun with|is begun|was begun": "started",
    r"wholly": "completely",
    r"beneath it": "below it",
    r"knows? nothing of": "does not know",
    r"ask(s|ed)? anew": "asks again",
    r"vouch(es|ed)?( for)?": "names, certifies",
    r"preceded": "is after",
}
_PATTERNS = [(re.compile(rf"(?<![A-Za-z])(?:{word})(?![A-Za-z])", re.IGNORECASE), instead) for word, instead in WORDS.items()]
#: Any of them, in lower case: most lines have none, and one search is much faster than one for each word.
_ANY = re.compile(rf"(?<![a-z])(?:{'|'.join(WORDS)})(?![a-z])")


def findings(text: str) -> t.Iterator[tuple[int, str, str]]:
    """The number of the line, the word found, and what to write instead."""
    for number, line in enumerate(text.splitlines(), 1):
        if not _ANY.search(line.lower()):
            continue
        for pattern, instead in _PATTERNS:
            for match in pattern.finditer(line):
                yield number, match[0], instead


def tracked(paths: t.Sequence[str]) -> list[pathlib.Path]:
    """The text files below these paths that git knows."""
    names = subprocess.run(["git", "ls-files", "-z", "--", *paths], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    read = [name for name in names if name and pathlib.Path(name).suffix in _TEXT and not any(fnmatch.fnmatch(name, pattern) for pattern in EXCLUDED)]
    return [ROOT / name for name in read if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def main(paths: t.Sequence[str]) -> int:
    """Print what is found; 1 when there is something."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r}: write {instead}"
        for path in tracked(paths or FOLDERS)
        for number, word, instead in findings(path.read_text("utf-8"))
    ]
    print("\n".join([*found, f"{len(found)} findings"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
