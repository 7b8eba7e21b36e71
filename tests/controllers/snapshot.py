# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A diagnostic snapshot of the controllers and of a host that is dead."""

from __future__ import annotations

import pathlib
import tarfile
import time
import typing as t

from controllers_lab import SERVERS, ControllersLab


def without_secrets(lab: ControllersLab, tmp_path: pathlib.Path) -> dict[str, int]:
    """Plant secrets in the journals, check that none is in the archive or the output, and return its figures."""
    known = {"of the inventory": f"Canary{time.time_ns()}"}
    for path in (lab.inventory_path / ".secrets").rglob("metal*.pem.txt"):
        # the first line is the same in all keys
        known[path.name] = path.read_text("ascii").partition("PRIVATE KEY-----\n")[2].splitlines()[1]
    assert len(known) == 4 and all(len(text) > 8 for text in known.values())
    for name in SERVERS:
        lab.ssh(name, "logger -p user.err", stdin="".join(f"shown-in-journal {text}\n" for text in known.values()))
    dead = {"ansible_host": f"{lab.net}.250", "shop_password": known["of the inventory"]}
    lab.write_inventory(groups={"controller": SERVERS, "spare": ["dead"]}, hosts={"dead": dead})
    try:
        done = lab.play("diagnostic_snapshot", "-vvv", variables={"diagnostic_snapshot_directory": str(tmp_path), "diagnostic_snapshot_hours": 2})
    finally:
        lab.write_inventory()
    assert done.rc == 0 and "NO ANSWER dead: does not answer" in done.output, done.output[-3000:]
    (path,) = tmp_path.glob("*-diagnostic.tar.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        texts = {member.name.partition("/")[2]: t.cast(t.IO[bytes], archive.extractfile(member)).read().decode() for member in archive}
    for name in SERVERS:
        settings = "configuration/etc/mysql/mariadb.conf.d/70-footprint-galera.cnf"
        wanted = ("journals/mariadb.service.txt", settings, "network/listeners.txt", "cluster/galera.txt")
        assert [each for each in wanted if len(texts.get(f"{name}/{each}", "")) < 50] == []
        assert texts[f"{name}/journals/errors.txt"].count("shown-in-journal ********\n") >= len(known)
        assert '"galera"' in texts[f"{name}/status.json"]
    assert texts["dead/no-answer.txt"] == "does not answer\n"
    whole = done.output + "".join(texts.values())
    assert [name for name, text in known.items() if text in whole] == []
    return {"seconds": round(done.seconds), "bytes": path.stat().st_size, "texts": len(texts), "texts_bytes": sum(map(len, texts.values()))}
