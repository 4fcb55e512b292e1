"""The page in a real browser: translate, choose a path, follow a loop, an error, the live tab; by keyboard, on a phone.

Needs Chromium and its driver from the system's packages (Debian: chromium, chromium-driver) and selenium.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

webdriver: Any = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

import loopmt  # noqa: E402
from loopmt.progress import Silent  # noqa: E402
from loopmt.run import Run  # noqa: E402
from loopmt.serve.access import Access  # noqa: E402
from loopmt.serve.app import Service  # noqa: E402
from loopmt.serve.limits import RequestLimits  # noqa: E402
from loopmt.serve.server import address, listen, make_server  # noqa: E402
from loopmt.serve.watch import Watcher  # noqa: E402
from loopmt.workflow.samples import Samples  # noqa: E402
from loopmt.workflow.serve import ServeOptions, load_engine  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium or chromedriver is not on this machine"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of selenium's own sockets
]
SENTENCE = "The small child hears the kind cat often."
FLAGS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1100,900")


@pytest.fixture(scope="module")
def run(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path_factory.mktemp("served") / "run"))


@contextmanager
def served(run: Path) -> Iterator[str]:
    engine = load_engine(ServeOptions(run, backend="loopmt"), run, Silent())
    watcher = Watcher(Run(run), Samples(Run(run)))
    service = Service("tiny", ["en", "fr", "es"], engine, lambda: engine, watcher, RequestLimits(characters=80))
    listening: socket.socket = listen("127.0.0.1", 0)
    where = address(listening)
    server = make_server(service, Access("127.0.0.1"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield where
    server.should_exit = True
    thread.join(20)


@pytest.fixture(scope="module")
def where(run: Path) -> Iterator[str]:
    with served(run) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


class Page:
    """The page as a person sees it."""

    def __init__(self, browser: Any, where: str) -> None:
        self.browser = browser
        self.where = where
        browser.get("about:blank")
        browser.get(where)
        self.until(lambda: self.one("#languages button"))

    def until(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.browser, 20, 0.05).until(lambda _: condition())

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found

    def one(self, selector: str) -> Any:
        return next(iter(self.all(selector)), None)

    def texts(self, selector: str) -> list[str]:
        return [one.text for one in self.all(selector)]

    def language(self, name: str) -> Any:
        return next(button for button in self.all("#languages button") if button.text == name)

    def translate(self, text: str = SENTENCE) -> str:
        self.one("#text").clear()
        self.one("#text").send_keys(text)
        self.one("#go").click()
        return self.said()

    def said(self) -> str:
        self.until(lambda: self.one("#result").get_attribute("aria-busy") == "false" and self.one(".said"))
        return str(self.one(".said").text)

    def no_complaints(self) -> None:
        """Of the browser: errors in scripts, things that the policy on content refused."""
        assert [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.fixture
def page(browser: Any, where: str) -> Iterator[Page]:
    browser.get_log("browser")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    yield Page(browser, where)


def test_translate(page: Page, run: Path) -> None:
    assert page.texts("#path li") == ["en", "fr"]
    assert page.translate() == loopmt.load(run).translate([SENTENCE], "en>fr")[0]
    assert page.one(".said").get_attribute("lang") == "fr"
    assert [text.partition("\n")[0] for text in page.texts("details .route")] == [
        "en → es → fr",
        "en → fr → en",
        "en → fr → es → en",
    ]
    assert 0 <= float(page.one("meter").get_attribute("value")) <= 1
    page.no_complaints()


def test_nbest_on_request(page: Page, run: Path) -> None:
    page.one("#nbest option:nth-child(2)").click()
    page.translate()
    found = [candidate.text for candidate in loopmt.load(run).nbest([SENTENCE], "en>fr", 3)[0]]
    assert page.texts(".nbest li span:first-child") == found


def test_choose_a_path(page: Page, run: Path) -> None:
    assert not page.language("fr").is_enabled(), "a hop leads to another language"
    page.language("es").click()
    assert page.texts("#path li") == ["en", "fr", "es"]
    assert page.translate() == loopmt.load(run).translate([SENTENCE], "en>fr>es")[0]
    page.one("#back").click()
    assert page.texts("#path li") == ["en", "fr"]
    page.one("#clear").click()
    assert page.one("#ask").text == "Start from"
    assert not page.one("#go").is_enabled()
    page.language("es").click()
    page.language("en").click()
    assert page.translate("El gato ve.") == loopmt.load(run).translate(["El gato ve."], "es>en")[0]


def test_follow_a_loop(page: Page, run: Path) -> None:
    page.translate()
    loop = page.all("details")[-1]
    loop.find_element(By.TAG_NAME, "summary").click()
    assert [step.text for step in loop.find_elements(By.CSS_SELECTOR, ".steps b")] == ["en", "fr", "es", "en"]
    loop.find_element(By.TAG_NAME, "button").click()
    home = loopmt.load(run).translate([SENTENCE], "en>fr>es>en")[0]
    page.until(lambda: page.texts("#path li") == ["en", "fr", "es", "en"] and page.said() == home)


def test_differences_are_marked(page: Page) -> None:
    page.translate("The unheard zebra of the cat.")
    assert page.all("del"), "a word that the languages do not have cannot come home"
    line = page.all("details .line")[-1].text
    assert " ." not in line


def test_errors_are_shown(page: Page) -> None:
    page.one("#text").clear()
    page.one("#go").click()
    assert page.one("#problem").text == "Type a sentence first."
    page.one("#text").send_keys("a" * 81)
    page.one("#go").click()
    page.until(lambda: "81 characters; at most 80" in page.one("#problem").text)
    assert page.one("#problem").get_attribute("role") == "alert"
    assert page.one(".said") is None


def test_text_is_only_text(page: Page) -> None:
    text = "<img src=x onerror=document.title='gone'><b>cat</b>"
    page.translate(text)
    assert page.browser.title == "loopmt"
    assert not page.all("#result img") and not page.all("#result .steps b b")


def test_a_server_that_is_gone(browser: Any, run: Path) -> None:
    with served(run) as where:
        page = Page(browser, where)
    page.one("#text").send_keys("cat")
    page.one("#go").click()
    page.until(lambda: page.one("#problem").text == "The server does not answer. Is it still running?")
    browser.get_log("browser")


def test_by_keyboard_alone(page: Page, run: Path) -> None:
    assert page.browser.switch_to.active_element.get_attribute("id") == "text"
    page.browser.switch_to.active_element.send_keys(SENTENCE + Keys.TAB)
    assert page.browser.switch_to.active_element.text == "en"
    page.browser.switch_to.active_element.send_keys(Keys.ENTER)
    assert page.texts("#path li") == ["en", "fr", "en"]
    page.one("#text").send_keys(Keys.CONTROL + Keys.ENTER)
    assert page.said() == loopmt.load(run).translate([SENTENCE], "en>fr>en")[0]
    page.one("#tab-translate").send_keys(Keys.ARROW_RIGHT)
    assert page.one("#watch").is_displayed() and not page.one("#translate").is_displayed()
    assert page.browser.switch_to.active_element.get_attribute("id") == "tab-watch"


def test_everything_has_a_name(page: Page) -> None:
    page.translate()
    controls = [one for one in page.all("button, textarea, select, input, meter") if one.is_displayed()]
    assert len(controls) > 10
    for control in controls:
        assert control.accessible_name, control.get_attribute("outerHTML")


def test_watch_live(page: Page, run: Path) -> None:
    """Curves, alarms and samples; what the log gains appears by itself."""
    page.one("#tab-watch").click()
    page.until(lambda: len(page.all("#bleu polyline")) >= 6)
    assert page.one("#stage").get_attribute("value") == "dual"
    assert "finished at update 16" in page.one("#state").text
    page.until(lambda: len(page.all(".sample")) == 6)
    assert page.one("#samples-at").text == "at update 16"
    assert page.one("#alarms").text == "none"
    alarm = {"kind": "alarm", "update": 17, "path": "en>fr>en", "hop": "en>fr", "what": "it copies <b>all</b>"}
    with (run / "stages" / "dual" / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(alarm) + "\n")
    page.until(lambda: page.one("#alarms").text == "update 17 path en → fr → en, hop en → fr: it copies <b>all</b>")
    page.one("#stage option:first-child").click()
    page.until(lambda: page.one("#samples-at").text == "at update 120")
    assert page.one("#alarms").text == "none"
    page.no_complaints()


def test_watch_says_the_time_left(browser: Any, run: Path, tmp_path: Path) -> None:
    """A stage under way: its log has no end yet."""
    under_way = Path(shutil.copytree(run, tmp_path / "run"))
    stage = under_way / "stages" / "dual"
    shutil.rmtree(stage / "result")
    train = {
        "kind": "train",
        "loss": {"en>fr": 1.0},
        "tokens_per_second": 1234.5,
        "generate_share": 0.3,
        "seconds": 30.0,
    }
    log = "".join(json.dumps({**train, "update": update}) + "\n" for update in (4, 8))
    (stage / "metrics.jsonl").write_text(log, encoding="utf-8")
    with served(under_way) as where:
        page = Page(browser, where)
        page.one("#tab-watch").click()
        said = "update 8 of 16, 1,235 tokens a second, about 60 seconds left"
        page.until(lambda: page.one("#state").text == said)


@pytest.mark.parametrize("tab", ["translate", "watch"])
def test_fits_a_phone(page: Page, tab: str) -> None:
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    page.translate()
    if tab == "watch":
        page.one("#tab-watch").click()
        page.until(lambda: page.all("#bleu polyline"))
    assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 360
    small = [one.text for one in page.all("button") if one.is_displayed() and one.size["height"] < 40]
    assert small == [], "a finger needs room"


def test_interface_page(page: Page) -> None:
    page.browser.get(f"{page.where}docs")
    assert page.texts("h2")[:3] == ["POST /translate", "GET /watch", "GET /health"]
    page.no_complaints()
