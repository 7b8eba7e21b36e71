# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx settings of the documentation site; ``build.py`` runs Sphinx."""

from __future__ import annotations

import os

project = "reduced.footprint"
copyright = "the reduced.footprint authors"  # noqa: A001
release = os.environ["SITE_VERSION"]

extensions = ["myst_parser", "sphinx_antsibull_ext"]
# anchors of headings as GitHub names them
myst_heading_anchors = 4
default_role = "any"
highlight_language = "text"
# no file is downloaded, and no page loads one from elsewhere
intersphinx_mapping: dict[str, tuple[str, None]] = {}

html_theme = "furo"
html_title = f"reduced.footprint {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_static_path = ["static"]
html_css_files = ["site.css"]
