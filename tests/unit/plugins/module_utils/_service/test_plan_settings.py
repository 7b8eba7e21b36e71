# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of configuration files of OpenStack, and what cannot be written into one."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service.plan_settings import text_of


@pytest.mark.parametrize(
    "settings, text",
    [
        ({}, ""),
        ({"DEFAULT": {}}, ""),
        ({"b": {"y": 1}, "DEFAULT": {"b": True, "A": 1.5}}, "\n[DEFAULT]\nA = 1.5\nb = True\n\n[b]\ny = 1\n"),
        # Nova takes this option several times
        ({"pci": {"device_spec": ['{"address": "a"}', '{"address": "b"}']}}, '\n[pci]\ndevice_spec = {"address": "a"}\ndevice_spec = {"address": "b"}\n'),
        ({"DEFAULT": {"my_block_storage_ip": "$my_ip", "log_dir": " /var/log \n"}}, "\n[DEFAULT]\nlog_dir = /var/log\nmy_block_storage_ip = $my_ip\n"),
        ({"DEFAULT": {"empty": ""}}, "\n[DEFAULT]\nempty =\n"),
    ],
)
def test_text(settings: t.Any, text: str) -> None:
    assert text_of(settings) == text


@pytest.mark.parametrize("name", ["password", "rabbit_password", "metadata_proxy_shared_secret", "memcache_secret_key"])
@pytest.mark.parametrize(
    "given, written",
    # what oslo.config reads as the given one; $word ends a service that has no such option
    [("pa$word", "pa$$word"), ("pa$$word", "pa$$$$word"), ("a\\$b", "a\\\\$b"), ("a\\$$b", "a\\\\$$$b"), ("a#b;c=%d{", "a#b;c=%d{"), ('"a', '"a')],
)
def test_secrets_are_read_as_they_are(name: str, given: str, written: str) -> None:
    assert text_of({"keystone_authtoken": {name: given}}) == f"\n[keystone_authtoken]\n{name} = {written}\n"


@pytest.mark.parametrize(
    "settings, path, message",
    [
        ([], "nova_settings", "expected a mapping, got a list"),
        ({"DEFAULT": True}, "nova_settings.DEFAULT", "expected a mapping, got a boolean"),
        ({"DEFAULT": {"debug": None}}, "nova_settings.DEFAULT.debug", "got nothing"),
        ({"DEFAULT": {"debug": {"a": 1}}}, "nova_settings.DEFAULT.debug", "got a mapping"),
        ({"DEFAULT": {"debug": [1, None]}}, "nova_settings.DEFAULT.debug[1]", "got nothing"),
        ({"a]\n[b": {"c": 1}}, "nova_settings.a]\n[b", "not a valid name of a section"),
        ({"a": {"b = 1\nc": 1}}, "nova_settings.a.b = 1\nc", "not a valid name of an option"),
        ({"DEFAULT": {"debug": "true\nuse_syslog = true"}}, "nova_settings.DEFAULT.debug", "line break"),
        ({"a": {"password": "secret\n"}}, "nova_settings.a.password", "line break"),
        ({"a": {"password": " secret"}}, "nova_settings.a.password", "begins and ends"),
        ({"a": {"password": '"secret"'}}, "nova_settings.a.password", "begins and ends"),
        ({"a": {"password": "'"}}, "nova_settings.a.password", "begins and ends"),
    ],
)
def test_what_cannot_be_written(settings: t.Any, path: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        text_of(settings, "nova_settings")
    assert error.value.path == path and message in error.value.message and error.value.hint
    assert "secret" not in str(error.value)
