# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_escape import escape

ALL = "a & b < c > d \" e ' f &amp; ü"


def test_text_is_read_back_unchanged() -> None:
    assert parse(f"<domain>{escape(ALL)}</domain>").text == ALL


@pytest.mark.parametrize("quote", ["'", '"'])
def test_attribute_is_read_back_unchanged_with_either_quotes(quote: str) -> None:
    assert parse(f"<domain name={quote}{escape(ALL)}{quote}/>").get("name") == ALL
