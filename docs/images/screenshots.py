"""Pictures of the page and of the report: light and dark, on a phone and on a desk.

python docs/images/screenshots.py RUN [FOLDER]

RUN is a finished run such as `loopmt demo` leaves. Needs Chromium, chromedriver and selenium. Without FOLDER the two
pictures that the README shows are written here; with one, all of them.
"""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

HERE = Path(__file__).parent
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}
LOOKS = ("light", "dark")
SENTENCE = "Tomorrow, the men are going to see a girl."


@contextmanager
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address of a server of the run, which stops afterwards."""
    command = [sys.executable, "-m", "loopmt", "serve", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        yield next(found[0] for line in process.stdout if (found := re.search(r"http://[\d.:]+", line)))
        process.terminate()


def look(driver: Any, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def shoot(driver: Any, file: Path, whole: bool = True) -> None:
    """What lies on the screen, or the whole page however long it is."""
    settings: dict[str, Any] = {"format": "png"}
    if whole:
        box = driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        settings |= {"captureBeyondViewport": True, "clip": {**box, "scale": 1}}
    time.sleep(0.3)
    file.write_bytes(base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", settings)["data"]))


def until(driver: Any, selector: str) -> Any:
    return WebDriverWait(driver, 60).until(lambda _: driver.find_elements(By.CSS_SELECTOR, selector))[0]


def translate(driver: Any, where: str) -> None:
    driver.get(where)
    until(driver, "#languages button")
    driver.find_element(By.ID, "text").send_keys(SENTENCE)
    driver.find_element(By.CSS_SELECTOR, "#nbest option:nth-child(2)").click()
    driver.find_element(By.ID, "go").click()
    until(driver, ".said")
    driver.find_elements(By.CSS_SELECTOR, "details summary")[-1].click()


def watch(driver: Any, where: str) -> None:
    driver.get(where)
    until(driver, "#tab-watch").click()
    until(driver, ".sample")


def report(driver: Any, run: Path) -> None:
    driver.get((run / "report.html").resolve().as_uri())


def take(run: Path, folder: Path) -> None:
    """All pictures, named by what, size and scheme."""
    with served(run) as where, browser() as driver:
        for size in SIZES:
            for scheme in LOOKS:
                look(driver, size, scheme)
                translate(driver, where)
                shoot(driver, folder / f"translate-{size}-{scheme}.png")
                watch(driver, where)
                shoot(driver, folder / f"watch-{size}-{scheme}.png")
                report(driver, run)
                shoot(driver, folder / f"report-{size}-{scheme}.png")


def take_for_readme(run: Path) -> None:
    with served(run) as where, browser() as driver:
        look(driver, "desktop", "light")
        translate(driver, where)
        shoot(driver, HERE / "page.png")
        report(driver, run)
        driver.execute_script("document.getElementById('languages').scrollIntoView({behavior: 'instant'})")
        shoot(driver, HERE / "report.png", whole=False)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        take(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        take_for_readme(Path(sys.argv[1]))
