# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sphinx settings of the documentation site; ``build.py`` runs Sphinx."""

from __future__ import annotations

import importlib.resources
import os
import re
import typing as t

from docutils import nodes


def colours(name: str) -> dict[str, str]:
    """Return the colours of option tables for one of the theme's two modes."""
    text = importlib.resources.files("sphinx_antsibull_ext").joinpath(f"colors-{name}.css").read_text("utf-8")
    return dict(re.findall(r"--(antsibull-[\w-]+):([^;}]+)", text))


project = "reduced.footprint"
project_copyright = "the reduced.footprint authors"
release = os.environ["SITE_VERSION"]

extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinx_copybutton"]
# commands are copied without their prompt, and without what they print
copybutton_prompt_text = "$ "
# anchors of headings as GitHub names them
myst_heading_anchors = 4
default_role = "any"
highlight_language = "text"
html_theme = "furo"
# the theme switches them with the reader's choice of light or dark
antsibull_ext_color_scheme = "none"
html_theme_options = {"light_css_variables": colours("default"), "dark_css_variables": colours("default-dark")}
html_title = f"reduced.footprint {release}"
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_static_path = ["static"]
html_css_files = ["site.css"]

#: Where Ansible's own documentation has what the reference refers to. Intersphinx would download its index.
ANSIBLE = "https://docs.ansible.com/ansible/latest"
LABELS = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}


def link_to_ansible(_app: t.Any, _env: t.Any, node: t.Any, content: t.Any) -> nodes.reference | None:
    """Resolve a reference to Ansible or one of its own plugins; all others remain errors."""
    label = node["reftarget"].partition("__")[0]
    page = LABELS.get(label)
    if label.startswith("ansible_collections.ansible.builtin."):
        page = f"collections/ansible/builtin/{label.rpartition('.')[2]}.html"
    return nodes.reference("", "", content, refuri=f"{ANSIBLE}/{page}", internal=False) if page else None


def setup(app: t.Any) -> None:
    """Connect the handler."""
    app.connect("missing-reference", link_to_ansible)
