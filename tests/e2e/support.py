# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Operations of the end-to-end tests on the lab."""

from __future__ import annotations

import json
import subprocess
import time
import typing as t
import urllib.request

import pymysql
from rflab.plays import REPOSITORY, PlayRun, environment, play
from rflab.settings import current

LOGS = REPOSITORY / "tests" / "output" / "e2e"


class Lab:
    """The running lab: its command, its machines, its playbooks."""

    def __init__(self) -> None:
        self.settings = current()
        self.state = self.settings.state
        self.net = self.settings.net
        self.master = f"{self.net}.2"
        self.virtual_address = f"{self.net}.20"
        self._plays = 0

    def command(self, *arguments: str) -> str:
        """Run a command of ``lab/lab``."""
        done = subprocess.run([str(REPOSITORY / "lab" / "lab"), *arguments], stdout=subprocess.PIPE, encoding="utf-8", check=False)
        assert done.returncode == 0, f"lab {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}"
        return done.stdout

    def ssh(self, host: str, *command: str, check: bool = True, stdin: str = "") -> str:
        """Run a command on a machine by name (servers) or address (virtual machines)."""
        done = subprocess.run([str(REPOSITORY / "lab" / "lab"), "ssh", host, *command], capture_output=True, encoding="utf-8", check=False, input=stdin)
        assert not check or done.returncode == 0, f"ssh {host} {command}: {done.stdout} {done.stderr}"
        return done.stdout

    def play(self, name: str, *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook of the collection; its output is kept under tests/output/e2e."""
        self._plays += 1
        log = LOGS / f"{self._plays:02d}-{name}.log"
        playbook = name if name.endswith(".yml") else f"reduced.footprint.{name}"
        return play(playbook, *arguments, log=log, **options)

    def succeeds(self, name: str, *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook; it must succeed."""
        done = self.play(name, *arguments, **options)
        assert done.rc == 0, f"{name} failed:\n{done.output[-6000:]}"
        return done

    def unchanged(self, name: str, *arguments: str) -> None:
        """Run a playbook a second time, and in check mode: neither may change anything."""
        again = self.succeeds(name, *arguments)
        assert again.changed == 0, f"{name} changed on its second run: {again.changed_tasks()}"
        checked = self.succeeds(name, "--check", "--diff", *arguments)
        assert checked.changed == 0, f"{name} would change in check mode: {checked.changed_tasks()}"

    def fails(self, name: str, *arguments: str, words: t.Sequence[str]) -> PlayRun:
        """Run a playbook; it must fail and print all of ``words``."""
        done = self.play(name, *arguments)
        assert done.rc != 0, f"{name} {arguments} did not fail"
        missing = [word for word in words if word not in done.output]
        assert not missing, f"{name} does not say {missing}:\n{done.output[-4000:]}"
        return done

    def no_key_left(self, source: str = "laptop") -> None:
        """Check that a finished migration left its key on neither machine and no fence around the VM."""
        assert "reduced.footprint-migrate" not in self.ssh(source, "cat", "/root/.ssh/authorized_keys")
        left = self.ssh("metal1", "find /var/lib/reduced.footprint/migrations -name 'id_*' -o -name 'known_hosts*'")
        left += self.ssh("metal1", "nft list tables bridge; ls /etc/systemd/system | grep fence", check=False)
        assert left.strip() == "", left

    def writer(self) -> dict[str, t.Any]:
        """Return the report of the writer: rows acknowledged, gaps, rows lost."""
        return json.loads(self.command("writer", "report", self.master))

    def inventory(self) -> dict[str, t.Any]:
        """Return the inventory with all host variables."""
        done = subprocess.run(
            [str(REPOSITORY / ".venv" / "bin" / "ansible-inventory"), "-i", str(self.state / "inventory"), "--list"],
            env=environment(), capture_output=True, encoding="utf-8", check=True,
        )
        return json.loads(done.stdout, object_hook=lambda value: value.get("__ansible_unsafe", value))

    def address(self, name: str) -> str:
        """Return the address of a host of the inventory."""
        return self.inventory()["_meta"]["hostvars"][name]["ansible_host"]

    def killed(self, name: str, *arguments: str, kill_at: str, kill_delay: float = 0) -> None:
        """Run a playbook and kill it with signal 9 when it starts a task."""
        done = self.play(name, *arguments, kill_at=kill_at, kill_delay=kill_delay)
        assert done.rc < 0, f"{name} never came to {kill_at!r}, or ended before it was killed:\n{done.output[-3000:]}"

    def state_of(self, *names: str) -> set[str]:
        """Return what a play could change on machines, as lines: packages, units, network, configuration, images."""
        # find ends with an error where one of its folders is not there
        return {f"{name}: {line}" for name in names for line in self.ssh(name, FINGERPRINT, check=False).splitlines()}

    def sql(self, statement: str, user: str = "app", database: str = "app") -> list[tuple[t.Any, ...]]:
        """Run a statement through the virtual address, as a client of the cluster."""
        password = (self.state / "app-password").read_text(encoding="utf-8").split()[0]
        return sql(statement, host=self.virtual_address, user=user, password=password, database=database)

    def status(self) -> dict[str, t.Any]:
        """Return the report of the status playbook, also if a service is unhealthy."""
        report, page = self.state / "status.json", self.state / "status.html"
        report.unlink(missing_ok=True)
        page.unlink(missing_ok=True)
        done = self.play("status", "-e", f"status_report_file={report}", "-e", f"status_html_file={page}")
        assert report.exists() and page.exists(), done.output[-3000:]
        return json.loads(report.read_text(encoding="utf-8"))

    def health(self) -> dict[str, t.Any]:
        """Return the answer of the API of the master."""
        with urllib.request.urlopen(f"http://{self.master}:8080/health", timeout=3) as answer:
            return json.load(answer)

    def writing(self) -> bool:
        """Whether rows are being acknowledged now."""
        before = self.writer()["rows_acked"]
        time.sleep(2)
        return self.writer()["rows_acked"] > before


FINGERPRINT = (
    "(dpkg-query -W; systemctl list-units --all --plain --no-legend --type=service --state=active | cut -d' ' -f1; ip -o link | cut -d: -f2;"
    " ip -o -4 addr | grep -v dynamic | cut -d' ' -f2-7; find /etc /var/lib/libvirt /var/lib/reduced.footprint /root/.ssh -xdev"
    " -not -path '*/ssl/*' -not -path '*-disk[0-9]/*' -not -name '*.lease*' -not -name '*.db*' -type f -printf '%p %s %T@\\n' 2>/dev/null)"
)


def sql(statement: str, host: str, user: str, password: str, database: str) -> list[tuple[t.Any, ...]]:
    """Run a statement over the network."""
    limits = {"connect_timeout": 3, "read_timeout": 5, "write_timeout": 5}
    connection = pymysql.connect(host=host, user=user, password=password, database=database, autocommit=True, **limits)
    with connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def eventually(what: str, true: t.Callable[[], bool], seconds: float = 120) -> float:
    """Wait until a condition is met; return the seconds that took."""
    began = time.monotonic()
    last: BaseException | None = None
    while time.monotonic() - began < seconds:
        try:
            if true():
                return time.monotonic() - began
        except (AssertionError, OSError, pymysql.Error, KeyError, ValueError) as error:
            last = error
        time.sleep(1)
    raise AssertionError(f"{what}: not within {seconds} s ({last!r})")
