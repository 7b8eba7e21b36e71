# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dashboard of a cloud in a real browser: Chromium without a screen, which trusts only the authority of the cloud."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import time
import types
import typing as t

from rflab.prepare import prepare
from rflab.settings import REPO

SELENIUM = "selenium>=4.20,<5"
#: Command → Debian package.
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver", "certutil": "libnss3-tools"}
#: Seconds for a page. Its first one is slow.
PAGE = 60


def packages() -> str:
    """Return the directory of selenium, installed at the first call with the browser."""
    prepare(PROGRAMS)
    home = REPO / ".cache" / "venv-browser"
    if not (home / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", SELENIUM], check=True)
        (home / "ready").touch()
    (found,) = home.glob("lib/python3*/site-packages")
    return str(found)


class Dashboard:
    """One browser with an empty profile.

    :arg address: the virtual address.
    :arg authority: the certificate that the browser trusts; a page with another one is not shown.
    :arg home: directory for its profile.
    :arg pictures: directory for pictures of pages.
    """

    def __init__(self, address: str, authority: pathlib.Path, home: pathlib.Path, pictures: pathlib.Path) -> None:
        sys.path.append(packages())
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        self.url, self.pictures = f"https://{address}", pictures
        pictures.mkdir(parents=True, exist_ok=True)
        store = home / ".pki" / "nssdb"
        store.mkdir(parents=True)
        for words in (("-N", "--empty-password"), ("-A", "-n", "cloud", "-t", "C,,", "-i", str(authority))):
            subprocess.run(["certutil", "-d", f"sql:{store}", *words], check=True, capture_output=True)
        options = webdriver.ChromeOptions()
        # as root, Chromium has no sandbox; the pages are those of the lab
        words = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1400,1000")
        for word in (*words, f"--user-data-dir={home}/profile"):
            options.add_argument(word)
        options.binary_location = "/usr/bin/chromium"
        service = Service("/usr/bin/chromedriver", env={"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(2 * PAGE)

    def __enter__(self) -> t.Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if error:
            self.picture("failure")
        self.driver.quit()

    def picture(self, name: str) -> None:
        self.driver.save_screenshot(str(self.pictures / f"dashboard-{name}.png"))

    def wait(self, title: str, condition: t.Callable[[], t.Any], seconds: float = PAGE) -> t.Any:
        """Return the first true result of a condition; an element that the page has just replaced is looked for again.

        :raises AssertionError: none in time.
        """
        from selenium.common.exceptions import WebDriverException

        until = time.monotonic() + seconds
        seen: t.Any = None
        while time.monotonic() < until:
            try:
                if seen := condition():
                    return seen
            except WebDriverException as error:
                seen = error
            time.sleep(0.5)
        raise AssertionError(f"no {title} after {seconds:.0f} s: {seen}")

    def find(self, selector: str, text: str = "") -> t.Any:
        """Return the first visible element of a CSS selector that contains a text."""

        def look() -> t.Any:
            found = self.driver.find_elements("css selector", selector)
            return next((one for one in found if one.is_displayed() and text in one.text), None)

        return self.wait(f"{selector} with {text!r}", look)

    def click(self, selector: str, text: str = "") -> None:
        def clicked() -> bool:
            self.find(selector, text).click()
            return True

        self.wait(f"click on {selector} with {text!r}", clicked)

    def log_in(self, user: str, password: str) -> None:
        self.driver.get(self.url)
        self.find("#id_username").send_keys(user)
        self.find("#id_password").send_keys(password)
        self.picture("login")
        self.click("#loginBtn")
        self.wait("page after the login", lambda: "/auth/login" not in self.driver.current_url)

    def launch(self, name: str, image: str, flavor: str, network: str) -> None:
        """Create an instance with the wizard."""
        self.driver.get(f"{self.url}/project/instances/")
        self.click("#instances__action_launch-ng")
        self.find(".ng-wizard input[name=name]").send_keys(name)
        for step, choice in (("Source", image), ("Flavor", flavor), ("Networks", network)):
            self.click(".ng-wizard .nav-item", step)
            self.choose(choice)
        self.picture("wizard")
        self.click(".ng-wizard button.finish")
        self.wait("row of the instance", lambda: self.rows(name))

    def choose(self, name: str) -> None:
        """Move a row of the shown step from the available ones to the chosen ones, unless it was chosen already."""

        def chosen() -> bool:
            for part in ("allocated", "available"):
                for row in self.driver.find_elements("css selector", f".ng-wizard .transfer-{part} tr"):
                    if row.is_displayed() and name in row.text.split():
                        if part == "allocated":
                            return True
                        row.find_element("css selector", "action-list button, button.btn").click()
            return False

        self.wait(f"choice of {name}", chosen)

    def rows(self, name: str) -> list[str]:
        """Return the texts of the rows of an instance in the table that is shown."""
        return [row.text for row in self.driver.find_elements("css selector", "#instances tbody tr") if name in row.text.split()]

    def delete(self, name: str) -> None:
        """Delete an instance in the table; return when it has no row any more."""
        self.driver.get(f"{self.url}/project/instances/")
        for row in self.wait("row of the instance", lambda: self.driver.find_elements("css selector", "#instances tbody tr")):
            if name in row.text.split():
                row.find_element("css selector", "input[type=checkbox]").find_element("xpath", "..").click()
        self.click("#instances__action_delete")
        self.click(".modal-dialog .btn-danger")
        self.wait("end of the instance", lambda: not self.rows(name), 120)

    def console(self, name: str) -> str:
        """Open the console of an instance; return the status that it shows once it has a picture."""
        link = self.find("#instances a", name).get_attribute("href")
        self.driver.get(f"{link}?tab=instance_details__console")
        self.driver.switch_to.frame(self.find("iframe#console_embed"))
        try:
            return str(self.wait("picture of the console", self.connected))
        finally:
            self.driver.switch_to.default_content()

    def connected(self) -> str:
        """Return the status of noVNC if its canvas has more than one colour, else an empty text."""
        colours = self.driver.execute_script(
            "const c = document.querySelector('#screen canvas'); if (!c || !c.width) return 0;"
            "const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer); return new Set(d).size;"
        )
        return str(self.driver.find_element("id", "status").text) if colours > 1 else ""
