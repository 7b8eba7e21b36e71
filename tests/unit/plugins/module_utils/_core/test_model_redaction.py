# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A canary in every place of a configuration that can contain a secret; other values are not masked."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import (
    MASK,
    display_passwords,
    hidden_values,
    masked,
    secret_texts,
    url_passwords,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction_text import mask_known, mask_text, redact

CANARY = "cAnArY/7+x"
KEY = "cAnArY" * 7 + "A="
NETPLAN, PROFILE, NETDEV = "/etc/netplan/x.yaml", "/etc/NetworkManager/system-connections/x.nmconnection", "/etc/systemd/network/x.netdev"

# path of the file, its text, and what has to stay readable
TEXTS = [
    (
        "/etc/network/interfaces",
        f"iface wlan0 inet dhcp\n\twpa-ssid home\n\twpa-psk {CANARY}\n\twireless-key s:{CANARY}\n\twpa-password {CANARY}\n",
        "wpa-ssid home",
    ),
    ("/etc/network/interfaces", f"iface x inet dhcp\n    wpa-psk \\\n    {CANARY}\n    mtu 9000\n", "mtu 9000"),
    (PROFILE, f"[wifi-security]\nkey-mgmt=wpa-psk\npsk={CANARY}\nwep-key0={CANARY}\nleap-password={CANARY}\n", "key-mgmt=wpa-psk"),
    (PROFILE, f"[wireguard]\nprivate-key={CANARY}\n[wireguard-peer.abc=]\npreshared-key={CANARY}\nendpoint=h:1\n", "endpoint=h:1"),
    (PROFILE, f"[vpn]\nuser=me\n[vpn-secrets]\nanything at all={CANARY}\n[ipv4]\nmethod=auto\n", "method=auto"),
    (PROFILE, f"[802-1x]\nidentity=me\npassword={CANARY}\nprivate-key-password={CANARY}\npin={CANARY}\n[macsec]\nmka-cak={CANARY}\n", "identity=me"),
    (NETDEV, f"[NetDev]\nName=wg0\n[WireGuard]\nPrivateKey={CANARY}\n[WireGuardPeer]\nPresharedKey = {CANARY}\nEndpoint=h:1\n", "Endpoint=h:1"),
    (NETDEV, f"[MACsecTransmitAssociation]\nKey={CANARY}\nKeyId=1\n", "KeyId=1"),
    (NETPLAN, f"network:\n  wifis:\n    w: {{access-points: {{home: {{password: '{CANARY}, }} b', mode: ap}}}}, mtu: 9000}}\n", "mtu: 9000"),
    (
        NETPLAN,
        f"network:\n  wifis:\n    w:\n      access-points:\n        home:\n          auth:\n            password: >-\n"
        f"              a\n              {CANARY}\n      mtu: 9000\n",
        "mtu: 9000",
    ),
    (
        NETPLAN,
        f"tunnels:\n  wg0:\n    key: {CANARY}\n    peers:\n    - keys:\n        public: x\n        shared: {CANARY}\n      endpoint: h:1\n",
        "endpoint: h:1",
    ),
    (NETPLAN, f'password: "a\n  {CANARY}"\nmtu: 9000\n', "mtu: 9000"),
    (NETPLAN, f"password: a\n  {CANARY}\nmtu: 9000\n", "mtu: 9000"),
    (
        "/etc/fuel/astute.yaml",
        f"FUEL_ACCESS:\n  password: {CANARY}\n  user: admin\npostgres: {{keystone_password: {CANARY}}}\nmetadata_proxy_shared_secret: {CANARY}\n",
        "user: admin",
    ),
    ("/etc/bind/named.conf", f'key "rndc" {{ algorithm hmac-sha256; secret "{CANARY}"; }};\nzone "x" {{}};\n', "algorithm hmac-sha256"),
    ("/etc/dhcp/dhcpd.conf", f"key omapi {{\n  algorithm hmac-md5;\n  secret {CANARY};\n}};\nmax-lease-time 7200;\n", "max-lease-time 7200"),
    (
        "/etc/wpa_supplicant/w.conf",
        f'network={{\n  ssid="home"\n  psk="{CANARY}"\n  sae_password="{CANARY}"\n  private_key_passwd="{CANARY}"\n}}\n',
        'ssid="home"',
    ),
    ("/etc/sysconfig/network-scripts/ifcfg-w", f"WPA_PSK='{CANARY}'\nIEEE_8021X_PASSWORD=\"{CANARY}\"\nDEVICE=w\n", "DEVICE=w"),
    ("/etc/sysconfig/network-scripts/ifcfg-w", f'PASSWORD="a\n{CANARY}"\nDEVICE=w\n', "DEVICE=w"),
    ("/etc/fstab", f"//nas/x /mnt cifs username=me,password={CANARY} 0 0\nproc /proc proc defaults 0 0\n", "proc /proc proc"),
    ("/etc/fstab", f"https://me:{CANARY}@dav/x /mnt davfs rw 0 0\n", "@dav/x /mnt davfs"),
    ("/etc/default/grub", "password_pbkdf2 root grub.pbkdf2.sha512.10000.cAnArY7.AB\n", "password_pbkdf2"),
    ("", f"url=amqp://rabbit:{CANARY}@192.0.2.1:5672/v,amqp://rabbit:{CANARY}@192.0.2.2:5672/v\n", "amqp://rabbit:"),
    ("", f"user:$6$salt${CANARY}:1\n", "user:"),
    ("", f"a\n-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n{CANARY}\n-----END RSA PRIVATE KEY-----\nb\n", "\nb\n"),
    ("", f'key: "-----BEGIN PRIVATE KEY-----\\n{CANARY}\\n-----END PRIVATE KEY-----\\n"\n', "key:"),
    ("", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n", "BEGIN OPENSSH"),
    ("", f"up wg set wg0 peer x preshared {KEY}\n", "up wg set"),
    ("", f'{{"password": "{CANARY}", "user": 1}}\n', '{"password"'),
    ("", f"export OS_PASSWORD={CANARY}; export OS_USER=x\n", "export OS_PASSWORD="),
    ("/etc/glance/glance-api.conf", f"[s3]\ns3_store_access_key = {CANARY}\nbindpw = {CANARY}\nbucket = b\n", "bucket = b"),
    (
        "/etc/keystone/keystone.conf",
        f"[ldap]\npassword = {CANARY}\n[token]\nmax_active_keys = 3\npassword_min_length = 7\n",
        "active_keys = 3\npassword_min_length = 7",
    ),
    ("", f"db_pwd={CANARY}\ncreds: {CANARY}\npw: {CANARY}\nAuthorization: Bearer {CANARY}\nkeystone_tokens_expiry: 1h\n", "keystone_tokens_expiry: 1h"),
    ("", f"password_min_length: 8, password: {CANARY}\n", "password_min_length: 8, password: "),
    ("/etc/libvirt/qemu.conf", f'vnc_password = "{CANARY}"\nspice_password="{CANARY}"\nvnc_listen = "x"\n', 'vnc_listen = "x"'),
    ("", f"snmp community: {CANARY}\n", "snmp"),
    ("", f"api-key := {CANARY}\n", "api-key"),
]


@pytest.mark.parametrize("path, text, kept", TEXTS)
def test_secrets_are_masked_and_other_text_is_kept(path, text, kept):
    shown = mask_text(text, path)
    assert "cAnArY" not in shown and MASK in shown
    assert kept in shown
    assert mask_text(shown, path) == shown
    # a file of unknown format is masked as well
    assert CANARY not in mask_text(text) or path in (NETPLAN, PROFILE, NETDEV)


@pytest.mark.parametrize(
    "path, text",
    [
        ("/etc/network/interfaces", "iface eno1 inet static\n  address 192.0.2.2/24\n  hwaddress ether 02:ab:00:00:00:02\n  # no passthrough\n"),
        (NETPLAN, "network:\n  ethernets:\n    eno1: {match: {macaddress: 02:ab:00:00:00:02}, addresses: [192.0.2.2/24]}\n"),
        (PROFILE, "[ethernet]\ncloned-mac-address=02:ab:00:00:00:02\n[wifi-security]\nkey-mgmt=wpa-eap\n"),
        ("", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI me@x\nhttp://host:80/a@b\n"),
        ("/etc/fstab", "UUID=0b1c2d3e-1111-4222-8333-444455556666 / ext4 defaults 0 1\n"),
    ],
)
def test_other_values_are_kept(path, text):
    assert mask_text(text, path) == text


def test_a_yaml_file_that_cannot_be_parsed_is_masked_as_a_whole(monkeypatch):
    assert mask_text("a: b: c\n", NETPLAN) == MASK
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert mask_text("mtu: 9000\n", NETPLAN) == MASK


def test_values_below_a_secret_name_are_masked():
    given_details = {"id": "a", "vnc_password": CANARY, "cpu_pin": "0-3", "keys": [{"a": CANARY}, CANARY], "bmc": {"pass": "ab", "user": "root"}}
    assert masked(given_details) == {"id": "a", "vnc_password": MASK, "cpu_pin": "0-3", "keys": [{"a": MASK}, MASK], "bmc": {"pass": MASK, "user": "root"}}
    # what is shorter would be found in every other word
    assert secret_texts(given_details) == {CANARY}


def test_secrets_of_parameters_are_found():
    assert url_passwords([{"url": "https://me:sesame@h:1/x"}, "http://h:80/a@b", 3]) == {"sesame"}
    assert display_passwords("<graphics passwd='one'/><graphics passwd = \"two\"/><graphics passwd='{{ three }}'/>") == {"one", "two"}
    assert hidden_values('[{"secret": "sesame"}]') == {"sesame"} and hidden_values("[") == hidden_values(None) == set()


LINES = st.lists(
    st.one_of(st.text(max_size=30), st.sampled_from(["password: |", "psk=\\", 'secret "', "  - key: {", "-----BEGIN X-----", "[vpn-secrets]", "a: 'b"])),
    max_size=8,
)


@given(LINES, st.sampled_from(["", NETPLAN, PROFILE]))
def test_arbitrary_text_is_accepted(lines, path):
    shown = mask_text("\n".join(lines), path)
    assert mask_text(shown, path).count("\n") <= shown.count("\n")


@given(st.sampled_from([entry for entry in TEXTS if entry[1].count(CANARY)]), st.text("abcXYZ019._~-", min_size=8, max_size=20))
def test_masking_does_not_depend_on_the_canary(entry, secret):
    path, text, _kept = entry
    assert f"q{secret}q" not in mask_text(text.replace(CANARY, f"q{secret}q"), path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("secret_key = load('abcdefgh'ijk)", "secret_key = ********"),
        ("password=abcdefgh-ijk", "password=********"),
        ("{user: a, password: abcdefghijk, port: 1}", "{user: a, password: ********, port: 1}"),
    ],
)
def test_the_rest_of_a_value_whose_begin_is_a_known_secret_is_masked(text, shown):
    assert redact(text, ["load('abcdefgh'", "abcdefgh"]) == shown


def test_names_in_escaped_json_are_recognised():
    assert mask_text(r'update("{\"password\": \"hunter22\"}")') == r'update("{\"password\": ********'


def test_known_secrets_alone_are_masked():
    assert mask_known("password = other, known1234, abcd, abcde, 5432", ["known1234", "abcd", "5432"]) == "password = other, ********, ********, abcde, 5432"
    assert mask_known("as it is", []) == "as it is"
