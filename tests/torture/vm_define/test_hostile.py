# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile details and templates with the real module: refused with a clear error, within limits of time and memory, and no other file is changed."""

from __future__ import annotations

import os
import pathlib
import resource
import typing as t

import pytest
from harden_host import CLUSTER, Host, guest

AddRow = t.Callable[[str, str, str], None]
LIMIT = 20.0
MEMORY = 1 << 30
SECRET = "do-not-read-me"

D = "<domain type='qemu'><name>{id}</name><memory unit='MiB'>32</memory><os><type>hvm</type></os>"
J = "<domain type='qemu'><name>{{ id }}</name><memory unit='MiB'>32</memory><os><type>hvm</type></os>"


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def _laughs() -> str:
    entities = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
    return f"<!DOCTYPE domain [<!ENTITY l0 'ha'>{entities}]>{D}<description>&l9;</description></domain>"


# invalid details, each with a part of the error message
DETAILS: t.Mapping[str, tuple[t.Any, str]] = {
    "id above": ([guest("../../etc/evil")], "valid name"),
    "id with a slash": ([guest("a/b")], "valid name"),
    "id absolute": ([guest("/etc/passwd")], "valid name"),
    "id of dots": ([guest("..")], "valid name"),
    "id with a line break": ([guest("a\nb")], "valid name"),
    "id ends in a line break": ([guest("a\n")], "valid name"),
    "id with a NUL": ([guest("a\0b")], "valid name"),
    "id an escape": ([guest("\x1b[31mred")], "valid name"),
    "id an option": ([guest("--help")], "valid name"),
    "id very long": ([guest("a" * 100000)], "valid name"),
    "id a list": ([guest([["a"]])], "valid name"),
    "id not ASCII": ([guest("ä")], "valid name"),
    "id of other digits": ([guest("\u0661")], "valid name"),
    "name above": ([guest("a", name="../b")], "valid name"),
    "pool above": ([guest("a", disks=[{"size": "2 MiB", "pool": "../x"}])], "pool"),
    "pool unknown": ([guest("a", disks=[{"size": "2 MiB", "pool": "nowhere"}])], "pool"),
    "image above": ([guest("a", disks=[{"image": "../../../../etc/passwd"}])], "image"),
    "image absolute": ([guest("a", disks=[{"image": "/etc/passwd"}])], "image"),
    "image as a json: address": ([guest("a", disks=[{"image": "json:{\"driver\":\"file\"}", "format": "qcow2"}])], "image"),
    "volume above": ([guest("a", disks=[{"size": "2 MiB", "name": "../../etc/evil"}])], "name"),
    "volume hidden": ([guest("a", disks=[{"size": "2 MiB", "name": ".hidden.partial"}])], "name"),
    "mount above": ([guest("a", hypervisor="lxc", disks=[{"image": "x", "mount": "/../etc"}])], "mount point"),
    "target no device": ([guest("a", disks=[{"size": "2 MiB", "target": "vda'/><x y='"}])], "target"),
    "serial with XML": ([guest("a", disks=[{"size": "2 MiB", "serial": "<x/>"}])], "serial"),
    "bridge an option": ([guest("a", nics=[{"bridge": "-x"}])], "bridge"),
    "bridge with XML": ([guest("a", nics=[{"bridge": "'/><x"}])], "bridge"),
    "mac of a group": ([guest("a", nics=[{"network": "default", "mac": "01:00:5e:00:00:01"}])], "MAC"),
    "vlan huge": ([guest("a", nics=[{"network": "default", "vlan": 10**30}])], "VLAN"),
    "vlan of other digits": ([guest("a", nics=[{"network": "default", "vlan": "\u00b2"}])], "VLAN"),
    "cpu huge": ([guest("a", cpu=10**400)], "cpu"),
    "cpu negative": ([guest("a", cpu=-1)], "cpu"),
    "cpu text, huge": ([guest("a", cpu="9" * 5000)], "cpu"),
    "cpu half": ([guest("a", cpu=1.5)], "cpu"),
    "ram huge": ([guest("a", None, memory_mb=None, ram=10**30)], "ram"),
    "ram endless": ([guest("a", None, memory_mb=None, ram="1e309")], "ram"),
    "ram infinite": ([guest("a", None, memory_mb=None, ram=float("inf"))], "ram"),
    "ram no number": ([guest("a", None, memory_mb=None, ram=float("nan"))], "ram"),
    "ram of a million digits": ([guest("a", None, memory_mb=None, ram="9" * 1000000)], "ram"),
    "ram an exponent": ([guest("a", None, memory_mb=None, ram="1" + "0" * 400 + "GiB")], "ram"),
    "disk huge": ([guest("a", disks=[{"size": "999999999999 TiB"}])], "size"),
    "disk of nothing": ([guest("a", disks=[{"size": 0}])], "size"),
    "disks by the thousand": ([guest("a", disks=[{"size": "2 MiB"}] * 1000)], "disk"),
    "disks no list": ([guest("a", disks="x" * 100000)], "list"),
    "duplicate id 5000 times": ([guest("a")] * 5000, "already used"),
    "not JSON": ("[{", "JSON"),
    "JSON nested deeply": (_deep(100000), "JSON"),
    "JSON a number": ("1" * 100000, "vms"),
    "JSON endless": ('[{"id": "a", "cpu": 1, "ram": Infinity}]', "ram"),
    "JSON no number": ('[{"id": "a", "cpu": 1, "ram": NaN}]', "ram"),
    "a key that is not a valid name": ([guest("a", **{"x y": 1})], "variable"),
    "a key of Python's own": ([guest("a", **{"__class__": 1, "a.b": 1})], "variable"),
    "firmware above": ([guest("a", boot_firmware="../../OVMF")], "boot_firmware"),
    "user data a number": ([guest("a", user_data=5)], "user_data"),
}

# invalid or malicious templates
TEMPLATES: t.Mapping[str, tuple[str, str]] = {
    "billion laughs": (_laughs(), "entit"),
    "external entity": (f"<!DOCTYPE domain [<!ENTITY x SYSTEM 'file://SECRETFILE'>]>{D}<description>&x;</description></domain>", ""),
    "external parameter entity": (f"<!DOCTYPE domain [<!ENTITY % x SYSTEM 'file://SECRETFILE'> %x;]>{D}</domain>", ""),
    "external type": (f"<!DOCTYPE domain SYSTEM 'file://SECRETFILE'>{D}</domain>", ""),
    "XInclude": (f"{D}<xi:include xmlns:xi='http://www.w3.org/2001/XInclude' href='file://SECRETFILE' parse='text'/></domain>", ""),
    "include": (J + "{% include 'SECRETFILE' %}</domain>", "line"),
    "import": ("{% import 'SECRETFILE' as x %}" + J + "</domain>", "line"),
    "extends": ("{% extends 'SECRETFILE' %}" + J, "line"),
    "from import": ("{% from 'SECRETFILE' import x %}" + J + "</domain>", "line"),
    "a huge range": (J + "{% for n in range(10**12) %}x{% endfor %}</domain>", "line"),
    "ranges in ranges": (J + "{% for a in range(99999) %}" * 3 + "x" + "{% endfor %}" * 3 + "</domain>", "line"),
    "a long multiplication": (J + "{{ 'x' * 10**11 }}</domain>", "line"),
    "a long list": (J + "{% set x = [0] * 10**10 %}</domain>", "line"),
    "a high power": (J + "{{ 9**(9**9) }}</domain>", "line"),
    "loops over text": (J + "{% for a in 'x' * 99999 %}" * 3 + "{% endfor %}" * 3 + "</domain>", "line"),
    "a value XML cannot carry": (f"{D}<description>{{note}}</description></domain>", "XML does not allow"),
    "a value XML cannot carry, Jinja2": (J + "<description>{{ note }}</description></domain>", "XML does not allow"),
    "padding": (J + "{{ 'x'.ljust(10**11) }}</domain>", "line"),
    "formatting": (J + "{{ '%99999999999d' | format(1) }}</domain>", "line"),
    "doubling": (J + "{% set ns = namespace(x='x') %}{% for n in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}</domain>", "line"),
    "calling itself": ("{% macro m() %}{{ m() }}{% endmacro %}" + J + "{{ m() }}</domain>", "line"),
    "out of the sandbox by a class": (J + "{{ ''.__class__.__mro__[1].__subclasses__() }}</domain>", "line"),
    "out of the sandbox by a function": (J + "{{ range.__globals__ }}</domain>", "line"),
    "out of the sandbox by format": (J + "{{ '{0.__class__.__init__.__globals__}'.format(nics) }}</domain>", "line"),
    "out of the sandbox by a filter": (J + "{{ '' | attr('__class__') }}</domain>", "line"),
    "out of the sandbox by self": (J + "{{ self.__init__.__globals__ }}</domain>", "line"),
    "out of the sandbox by cycler": (J + "{{ cycler.__init__.__globals__.os.system('touch SECRETFILE.touched') }}</domain>", "line"),
    "a change of what is given": (J + "{{ nics.append(1) }}</domain>", "line"),
    "division by nothing": (J + "{{ 1 / 0 }}</domain>", "line"),
    "no end": (J + "{% for n in nics %}", "line"),
    "an unknown filter": (J + "{{ id | nonsense }}</domain>", "line"),
    "nested parentheses": (J + "{{ " + "(" * 20000 + "1" + ")" * 20000 + " }}</domain>", ""),
    "elements nested deeply": ("<domain>" + "<a>" * 100000 + "</a>" * 100000 + "</domain>", ""),
    "another document": ("<network><name>{id}</name></network>", "domain"),
    "two documents": (f"{D}</domain>{D}</domain>", "malformed XML"),
    "no document": ("<", "malformed XML"),
    "a NUL": (f"{D}\0</domain>", ""),
    "text of another encoding": (f"<?xml version='1.0' encoding='UTF-16'?>{D}</domain>", ""),
    "namespaces undeclared": (f"{D}<a:b/></domain>", "malformed XML"),
    "the name of another": (D.replace("{id}", "../../etc/evil") + "</domain>", ""),
    "a name with an escape": (D.replace("{id}", "&#27;[31m") + "</domain>", ""),
    "a size of a million digits": (D.replace(">32<", f">{'9' * 1000000}<") + "</domain>", ""),
    "no template": ("../../etc/passwd", "packaged"),
}


def _bounded() -> None:
    """What a run on a host may take; past it, it dies by itself and the test says so."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT), int(LIMIT)))
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY, 4 * MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))


def _tree(host: Host) -> list[str]:
    """List the files of this host's folder that a run must not change."""
    places = [host.pool, host.folder / "etc", host.folder / "lib"]
    found = (path for place in places for path in place.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if "/qemu/channel" not in str(path) and "/storage" not in str(path))


@pytest.fixture(name="secret")
def fixture_secret(host: Host) -> pathlib.Path:
    """Create a file whose content must not appear anywhere."""
    path = host.scratch / "secret"
    path.write_text(SECRET)
    return path


def _check(host: Host, secret: pathlib.Path, before: list[str], vms: t.Any, word: str, params: dict[str, t.Any]) -> str | None:
    """Run the module; return the problem with its outcome, ``None`` if the input was refused as expected."""
    try:
        listed = isinstance(vms, list)
        options = {"state": "present", **({} if listed else {"vms_text": vms}), **params}
        outcome = host.begin(*(vms if listed else ()), prelude=_bounded, **options).wait(200)
    except (AssertionError, ValueError) as error:
        return str(error)[:200]
    if "TRACEBACK" in outcome.output or "Traceback" in outcome.output:
        return f"a traceback: {outcome.output[-300:]}"
    if outcome.code < 0:
        return f"killed by signal {-outcome.code}"
    if SECRET in outcome.output or (secret.parent / "secret.touched").exists():
        return "the secret was disclosed"
    message = outcome.message
    if outcome.ok:
        return "was accepted" if word else None if _tree(host) == before or not host.clear() else None
    if not message or len(message) > 20000:
        return f"a message of {len(message)} characters"
    if word and word.lower() not in message.lower():
        return f"does not name {word!r}: {message[:300]}"
    if any(ord(letter) < 32 and letter not in "\n\t" for letter in message):
        return f"control characters in its message: {message[:200]!r}"
    with host.libvirt() as there:
        if there.domains():
            return "left a domain"
    return None if _tree(host) == before else "left files"


def test_hostile_details_are_refused(host: Host, secret: pathlib.Path, add_row: AddRow) -> None:
    before = _tree(host)
    found = {name: _check(host, secret, before, vms, word, {}) for name, (vms, word) in DETAILS.items()}
    bad = {name: wrong for name, wrong in found.items() if wrong}
    assert not bad, "\n".join(f"{name}: {wrong}" for name, wrong in bad.items())
    add_row("hostile details", f"{len(found)} inputs", "refused with the path of the value, nothing changed")


def test_hostile_templates_are_refused_or_harmless(host: Host, secret: pathlib.Path, add_row: AddRow) -> None:
    before = _tree(host)
    found = {}
    for name, (template, word) in TEMPLATES.items():
        found[name] = _check(host, secret, before, [guest("victim", note="\x00")], word, {"template": template.replace("SECRETFILE", str(secret))})
        host.clear()
    bad = {name: wrong for name, wrong in found.items() if wrong}
    assert not bad, "\n".join(f"{name}: {wrong}" for name, wrong in bad.items())
    add_row("hostile templates", f"{len(found)} inputs", "refused with the line or harmless; no file read, no remains, no hang")


def test_hostile_names_of_pool_and_cluster_are_refused(host: Host, secret: pathlib.Path, add_row: AddRow) -> None:
    before = _tree(host)
    wrong = {
        f"{key} {value!r}"[:60]: problem
        for key in ("pool", "cluster", "template", "uri")
        for value in ("../../etc", "a\0b", "\x1b[2J", "x" * 100000, "'/><x/>")
        for problem in [_check(host, secret, before, [guest("victim", disks=[{"size": "2 MiB"}])], "", {key: value})]
        if problem
    }
    assert not wrong, wrong
    assert CLUSTER and os.listdir(host.pool) == ["images"]
    add_row("hostile names of pool, cluster, template, address", "20 inputs", "refused, nothing changed")
