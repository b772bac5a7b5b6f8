"""``ctree view`` as people use it."""

import json
import time

import pytest
from nltk import Tree

from torch_ctree import Seq2Seq, TreePosterior
from torch_ctree.viewing.as_json import from_json

from .conftest import PHONE

COMMAND, ACTIONS = "jump twice and walk left", "I_JUMP I_JUMP I_TURN_LEFT I_WALK"
DOUBTFUL = f"I_JUMP {ACTIONS}"
LONG = "run thrice and jump twice and look"


def words(visitor, n: int = 0) -> str:
    return visitor.answer(n).locator(".text").inner_text()


def see(visitor, text: str, n: int = 0) -> None:
    """Wait for an answer."""
    visitor.answer(n).get_by_text(text, exact=True).first.wait_for()


def see_any(visitor, n: int = 0) -> None:
    """Wait for any answer."""
    visitor.answer(n).locator(".text").wait_for()


# --- a sentence and its tree ------------------------------------------------------------------------------------------


def test_an_answer_comes_while_one_types(visit):
    me = visit()
    assert me.page.title() == "ctree view"
    assert "Type a sentence" in me.note().inner_text()
    me.source.press_sequentially("jump twi")
    see(me, "JUMP")
    me.page.locator(".place").get_by_text("probability 0.607, without “twi”, not yet a word").wait_for()
    me.source.press_sequentially("ce and walk")
    see(me, "JUMP JUMP WALK")
    assert me.drawing().all_text_contents() == ["JUMP", "JUMP", "WALK"]


def test_a_vertex_says_what_is_known_of_it(visit):
    me = visit()
    me.source.fill("jump twice and walk")
    me.press("1")
    panel = me.panel()
    assert panel.locator("h3").inner_text() == "“JUMP WALK” 2 words, in 2 parts"
    assert panel.locator(".bars").first.inner_text().split("\n") == [
        "splits in two",
        "87.5%",
        "is a constituent",
        "50.0%",
    ]
    assert panel.locator(".bars").nth(1).inner_text().split("\n") == ["JUMP", "75.0%", "LOOK", "12.5%"]
    assert panel.locator(".shaded").inner_text().split() == [
        "jump",
        "10.0%",
        "twice",
        "20.0%",
        "and",
        "30.0%",
        "walk",
        "40.0%",
    ]
    assert me.vertex("1").get_attribute("aria-pressed") == "true"
    me.press("1.1")
    assert me.panel().locator("h3").inner_text() == "“WALK” a word"
    assert me.page.locator('.answer:visible g.vertex[aria-pressed="true"]').count() == 1


def test_the_best_ones_one_after_the_other(visit):
    me = visit()
    me.source.fill("jump twice and walk")
    place = me.page.locator(".place")
    place.get_by_text("1 of 5, probability 0.607").wait_for()
    assert me.button("previous").is_disabled()
    me.press("1")
    for text in ("2 of 5, probability 0.368", "3 of 5, probability 0.223", "4 of 5", "5 of 5"):
        me.button("next").click()
        assert place.inner_text().startswith(text)
    assert me.button("next").is_disabled()
    me.button("previous").click()
    assert place.inner_text().startswith("4 of 5")
    assert me.answer().count() == 1


def test_what_is_drawn_with_the_tree(visit):
    me = visit()
    me.source.fill("walk thrice")
    see(me, "WALK WALK WALK")
    assert me.drawing().all_text_contents() == ["WALK"] * 3
    me.choose("probabilities")
    me.drawing().get_by_text("∧%: probability of a split").wait_for()
    me.choose("confidence")
    me.drawing().get_by_text("posterior probability of the constituent").wait_for()
    me.choose("folded")
    me.drawing().get_by_text("×3").wait_for()
    me.press("0")
    assert me.panel().locator("h3").inner_text() == "“WALK” a word"


def test_one_stays_where_one_is_while_it_is_drawn_otherwise(visit):
    me = visit()
    me.source.fill("jump twice and walk")
    place = me.page.locator(".place")
    place.get_by_text("1 of 5").wait_for()
    me.button("next").click()
    me.press("0.1")
    me.choose("probabilities")
    me.drawing().get_by_text("∧%: probability of a split").wait_for()
    assert place.inner_text().startswith("2 of 5")
    assert me.vertex("0.1").get_attribute("aria-pressed") == "true"
    me.source.fill("walk twice")
    see(me, "WALK WALK")
    assert place.inner_text().startswith("1 of 5")
    assert me.vertex("").get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("seed", ["-1", "99999999999"])
def test_seeds_that_are_none(visit, seed):
    me = visit()
    me.source.fill("jump twice")
    me.choose("Samples")
    see(me, "seed 0, probability 0.368")
    me.page.get_by_label("Seed").fill(seed)
    me.button("Sample another").click()
    me.choose("Best answers")
    me.source.fill("walk")
    see(me, "WALK")


def test_samples(visit):
    me = visit()
    me.source.fill("jump twice and walk")
    see(me, "JUMP JUMP WALK")
    assert me.button("Sample another").count() == 0
    me.choose("Samples")
    see(me, "seed 0, probability 0.368")
    assert words(me) == "JUMP"
    me.button("Sample another").click()
    see(me, "seed 1, probability 0.368")
    assert words(me) == "JUMP JUMP"
    assert me.page.get_by_label("Seed").input_value() == "1"
    me.page.get_by_label("Seed").fill("2")
    see(me, "JUMP JUMP WALK")
    me.page.get_by_label("Seed").fill("")
    see(me, "seed 0, probability 0.368")


def test_the_trees_of_a_target(visit):
    me = visit()
    me.source.fill("jump twice")
    see(me, "JUMP JUMP")
    me.target.fill("RUN WALK RUN")
    me.page.locator(".place").get_by_text("1 of 5, probability 0.5 given the target").wait_for()
    assert me.page.get_by_label("Target’s trees").is_checked()
    assert me.page.locator(".facts").inner_text().split("\n") == [
        "probability of the target, over all trees",
        "0.135",
        "entropy of its trees",
        "0.250 nats",
    ]
    assert "50%" in me.page.locator(".triangle svg text").all_text_contents()
    me.button("next").click()
    assert me.page.locator(".place").inner_text() == "2 of 5, probability 0.25 given the target"
    me.target.fill("")
    see(me, "JUMP JUMP")
    me.target.fill("LOOK " * 9)
    me.note().get_by_text("No tree of this model can have this target").wait_for()
    me.target.fill("RUN")
    me.note().get_by_text("target: this one may not be").wait_for()


def test_examples_right_and_wrong_are_a_click_away(visit):
    me = visit()
    headings = me.page.locator(".examples h4").all_inner_texts()
    assert headings == ["Right 4", "Wrong 2"]
    me.button(LONG).click()
    see(me, "✗ not the target, which is RUN RUN RUN JUMP JUMP LOOK LOOK")
    assert me.source.input_value() == LONG
    assert me.target.input_value() == "RUN RUN RUN JUMP JUMP LOOK LOOK"
    me.choose("Target’s trees")
    me.page.locator(".place").get_by_text("given the target").wait_for()
    me.button("walk twice").click()
    see(me, "WALK WALK")
    me.choose("Best answers")
    see(me, "✓ just the target")


# --- files ------------------------------------------------------------------------------------------------------------


def test_files(visit):
    me = visit()
    me.source.fill("jump twice and <b>")
    see(me, "JUMP JUMP <B>")
    me.press("0")

    name, content = me.saved("SVG")
    assert name == "tree.svg"
    assert content.startswith("<svg xmlns=")
    assert "&lt;B&gt;" in content
    for what in ("tabindex", "aria-pressed", 'role="button"', "vertex chosen"):
        assert what not in content
    alone = me.context.new_page()
    alone.set_content(content)
    assert alone.locator("svg text").all_text_contents() == ["JUMP", "JUMP", "<B>"]

    name, content = me.saved("LaTeX")
    assert name == "tree.tex"
    assert content.startswith(r"\documentclass")
    assert content.count("JUMP") == 2

    name, content = me.saved("JSON")
    assert name == "tree.json"
    found = json.loads(content)
    assert (found["source"], found["text"]) == ("jump twice and <b>", "JUMP JUMP <B>")
    tree = from_json(found["tree"])
    assert tree.to_nltk() == Tree("·", ["JUMP", Tree("·", ["JUMP", "<B>"])])
    assert tree.children[1].split == 0.875

    me.button("next").click()
    assert from_json(json.loads(me.saved("JSON")[1])["tree"]).to_nltk() == Tree(
        "·", [Tree("·", ["JUMP", "JUMP"]), "<B>"]
    )


# --- several models, several people -----------------------------------------------------------------------------------


def test_two_models_side_by_side(visit):
    me = visit("two")
    me.source.fill("jump twice and walk")
    see(me, "JUMP JUMP WALK", 0)
    see(me, "jump jump walk", 1)
    left, right = (me.page.locator(".block.ctree-column").nth(n).bounding_box() for n in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] < right["x"]
    me.button("next", 1).click()  # each for itself
    assert [place[:6] for place in me.page.locator(".place").all_inner_texts()] == ["1 of 5", "2 of 5"]
    headings = me.page.locator(".examples h4").all_inner_texts()
    assert headings == ["Right with both 2", "Right only with fake 2", "Right only with quiet 2"]
    me.page.get_by_label("Model 2").click()
    me.page.get_by_role("option", name="without trees").click()
    see(me, "JUMP JUMP WALK", 1)
    assert me.answer(1).locator("svg").count() == 0
    assert words(me, 0) == "JUMP JUMP WALK"


def test_several_people_do_not_mix(visit):
    mine, yours = visit(), visit(person="you")
    for _ in range(3):
        mine.source.press_sequentially("jump ")
        yours.source.press_sequentially("walk ")
    mine.choose("probabilities")
    see(mine, "JUMP JUMP JUMP")
    see(yours, "WALK WALK WALK")
    mine.drawing().get_by_text("∧%: probability of a split").wait_for()
    assert yours.drawing().all_text_contents() == ["WALK"] * 3
    yours.choose("Samples")
    see(yours, "seed 0, probability 0.368")
    assert words(mine) == "JUMP JUMP JUMP"
    mine.page.reload()
    mine.source.wait_for()
    assert mine.source.input_value() == ""


# --- what may be typed ------------------------------------------------------------------------------------------------


def test_unknown_words(visit):
    me = visit()
    me.source.fill("jmp twice qqq")
    me.note().get_by_text("Unknown in a source: 'jmp' (jump?), 'qqq'. Known are jump, walk,").wait_for()
    assert me.answer().count() == 0
    me.source.fill("tw")
    me.source.press("Enter")  # it is meant
    me.note().get_by_text("Unknown in a source: 'tw'").wait_for()
    me.source.fill("jump")
    see(me, "JUMP")
    me.target.fill("JUMB")
    me.note().get_by_text("Unknown in a target: 'JUMB' (JUMP?)").wait_for()


@pytest.mark.parametrize(
    "text", ["<script>document.title = 'no'</script>", "<img src=x onerror=\"document.title='no'\">"]
)
def test_what_is_typed_is_never_code(visit, text):
    me = visit()
    me.source.fill(text)
    me.note().get_by_text("<").first.wait_for()
    me.source.fill("jump and <b>")
    see(me, "JUMP <B>")
    me.press("1")
    assert me.panel().locator("h3").inner_text() == "“<B>” a word"
    me.target.fill(text)
    me.note().get_by_text("Unknown in a target").wait_for()
    assert me.page.title() == "ctree view"
    assert me.page.locator(".ctree-column script, .ctree-column img, .ctree-column b b").count() == 0


@pytest.mark.parametrize("text", ["x" * 10_000, "jump " * 2_000, "walk " * 101])
def test_very_long(visit, text):
    me = visit()
    me.source.fill(text)
    me.note().get_by_text("The source is too long").wait_for()
    assert len(me.note().inner_text()) < 100
    assert me.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    me.source.fill("jump")
    see(me, "JUMP")


@pytest.mark.parametrize("text", ["", "   ", "\t"])
def test_nothing(visit, text):
    me = visit()
    me.source.fill("jump")
    see(me, "JUMP")
    me.source.fill(text)
    me.note().get_by_text("Type a sentence above").wait_for()
    me.choose("Target’s trees")
    me.source.fill("jump")
    me.note().get_by_text("Type a target too").wait_for()


# --- other ways to use it ---------------------------------------------------------------------------------------------


def test_by_keyboard_alone(visit):
    me = visit("shipped")
    keys = me.page.keyboard

    def focused(script: str = "e.getAttribute('aria-label') || e.textContent") -> str:
        return me.page.evaluate(f"(e => {script})(document.activeElement)")

    def tab_to(text: str) -> None:
        for _ in range(40):
            keys.press("Tab")
            if text in (focused() or focused("e.name || e.value")):
                return
        pytest.fail(f"no way to {text}")

    me.source.focus()
    keys.type(COMMAND)
    keys.press("Enter")
    see(me, ACTIONS)
    tab_to("next")
    keys.press("Enter")
    assert me.page.locator(".place").inner_text().startswith("2 of 5")
    assert focused() == "next"
    tab_to("previous")
    keys.press("Enter")
    see(me, ACTIONS)
    tab_to(f"constituent: {ACTIONS}")
    outline = "getComputedStyle(e.querySelector('.hit')).stroke"
    assert focused(outline) != "none"
    for key, path in (
        ("ArrowDown", "0"),
        ("ArrowRight", "1"),
        ("ArrowLeft", "0"),
        ("ArrowDown", "0.0"),
        ("ArrowRight", "0.1"),
        ("ArrowUp", "0"),
        ("ArrowUp", ""),
        ("ArrowUp", ""),
    ):
        keys.press(key)
        assert focused("e.dataset.path") == path
        assert me.panel().get_attribute("data-path") == path
    me.vertex("1").focus()
    keys.press("Enter")
    assert me.panel().get_attribute("data-path") == "1"
    me.vertex("0.1").focus()
    keys.press("Space")
    assert me.panel().get_attribute("data-path") == "0.1"
    tab_to("SVG")
    with me.page.expect_download() as waiting:
        keys.press("Enter")
    assert waiting.value.suggested_filename == "tree.svg"


def test_examples_and_choices_by_keyboard(visit):
    me = visit("shipped")
    me.button("jump").focus()
    me.page.keyboard.press("Enter")
    see(me, "I_JUMP")
    me.page.get_by_label("Samples").focus()
    me.page.keyboard.press("Space")
    me.answer().locator(".about").get_by_text("seed 0, probability").wait_for()
    me.button("Sample another").focus()
    me.page.keyboard.press("Enter")
    me.answer().locator(".about").get_by_text("seed 1, probability").wait_for()
    me.page.get_by_label("probabilities").focus()
    me.page.keyboard.press("Space")
    me.drawing().get_by_text("% at a word: its probability there").wait_for()


FITS = "document.documentElement.scrollWidth <= innerWidth && innerWidth == 390"


@pytest.mark.parametrize("server", ["one", "two"])
def test_wide_trees_on_a_phone(visit, server):
    me = visit(server, size=PHONE)
    me.source.fill("run thrice and jump thrice and look thrice and walk thrice")
    see(me, "RUN RUN RUN JUMP JUMP JUMP LOOK LOOK LOOK WALK WALK WALK")
    assert me.page.evaluate(FITS)
    me.vertex("1").locator(".hit").tap()
    assert me.panel().get_attribute("data-path") == "1"
    me.target.fill("RUN WALK RUN LOOK RUN WALK")
    me.page.locator(".triangle svg").first.wait_for()
    assert me.page.evaluate(FITS)


@pytest.mark.parametrize("server", ["shipped", "both"])
def test_on_a_phone(visit, server):
    me = visit(server, size=PHONE)
    me.source.fill(COMMAND)
    see(me, ACTIONS)
    assert me.page.evaluate(FITS)
    me.vertex("1").locator(".hit").tap()
    assert me.panel().locator("h3").inner_text() == "“I_TURN_LEFT I_WALK” 2 words, in 2 parts"
    if server == "shipped":
        me.picture("phone")
    else:
        see_any(me, 1)
        top, below = (me.page.locator(".block.ctree-column").nth(n).bounding_box() for n in (0, 1))
        assert top["y"] + top["height"] <= below["y"]
    me.target.fill(DOUBTFUL)
    me.page.locator(".triangle svg").first.wait_for()
    assert me.page.evaluate(FITS)


def test_in_the_dark(visit):
    me = visit("shipped", color_scheme="dark")
    me.source.fill(COMMAND)
    see(me, ACTIONS)
    colours = me.page.evaluate(
        "[document.querySelector('.answer:not([hidden]) .text'), document.body]"
        ".map((e, n) => getComputedStyle(e)[n ? 'backgroundColor' : 'color'].match(/\\d+/g).map(Number))"
    )
    assert min(colours[0][:3]) > 200
    assert max(colours[1][:3]) < 60
    me.target.fill(DOUBTFUL)
    me.page.locator(".place").get_by_text("given the target").wait_for()
    me.choose("confidence")
    me.drawing().get_by_text("posterior probability of the constituent").wait_for()
    me.picture("dark")


# --- trained models ---------------------------------------------------------------------------------------------------


def saved_tree(visitor, n: int = 0) -> tuple[str, Tree]:
    """(the answer, its tree): of a column, from a file."""
    found = json.loads(visitor.saved("JSON", n)[1])
    return found["text"], from_json(found["tree"]).to_nltk()


def best(run: str) -> tuple[str, Tree | str | None]:
    """The same, of the model itself."""
    (answer,) = Seq2Seq.from_pretrained(run).answer(COMMAND)
    return answer.text, answer.tree


def test_the_model_that_ships(visit, capsys):
    began = time.perf_counter()
    me = visit("shipped")
    opened = time.perf_counter()
    me.source.press_sequentially("jump around left twice and walk")
    typed = time.perf_counter()
    expected = " ".join(["I_TURN_LEFT I_JUMP"] * 8 + ["I_WALK"])
    see(me, expected)
    answered = time.perf_counter()
    with capsys.disabled():
        print(f"\n  the page: {opened - began:.2f} s; its first answer: {answered - typed:.2f} s after typing")
    me.press("0")
    assert me.panel().locator(".bars").count() == 2
    assert me.panel().locator(".shaded").count() >= 1
    me.picture("answer")
    me.choose("Samples")
    me.answer().locator(".about").get_by_text("seed 0, probability").wait_for()
    me.page.locator(".examples button").last.click()
    me.choose("Best answers")
    see(me, "✓ just the target")
    me.choose("Target’s trees")
    me.page.locator(".triangle svg").wait_for()
    me.target.fill("")
    me.source.fill("jump aroundd twise")
    me.note().get_by_text("'aroundd' (around?), 'twise' (twice?)").wait_for()
    me.picture("unknown")


def test_what_is_saved_is_what_the_model_says(visit):
    me = visit("shipped")
    me.source.fill(COMMAND)
    see(me, ACTIONS)
    assert saved_tree(me) == best("example")
    assert me.drawing().all_text_contents() == ACTIONS.split()
    assert all(content.count("I\\_JUMP") == 2 for _, content in [me.saved("LaTeX")])
    assert me.saved("SVG")[1].count("I_JUMP<") == 2


def test_the_trees_of_a_doubtful_target(visit):
    """With one jump too many."""
    me = visit("shipped")
    me.source.fill(COMMAND)
    me.target.fill(DOUBTFUL)
    place = me.page.locator(".place")
    place.get_by_text("given the target").wait_for()
    posterior = Seq2Seq.from_pretrained("example").parse(COMMAND, DOUBTFUL)
    assert isinstance(posterior, TreePosterior)
    shares = posterior.topk(2).log_prob.exp().flatten().tolist()
    assert place.inner_text().startswith(f"1 of 5, probability {shares[0]:.3g} ")
    me.picture("target")
    me.button("next").click()
    assert place.inner_text().startswith(f"2 of 5, probability {shares[1]:.3g} ")
    assert f"{posterior.entropy().item():.3f} nats" in me.page.locator(".facts").inner_text()


def test_a_beginner_beside_the_model_that_ships(visit, beginner):
    me = visit("both")
    me.source.fill(COMMAND)
    see(me, ACTIONS, 0)
    see_any(me, 1)
    assert saved_tree(me, 0) == best("example")
    assert saved_tree(me, 1) == best(str(beginner))
    kinds = me.page.locator(".examples h4").all_inner_texts()
    assert [kind.rpartition(" ")[0] for kind in kinds] == ["Right with both", "Right only with example"]
    row = me.page.locator(".examples", has_text="Right only with example")
    row.get_by_role("button").first.click()
    see(me, "✓ just the target", 0)
    me.answer(1).get_by_text("✗ not the target, which is").wait_for()
    me.picture("example")
    me.page.locator(".examples").first.get_by_role("button").nth(1).click()
    for n in (0, 1):
        see(me, "✓ just the target", n)
    me.press("1", 1)
    me.picture("two")
