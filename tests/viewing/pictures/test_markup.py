import re
import threading

import matplotlib
import pytest
from matplotlib.figure import Figure

from tests.viewing.pictures.looking import NAMESPACE, element
from torch_ctree.viewing.pictures import Counts, as_svg, heat_map, learning_curves, seed_histogram
from torch_ctree.viewing.pictures.style import INK, shortened, span, styled


def picture() -> Figure:
    return seed_histogram({"Length": Counts([1, 2], [3])})


def test_text_stays_text_and_is_the_pages_colour():
    found = element(picture())
    texts = list(found.iter(f"{NAMESPACE}text"))
    assert "Length" in [text.text for text in texts]
    assert all("fill: currentColor" in text.get("style", "") for text in texts)
    assert INK not in as_svg(picture()).replace(as_svg(picture()).split("</style>")[0], "")


def test_with_a_background_colours_are_what_they_are():
    text = as_svg(picture(), background="#ffffff")
    assert "currentColor" not in text
    assert "<style" not in text
    assert INK in text
    assert "fill: #ffffff" in text
    assert "fill: #ffffff" not in as_svg(picture())


def test_what_is_to_be_seen_is_told():
    found = element(picture(), about='"seeds" <&> more')
    assert found.get("role") == "img"
    assert found.get("aria-label") == '"seeds" <&> more'


def test_many_pictures_on_one_page():
    """Nothing in one of them is about another, or about the page."""
    one, other = as_svg(picture()), as_svg(learning_curves({"a": [{"train_loss": 1}, {"train_loss": 2}]}))
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (one, other)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])
    for text, own in zip((one, other), ids, strict=True):
        assert set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text)) <= {
            (a, b) for a in (*own, "") for b in (*own, "")
        }
        assert re.findall(r"^\s*\*|\}\s*\*", text, flags=re.MULTILINE) == []


def test_nothing_of_when_and_by_what_it_was_made():
    assert re.search(r"<metadata|<!--|\b20\d\d-|[Mm]atplotlib v", as_svg(picture())) is None


def test_matplotlibs_settings_are_as_they_were():
    before = dict(matplotlib.rcParams)
    as_svg(picture())
    assert dict(matplotlib.rcParams) == before


def test_whatever_matplotlib_is_set_to():
    expected = as_svg(picture())
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "svg.hashsalt": None}):
        assert as_svg(picture()) == expected


def test_pictures_made_at_the_same_time():
    before, made = dict(matplotlib.rcParams), []
    threads = [threading.Thread(target=lambda: made.append(as_svg(picture()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [as_svg(picture())] * 3
    assert dict(matplotlib.rcParams) == before


def test_settings_are_back_after_an_error():
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError):
        styled(lambda: 1 / 0)()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("text", ["walk around left thrice and jump", "熊" * 40, "a", ""])
@pytest.mark.parametrize("room", [0.3, 1.0, 3.0])
def test_what_is_shortened_fits(text, room):
    found = shortened(text, room)
    assert span(found) <= max(room, span("a…b") * 1.7)
    assert found == text or "…" in found


def test_characters_that_xml_has_not():
    found = element(seed_histogram({"a\x1bb\uffff": Counts([1])}))
    assert "a\\x1bb\\uffff" in [text.text for text in found.iter(f"{NAMESPACE}text")]


def test_what_is_told_has_no_characters_that_xml_has_not():
    assert element(heat_map({}), about="a\x1b<b>\ud800").get("aria-label") == r"a\x1b<b>\ud800"
