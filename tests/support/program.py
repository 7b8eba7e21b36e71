# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs outside of packages, imported for their tests."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import pathlib
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(path: str) -> t.Any:
    """Import a program, and return its module, which is not registered.

    :arg path: below the root of the repository.
    """
    loader = importlib.machinery.SourceFileLoader(pathlib.Path(path).stem.replace("-", "_"), str(ROOT / path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
