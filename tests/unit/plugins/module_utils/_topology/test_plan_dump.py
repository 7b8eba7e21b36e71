# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a dump of settings shows and what it hides."""

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import redact
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_dump import (
    MASK,
    brings_secret,
    is_secret,
    origin,
    secrets_in,
    shield,
)


@pytest.mark.parametrize(
    "name",
    "password galera_sst_password root_passwd ssh_passphrase db_pass PASS metadata_proxy_secret secrets secret_key api_key keys key private_key privateKey"
    " fernet_key erlang_cookie credential vault_credentials auth_token keystone_admin_token bind_pin load_balancer_private_key"
    " db_pwd dbPwd pwd creds db_creds cred pw bindpw root_pw bearer bearer_value dbpass userPass jwt otp basic_auth authorization pincode".split(),
)
def test_names_of_secrets(name):
    assert is_secret(name, "x")


HARMLESS = "user name passive bypass_checks compass key_directory private_key_file token_provider keyboard monkey fernet_keys_directory".split()
HARMLESS += "password_min_length keystone_tokens_expiry token_ttl password_regex password_expires_days minimum_password_age pwd_max_age".split()
HARMLESS += "memcache_security_strategy password_hash_algorithm password_hash_rounds bypass encompass sacred hotplug auth_type pinned_cpus".split()
NO_TEXT = [("token_expiration", 3600), ("key", 7), ("no_password", True), ("password", ""), ("password", None), ("password_length", 32)]


@pytest.mark.parametrize("name, value", [*((name, "x") for name in HARMLESS), *NO_TEXT, ("footprint_secrets", "/x")])
def test_names_of_what_is_none(name, value):
    assert not is_secret(name, value)


def test_a_password_of_digits_is_one():
    assert is_secret("password", 12345)


@pytest.mark.parametrize(
    "text, brings",
    [
        ("{{ lookup('reduced.footprint.secret', 'a') }}", True),
        ("{{ query( \"ansible.builtin.password\", x) | first }}", True),
        ("{{ q('env', 'X') }}", True),
        ("{{ lookup(some_variable, 'X') }}", True),
        ("{{ lookup('vars', lookup('file', 'x')) }}", True),
        ("{{ lookup('reduced.footprint.address', 'rpc') }}:{{ lookup('vars', 'x') }}", False),
        ("{{ a | default('b') }}", False),
        ("no lookup", False),
    ],
)
def test_lookups_that_may_bring_secrets(text, brings):
    assert brings_secret(text) is brings


class Vaulted(str):
    pass


def test_secrets_are_shielded_wherever_they_stand():
    given = {
        "users": [{"name": "app", "password": "p1", "privileges": ["ALL"]}, {"name": "b"}],
        "secrets": {"a": ["x", {"b": "y"}], "on": True, "none": None},
        "keys": ["k1", "k2"],
        "deep": {"deeper": [{"api_key": "z"}]},
        "url": "{{ lookup('file', 'x') }}",
        "kept": "{{ other }}",
        "vaulted": Vaulted("v"),
        "number": 1,
    }
    assert shield(given, "", lambda value: isinstance(value, Vaulted)) == {
        "users": [{"name": "app", "password": MASK, "privileges": ["ALL"]}, {"name": "b"}],
        "secrets": {"a": [MASK, {"b": MASK}], "on": True, "none": None},
        "keys": [MASK, MASK],
        "deep": {"deeper": [{"api_key": MASK}]},
        "url": MASK,
        "kept": "{{ other }}",
        "vaulted": MASK,
        "number": 1,
    }
    plain = {"a": [{"b": 1}]}
    assert shield(plain) is plain


def test_known_secrets_are_masked_in_texts():
    given = {"users": [{"password": "longsecret"}, {"password": "{{ x }}"}], "password": "abc", "db": {"token": "word", "n": "plain"}}
    given["secrets"] = {"x": "deeply"}
    assert sorted(secrets_in(given)) == ["deeply", "longsecret", "word"]
    shown = {"url": "amqp://u:longsecret@h/word/words", "list": ["xlongsecretx", 7], "word": "password"}
    assert redact(shown, secrets_in(given)) == {"url": f"amqp://u:{MASK}@h/{MASK}/words", "list": [f"x{MASK}x", 7], "word": "password"}
    assert redact(shown["list"], []) == shown["list"]


@pytest.mark.parametrize(
    "path, given, found",
    [
        (("region",), True, "user"),
        (("heat", "options", "b"), True, "nodes.n1"),
        (("heat", "options", "kept"), True, "component"),
        (("heat", "list"), True, "inventory"),
        (("heat", "retries"), False, "component"),
        (("heat", "whole", "x"), True, "user"),
    ],
)
def test_where_a_value_comes_from(path, given, found):
    assert origin(path, {"region": "user", "heat.options.b": "nodes.n1", "heat.whole": "user"}, given) == found


def test_what_gives_itself_away_is_masked_without_being_known():
    given = {"endpoint": "https://me:sesame@host/v3", "snippet": "[a]\npassword = sesame\n"}
    given["pem"] = ("-----BEGIN RSA PRIVATE KEY-----\nsesame\n-----END RSA PRIVATE KEY-----")
    assert "sesame" not in str(redact(given, []))
    assert redact({"url": "https://host:5000/v3", "number": 3}, []) == {"url": "https://host:5000/v3", "number": 3}
