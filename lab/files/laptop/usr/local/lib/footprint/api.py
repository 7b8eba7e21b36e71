"""The master's small HTTP API: /health and /leases."""

import http.server
import json
import os
import socket

import pymysql

LEASES = "/var/lib/misc/dnsmasq.leases"


def health():
    """Who answers, and how many rows the database holds."""
    with open("/etc/machine-id", encoding="ascii") as stream:
        machine_id = stream.read().strip()
    answer = {"hostname": socket.gethostname(), "machine_id": machine_id, "rows": None}
    try:
        connection = pymysql.connect(unix_socket="/run/mysqld/mysqld.sock", user="footprint-api",
                                     database="footprint", connect_timeout=2, read_timeout=5)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM events")
                answer["rows"] = cursor.fetchone()[0]
        finally:
            connection.close()
    except (pymysql.MySQLError, OSError) as error:
        answer["error"] = str(error)
        return 503, answer
    return 200, answer


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            code, answer = health()
            self.reply(code, "application/json", json.dumps(answer).encode() + b"\n")
        elif self.path == "/leases":
            try:
                with open(LEASES, "rb") as stream:
                    self.reply(200, "text/plain", stream.read())
            except FileNotFoundError:
                self.reply(200, "text/plain", b"")
        else:
            self.reply(404, "text/plain", b"try /health or /leases\n")

    def reply(self, code, kind, body):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    where = (os.environ["FOOTPRINT_API_ADDRESS"], int(os.environ.get("FOOTPRINT_API_PORT", "8080")))
    http.server.ThreadingHTTPServer(where, Handler).serve_forever()
