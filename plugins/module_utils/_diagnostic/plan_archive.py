# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What of the collected texts goes into a diagnostic snapshot: without secrets, and within a size."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import masked, secret_texts
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_text, redact
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.model_piece import Piece

# they would control the terminal of a reader
_CONTROL = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
_COMMENT = re.compile(r"(?m)^[^\S\n]*[#;].*\n?")
_KEY_END = re.compile(r"-----END [^-\n]*PRIVATE KEY-----")
_KEY_BEGIN = "-----BEGIN "
_JSON = ".json"
#: A line of a secret with several lines; a shorter one is an ordinary word.
_LEAST_LINE = 16


def clean(text: str) -> str:
    """Return a text without control characters except for line feeds and tabs."""
    return text.translate(_CONTROL)


def last(text: str, most: int) -> tuple[str, int]:
    """Return the last whole lines of a text within a number of bytes, and the number of bytes before them."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) <= most:
        return text, 0
    rest = data[len(data) - most :].partition(b"\n")[2]
    return rest.decode("utf-8", "replace"), len(data) - len(rest)


def without_key_rest(text: str) -> str:
    """Return the end of a text without the rest of a private key that begins before it, which cannot be recognised."""
    end = _KEY_END.search(text)
    return text[end.end() :] if end and _KEY_BEGIN not in text[: end.start()] else text


def level(sizes: t.Sequence[int], total: int) -> int:
    """Return the size to which the longest texts are shortened, so that all fit: short ones remain complete."""
    rest = total
    for position, size in enumerate(sorted(sizes)):
        share = rest // (len(sizes) - position)
        if size > share:
            return share
        rest -= size
    return max(sizes, default=0)


def fit(pieces: t.Sequence[Piece], total: int) -> list[Piece]:
    """Return pieces that have at most a number of bytes together; long ones lose their begin."""
    most = level([len(piece.text.encode("utf-8", "surrogateescape")) for piece in pieces], total)
    found = []
    for piece in pieces:
        text, lost = last(piece.text, most)
        found.append(piece._replace(text=without_key_rest(text) if lost else text, lost=piece.lost + lost))
    return found


def secret_lines(texts: t.Iterable[str]) -> set[str]:
    """Return what is masked of secrets that may have several lines."""
    whole = {text.strip() for text in texts}
    return whole | {line.strip() for text in whole for line in text.splitlines() if len(line.strip()) >= _LEAST_LINE and "-----" not in line}


def known_secrets(pieces: t.Iterable[Piece]) -> set[str]:
    """Return the values of secrets in configuration and records, so that they are masked in other texts."""
    found: set[str] = set()
    for piece in pieces:
        document = _document(piece)
        if document is None:
            # an example in a comment is an ordinary word
            mask_text(_COMMENT.sub("", piece.text), piece.path, found)
        else:
            found |= secret_texts(document)
    return found


def protect(pieces: t.Sequence[Piece], secrets: t.Iterable[str], total: int) -> list[Piece]:
    """Return the pieces within a size and without secrets.

    :arg secrets: known secrets; those that can be recognised in a text are masked as well.
    :arg total: bytes of all texts together.
    """
    known = set(secrets)
    # first shortened, because masking takes time; the mask may be longer than the secret
    return fit([_mask(piece, known) for piece in fit([piece._replace(text=clean(piece.text)) for piece in pieces], total)], total)


def _mask(piece: Piece, secrets: t.AbstractSet[str]) -> Piece:
    document, text, error = _document(piece), piece.text, piece.error
    if document is not None:
        text = json.dumps(masked(document), indent=1, sort_keys=True, ensure_ascii=False)
    elif text and piece.path.endswith(_JSON):
        # the names of its secrets may be in the part that is missing
        text, error = "", error or "is not a complete JSON document"
    text, error = redact([text, error], secrets, piece.path)
    return piece._replace(text=text, error=error)


def _document(piece: Piece) -> t.Any:
    """Return the content of a complete JSON text, ``None`` for other texts."""
    if piece.path.endswith(_JSON) and not piece.lost:
        try:
            return json.loads(piece.text)
        except ValueError:
            pass
    return None


def index(pieces: t.Iterable[Piece]) -> list[dict[str, t.Any]]:
    """Return what there is, and what is missing and why, for the archive."""
    return [
        {"name": piece.name, "bytes": len(piece.text.encode("utf-8", "surrogateescape")), "omitted_bytes": piece.lost, "error": piece.error or None}
        for piece in pieces
    ]
