# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mapping of the cell, which is written once, names all members of RabbitMQ, also after some were added or removed."""

from __future__ import annotations

import pathlib
import urllib.parse

import jinja2
import pytest
import yaml

VARS = yaml.safe_load((pathlib.Path(__file__).resolve().parents[4] / "roles" / "nova" / "vars" / "main.yml").read_text("utf-8"))


def template(members: int) -> str:
    """The URL of the mapping, as a run with so many members of RabbitMQ writes it."""
    environment = jinja2.Environment(autoescape=False)
    environment.filters["regex_replace"] = lambda text, unused, new: new.replace("\x01", str(text))
    numbers = list(range(1, members + 1)) if members > 1 else [""]
    return environment.from_string(VARS["__nova_cell_transport"]).render(nova_rabbitmq_vhost="nova", __nova_cell_numbers=numbers)


def replaced(url: str, transport: str) -> str:
    """What Nova makes of it: the names are those of the parts of the URL, also numbered with several members."""
    parts = urllib.parse.urlparse(transport)
    names = {"username": parts.username, "password": parts.password, "hostname": parts.hostname, "port": parts.port}
    for number, member in enumerate(parts.netloc.split(","), 1):
        login, unused, place = member.partition("@")
        names |= dict(zip((f"username{number}", f"password{number}"), login.split(":")))
        names |= dict(zip((f"hostname{number}", f"port{number}"), place.split(":")))
    return url.format(**names)


@pytest.mark.parametrize("before", [1, 2, 3])
@pytest.mark.parametrize("now", [1, 2, 3])
def test_all_members_are_named_whatever_their_number_was(before: int, now: int) -> None:
    login = f"nova:{urllib.parse.quote('a:b/c@d,e%', safe='')}"
    transport = f"rabbit://{','.join(f'{login}@192.0.2.{number}:5671' for number in range(1, now + 1))}/nova"
    assert replaced(template(before), transport) == transport
