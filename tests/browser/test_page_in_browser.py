"""The page in a real browser: what a person types and sees."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unit_models import made_model

pytest.importorskip("selenium")
pytest.importorskip("fastapi")

from browser_support import listening
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from orderfree.decisions.records import Decision, Decisions
from orderfree.inference import Predictor
from orderfree.types import Example

SCRIPT = "<script>document.title='broken'</script>"
TEXT = "two red fish\nswim in a <b>big</b> pond"


@pytest.fixture(scope="module")
def model() -> Any:
    trained = made_model(5, encoder="linear")  # one whose decoders disagree
    best = {"micro_f1": Decision("br", 0.4), "example_f1": Decision("joint")}
    trained.decisions = Decisions({"br": {"micro_f1": 0.4}}, best)
    trained.config.decoding.decoder = "joint"
    return trained


@pytest.fixture(scope="module")
def url(model: Any) -> Iterator[str]:
    with listening(model) as url:
        yield url


class Page:
    """The page as a person uses it."""

    def __init__(self, browser: Any, url: str, width: int = 1280) -> None:
        self.browser = browser
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get_log("browser")  # what another test left there
        browser.get(url)

    def find(self, element: str) -> Any:
        return self.browser.find_element(By.ID, element)

    def until(self, condition: Any) -> None:
        WebDriverWait(self.browser, 20, 0.05).until(lambda _: condition())

    def ready(self) -> Page:
        self.until(lambda: "labels" in self.find("model-facts").text)
        return self

    def type(self, text: str) -> Page:
        self.find("text").clear()
        self.find("text").send_keys(text)
        return self

    def predict(self, by: str = "") -> Page:
        self.find("predict").click()
        return self.shows(by)

    def shows(self, by: str = "") -> Page:
        self.until(lambda: f"decoder {by}" in self.find("status").text and not self.busy)
        return self

    @property
    def busy(self) -> bool:
        return self.find("predict").get_attribute("aria-disabled") == "true"

    def refused(self) -> str:
        self.until(lambda: self.find("problem").is_displayed() and not self.busy)
        return str(self.find("problem").text)

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
        return list(self.browser.execute_script(script, selector))  # in one go: asking 200 elements takes seconds

    @property
    def labels(self) -> list[str]:
        return self.texts("#chips .chip b")

    def unfold(self) -> Page:
        self.browser.execute_script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        return self

    def choose(self, element: str, value: str) -> None:
        self.unfold()
        Select(self.find(element)).select_by_value(value)

    def complaints(self) -> list[str]:
        return [line["message"] for line in self.browser.get_log("browser") if line["level"] != "INFO"]


def predicted(model: Any, decoder: str, text: str = TEXT) -> list[str]:
    (found,) = Predictor(model).predict([Example("0", text=text)], [decoder])
    return list(found.label_sets[decoder].labels)


def test_type_and_predict(browser: Any, url: str, model: Any) -> None:
    page = Page(browser, url).ready().type(TEXT).predict("joint")
    assert page.labels == predicted(model, "joint")
    assert page.find("words").is_displayed()
    assert not any(page.find(folded).is_displayed() for folded in ("decoder", "steps", "sets", "compare"))
    assert not page.find("caveat").is_displayed()
    page.unfold()
    assert all(share.endswith("%") for share in page.texts("#chips .share"))
    steps = page.texts("#steps h3")
    assert len(steps) == len(page.labels) + 1
    for place, (step, label) in enumerate(zip(steps, [*page.labels, "stop"], strict=True)):
        assert step.startswith(f"{place + 1}. {label} ")
    assert len(page.texts("#sets tr")) > 1
    judged = [name.splitlines() for name in page.texts("#compare th")]  # those predicted say so to who cannot see green
    assert sorted(name[0] for name in judged) == ["a", "b", "c", "d"]
    assert {name[0] for name in judged if name[1:] == ["(predicted)"]} == set(page.labels)
    assert page.texts("#words-choice label") == page.labels
    assert page.find("words").text == TEXT
    assert "fish" in page.texts("#words mark")
    assert page.complaints() == []


def test_the_keyboard_is_enough(browser: Any, url: str, model: Any) -> None:
    page = Page(browser, url).ready()
    page.find("text").send_keys(TEXT, Keys.CONTROL, Keys.ENTER)
    page.shows("joint")
    first = browser.find_element(By.CSS_SELECTOR, "#words-choice input")
    before = page.texts("#word-list .share")
    first.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.find_element(By.XPATH, "..").text == page.labels[1]
    assert page.texts("#word-list .share") != before
    # everything that can be used is reached with the Tab key, and shows that it is
    page.find("text").click()
    reached = []
    examples = page.texts("#examples button")
    for _ in range(4 + len(examples)):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        active = browser.switch_to.active_element
        reached.append(active.get_attribute("id") or active.tag_name)
        # the field for files is not seen; the words before it are marked instead
        shown = active if reached[-1] != "file" else browser.find_element(By.CSS_SELECTOR, "label[for=file]")
        assert browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", shown) == "solid"
    assert reached == ["file", *["button"] * len(examples), "predict", "summary", "summary"]


def test_switching_decoder_and_metric(browser: Any, url: str, model: Any) -> None:
    page = Page(browser, url).ready().type(TEXT).predict("joint")
    page.choose("decoder", "br")
    assert page.shows("br").labels == predicted(model, "br")
    assert "does not order labels" in page.find("steps-note").text
    page.choose("metric", "example_f1")
    assert page.shows("joint").labels == predicted(model, "best:example_f1")
    assert Select(page.find("decoder")).first_selected_option.get_attribute("value") == ""
    page.choose("decoder", "beam")
    assert page.shows("beam").labels == predicted(model, "beam")
    assert Select(page.find("metric")).first_selected_option.get_attribute("value") == ""


def test_set_size_and_threshold(browser: Any, url: str) -> None:
    page = Page(browser, url).ready().type(TEXT).predict("joint")
    browser.find_element(By.TAG_NAME, "summary").click()
    assert not page.find("threshold").is_enabled()  # joint has none
    page.choose("decoder", "br")
    page.shows("br")
    page.find("threshold").send_keys("0", Keys.TAB)
    page.until(lambda: len(page.labels) == 4)
    page.find("max-labels").send_keys("2", Keys.TAB)
    page.until(lambda: len(page.labels) == 2)
    page.find("min-labels").send_keys("3", Keys.TAB)
    assert "min_labels is 3, more than max_labels" in page.refused()


def test_errors_are_said_and_go_away(browser: Any, model: Any) -> None:
    with listening(model, characters=200) as url:
        page = Page(browser, url).ready()
        page.find("predict").click()
        assert page.refused() == "Enter a text first."
        assert browser.switch_to.active_element == page.find("text")
        page.type("fish " * 60).find("predict").click()
        assert "up to 200 characters" in page.refused()
        page.type(TEXT).predict()
        assert not page.find("problem").is_displayed()
    page.find("predict").click()  # the service is gone
    assert "cannot be reached" in page.refused()
    assert page.labels  # what was found stays, dimmed
    assert "stale" in page.find("results").get_attribute("class")


def test_a_service_that_is_too_slow_says_so(browser: Any, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orderfree.serve.app.explain_texts", lambda *_: time.sleep(1))
    with listening(model, seconds=0.5) as url:
        page = Page(browser, url).ready().type(TEXT)
        page.find("predict").click()
        assert "no answer within 0.5 seconds" in page.refused()


def test_the_token_is_asked_for(browser: Any, model: Any) -> None:
    with listening(model, token="0123456789abcdef") as url:
        page = Page(browser, url)
        assert "A token is needed" in page.refused()
        page.find("token").send_keys("0123456789abcdef", Keys.TAB)
        page.ready().type(TEXT).predict()
        assert not page.find("problem").is_displayed()
        assert Page(browser, url).ready().find("token").get_attribute("value")  # kept while the tab is open
        browser.execute_script("sessionStorage.clear()")


def test_a_file_is_read(browser: Any, url: str, model: Any, tmp_path: Path) -> None:
    page = Page(browser, url).ready()
    (tmp_path / "fish.txt").write_text(TEXT, encoding="utf-8")
    page.find("file").send_keys(str(tmp_path / "fish.txt"))
    assert page.shows("joint").labels == predicted(model, "joint")
    assert page.find("text").get_attribute("value") == TEXT
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff\xfe")
    page.find("file").send_keys(str(tmp_path / "image.png"))
    assert page.refused() == "image.png is no text in UTF-8."
    dropped = """
        const held = new DataTransfer();
        held.items.add(new File(["one red fish"], "dropped.txt"));
        document.getElementById("text").dispatchEvent(new DragEvent("drop", {dataTransfer: held, bubbles: true}));"""
    browser.execute_script(dropped)
    page.until(lambda: page.find("words").text == "one red fish")


def test_an_example_is_predicted_with_one_click(browser: Any, model: Any) -> None:
    with listening(model, examples=[TEXT, "x" * 200]) as url:
        page = Page(browser, url).ready()
        first, second = browser.find_elements(By.CSS_SELECTOR, "#examples button")
        assert second.text == "x" * 60 + " …"
        first.click()
        assert page.shows("joint").labels == predicted(model, "joint")


def test_gibberish_gets_a_caveat(browser: Any, url: str) -> None:
    page = Page(browser, url).ready().type("zzyzx blorf qwertz").predict()
    assert "do not rely on these labels" in page.find("caveat").text
    page.type(TEXT).predict()
    page.until(lambda: not page.find("caveat").is_displayed())


TABLE = 'id;body;note\r\n1;"two red fish; ""big"" pond";x\r\n2;swim\r\n3;;"two\nlines"\r\n'


def test_a_table_comes_back_with_labels(browser: Any, model: Any, tmp_path: Path) -> None:
    (tmp_path / "news.csv").write_bytes(TABLE.encode("cp1252"))
    with listening(model, texts=2) as url:  # two requests for three rows
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})  # to read a link that only saves a file
        page = Page(browser, url).ready()
        page.find("file").send_keys(str(tmp_path / "news.csv"))
        page.until(lambda: page.find("table-section").is_displayed())
        assert page.find("table-name").text == "news.csv: 3 rows"
        assert Select(page.find("column")).first_selected_option.text == "body"
        page.find("tag").click()
        page.until(lambda: page.find("table-result").is_displayed())
        assert page.find("download").get_attribute("download") == "news-tagged.csv"
        labels = [";".join(predicted(model, "joint", text)) for text in ('two red fish; "big" pond', "swim", "")]
        quoted = [f'"{one}"' if ";" in one else one for one in labels]
        script = "return fetch(arguments[0]).then((one) => one.text())"
        tagged = browser.execute_script(script, page.find("download").get_attribute("href")).lstrip("\ufeff")
        assert tagged == (
            f'id;body;note;labels\r\n1;"two red fish; ""big"" pond";x;{quoted[0]}\r\n'
            f'2;swim;;{quoted[1]}\r\n3;;"two\nlines";{quoted[2]}\r\n'
        )
        assert "1 have no text" in page.find("table-note").text
        browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})


@pytest.mark.parametrize(
    ("content", "reason"), [("text\n", "no rows below its heading"), ('text\n"open', "never closed")]
)
def test_a_table_that_cannot_be_read_is_refused(
    browser: Any, url: str, tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "bad.csv").write_text(content, encoding="utf-8")
    page = Page(browser, url).ready()
    page.find("file").send_keys(str(tmp_path / "bad.csv"))
    assert reason in page.refused()
    assert not page.find("table-section").is_displayed()


@pytest.mark.parametrize("width", [320, 1280])
def test_two_hundred_labels_one_of_them_a_script_and_a_long_text(browser: Any, width: int) -> None:
    long_name = "a-label-whose-name-is-longer-than-a-narrow-screen-is-wide-" * 3
    names = (SCRIPT, "<img src=x onerror=alert(1)>", long_name, *(f"label {n}" for n in range(197)))
    trained = made_model(2, encoder="linear", labels=names)
    with listening(trained, name="<i>fish</i>") as url:
        page = Page(browser, url, width).ready()
        assert "200 labels" in page.find("model-facts").text
        page.unfold()
        assert len(page.texts("#known-labels .chip")) == 40
        page.find("known-search").send_keys("<SCRIPT")
        assert page.texts("#known-labels .chip b") == [SCRIPT]
        page.choose("decoder", "br")
        page.find("threshold").send_keys("0")
        page.find("max-labels").send_keys("200")
        browser.execute_script("arguments[0].value = 'two red <b>fish</b> '.repeat(1500)", page.find("text"))
        page.predict("br")
        assert sorted(page.labels) == sorted(names)  # as they are, none of them run
        assert browser.title == "<i>fish</i> · orderfree"
        assert (
            browser.execute_script("return document.querySelectorAll('main script, main img, main mark b').length") == 0
        )
        assert "first 500 words" in page.find("set-note").text
        assert page.find("words").text.count("<b>fish</b>") == 1500
        wide = browser.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide == 0  # nothing is wider than the screen
        assert page.complaints() == []


def test_words_are_marked_by_attention_where_they_stand(browser: Any) -> None:
    text = "𝒳 two red  fish"  # the first character takes two places in a browser's strings
    with listening(made_model(1, encoder="bilstm")) as url:
        page = Page(browser, url).ready().type("")
        browser.execute_script("arguments[0].value = arguments[1]", page.find("text"), text)
        page.predict()
        assert page.texts("#words mark") == ["𝒳", "two", "red", "fish"]
        assert page.texts("#words-choice label")[-1].endswith("stop")
        assert "attention at each step" in page.find("words-note").text


def test_a_model_of_binary_relevance_only(browser: Any) -> None:
    with listening(made_model(1, sequence=None)) as url:
        page = Page(browser, url).ready().type(TEXT).predict("br")
        assert not page.find("steps-section").is_displayed()
        assert not page.find("sets-section").is_displayed()
        assert "reads the text as a whole" in page.find("words-note").text
        assert page.unfold().texts("#compare-head th") == ["Label", "Binary relevance"]


def test_promises_and_the_sets_that_are_possible(browser: Any) -> None:
    promised = Predictor(made_model(5, encoder="linear"))
    kinds = [("a", "b"), ("a",), (), ("c", "d")] * 20
    examples = [Example(str(n), text=f"{TEXT} {n}", labels=kind) for n, kind in enumerate(kinds)]
    promise = promised.promise(examples, "candidates=0.9")
    (expected,) = promised.predict([Example("0", text=TEXT)], candidates=0.9)
    assert expected.candidates is not None
    with listening(promised.trained) as url:
        page = Page(browser, url).ready().type(TEXT).predict().unfold()
        assert page.texts("#promise-list li") == [promise.sentence]
        assert page.find("possible-note").text == promise.sentence
        sets = [" + ".join(labels) or "no label" for labels, _ in expected.candidates.sets]
        shown = page.texts("#possible .chip b")
        assert shown[: min(len(sets), 12)] == sets[:12]
        assert page.find("doubtful").is_displayed() == expected.candidates.doubtful
        assert expected.candidates.doubtful
        assert page.find("doubtful").text.startswith(f"Doubtful: {len(sets)} sets")
        page.find("max-labels").send_keys("1\t")  # the promise is about the model's own sizes
        page.until(lambda: not page.find("possible-section").is_displayed())
        assert page.complaints() == []


def test_everything_has_a_name_and_enough_contrast(browser: Any, url: str) -> None:
    page = Page(browser, url).ready().type(TEXT).predict().unfold()
    nameless = """
        return [...document.querySelectorAll("input, select, textarea, button")].filter(
            (one) => !one.labels?.length && !one.textContent.trim()).map((one) => one.id)"""
    assert browser.execute_script(nameless) == []
    assert page.find("status").get_attribute("aria-live") == "polite"
    assert page.find("problem").get_attribute("role") == "alert"
    for scheme in ("light", "dark"):
        feature = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", feature)
        pairs = browser.execute_script(COLOURS)
        assert len(pairs) > 30
        for text, ink, paper in pairs:
            assert contrast(ink, paper) >= 4.5, (scheme, text, ink, paper)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# every element with text of its own: its colour, and that of the nearest background behind it
COLOURS = """
const found = [];
for (const one of document.querySelectorAll("body *:not(mark):not(option)")) {
  if (!one.checkVisibility() || one.closest(".unseen")) continue;
  if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  let behind = one;
  while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const numbers = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const [ink, paper] = [getComputedStyle(one).color, getComputedStyle(behind).backgroundColor];
  found.push([one.textContent, numbers(ink), numbers(paper)]);
}
return found;
"""


def contrast(ink: list[float], paper: list[float]) -> float:
    """Of two colours, as WCAG 2 defines it; it asks for 4.5."""

    def luminance(colour: list[float]) -> float:
        shares = [value / 255 for value in colour]
        red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)
