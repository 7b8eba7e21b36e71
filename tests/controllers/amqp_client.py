# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of RabbitMQ as OpenStack's services are: it publishes numbered messages to a quorum queue and waits for each confirmation.

It runs on a machine of the lab with python3-amqp. ``client.py publish`` writes what was confirmed to a file until it is
killed, ``client.py consume`` takes all messages and prints their numbers, ``client.py login`` only logs in. Its settings, with
the password in them, come from a file. ``AMQP_SETTINGS`` and ``AMQP_CONFIRMED`` name other files, for a client on the machine of the lab.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import ssl
import sys
import time

import amqp  # pylint: disable=import-error

SETTINGS = json.loads(pathlib.Path(os.environ.get("AMQP_SETTINGS", "/run/amqp-client.json")).read_text("utf-8"))
CONFIRMED = pathlib.Path(os.environ.get("AMQP_CONFIRMED", "/run/amqp-confirmed.jsonl"))


def connect(host: str) -> amqp.Connection:
    connection = amqp.Connection(
        host=f"{host}:5671", ssl={"ca_certs": SETTINGS["ca"], "cert_reqs": ssl.CERT_REQUIRED, "server_hostname": host},
        userid=SETTINGS["user"], password=SETTINGS["password"], virtual_host=SETTINGS["vhost"],
        confirm_publish=True, connect_timeout=3, read_timeout=5, write_timeout=5,
    )
    connection.connect()
    return connection


def declare(channel: amqp.Channel) -> None:
    channel.queue_declare(queue=SETTINGS["queue"], durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})


def publish() -> None:
    """One message after the other, through whichever member answers."""
    hosts = itertools.cycle(SETTINGS["hosts"])
    number, declared = 0, False
    with CONFIRMED.open("a", encoding="ascii") as log:
        while True:
            host = next(hosts)
            try:
                connection = connect(host)
                channel = connection.channel()
                if not declared:
                    declare(channel)
                    declared = True
                while True:
                    number += 1
                    channel.basic_publish(amqp.Message(str(number), delivery_mode=2), exchange="", routing_key=SETTINGS["queue"], confirm_timeout=5)
                    log.write(json.dumps({"n": number, "t": time.time(), "host": host}) + "\n")
                    log.flush()
                    time.sleep(0.05)
            # a refusal too: the message is published once more by another number
            except (OSError, amqp.exceptions.AMQPError, amqp.exceptions.MessageNacked) as error:
                print(f"{time.time():.3f} {host}: {error!r}", file=sys.stderr, flush=True)
                time.sleep(0.2)


def consume() -> None:
    """All messages there are, each once."""
    channel = connect(SETTINGS["hosts"][0]).channel()
    while True:
        message = channel.basic_get(SETTINGS["queue"], no_ack=False)
        if message is None:
            return
        print(message.body)
        channel.basic_ack(message.delivery_tag)


if __name__ == "__main__":
    if sys.argv[1] == "login":
        connect(sys.argv[2]).close()
    else:
        {"publish": publish, "consume": consume}[sys.argv[1]]()
