from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import brackets, labelled, whole_words


def tree(text: str) -> Tree:
    return Tree.fromstring(text)


def test_a_word_that_is_a_constituent():
    made = whole_words(tree("(· (· ▁ein (· (· ▁H ünd) chen)) (· ▁schläft .))"))
    assert brackets(made) == "(· (· ein Hündchen) (· schläft .))"


def test_a_word_that_is_none_keeps_its_pieces():
    made = whole_words(tree("(· (· ▁ein ▁Hünd) (· chen (· ▁schläft .)))"))
    assert brackets(made) == "(· (· ein ▁Hünd) (· chen (· schläft .)))"


def test_marks_within_a_constituent_are_words():
    """The word ends before the full stop, and here is no constituent."""
    assert brackets(whole_words(tree("(· ▁ein (· ▁Hünd (· chen .)))"))) == "(· ein (· ▁Hünd (· chen .)))"


def test_trees_of_words_stay():
    some = tree("(· a (· b c))")
    assert whole_words(some) == Vertex.of(some)


def test_what_is_known_of_other_vertices_stays():
    piece = Vertex("▁a", number=3, emission=0.5, attention=(0.25, 0.75))
    word = Vertex(children=(Vertex("▁b"), Vertex("c")), number=4, split=0.5)
    made = whole_words(Vertex(children=(piece, word), number=1, confidence=0.75))
    assert made == Vertex(
        children=(Vertex("a", number=3, emission=0.5, attention=(0.25, 0.75)), Vertex("bc", number=4)),
        number=1,
        confidence=0.75,
    )


def test_a_single_word():
    assert whole_words(tree("(· (· ▁H ünd) chen)")) == Vertex("Hündchen")
    assert whole_words("▁Hund") == Vertex("Hund")


def test_labels():
    some = tree("(· (· the dog) (· sees (· a cat)))")
    assert brackets(labelled(some, {(0, 2), (3, 5), (1, 3), (0, 1)}, "NP")) == "(· (NP the dog) (· sees (NP a cat)))"
    assert brackets(labelled(some, {(0, 5)}, "NP")).startswith("(NP (· the dog)")
    assert labelled(some, set(), "NP") == Vertex.of(some)


shapes = st.recursive(
    st.sampled_from(["▁a", "▁bc", "d", "e", ".", "▁("]),
    lambda part: st.lists(part, min_size=2, max_size=3),
    max_leaves=12,
)


@given(shapes)
def test_the_text_stays(shape):
    def grown(part) -> Vertex:
        return Vertex(part) if isinstance(part, str) else Vertex(children=tuple(map(grown, part)))

    before = grown(shape)
    after = whole_words(before)
    assert "".join(after.leaves).replace("▁", "") == "".join(before.leaves).replace("▁", "")
    assert len(after.leaves) <= len(before.leaves)
    assert whole_words(before) == after


def test_deep_trees():
    words = [f"▁{n}" for n in range(3000)]
    deep = Vertex(words[0])
    for word in words[1:]:
        deep = Vertex(children=(deep, Vertex(word)))
    made = labelled(whole_words(deep), {(0, 2)}, "NP")
    assert made.leaves == tuple(word[1:] for word in words)
    assert [part.label for part in made.walk()].count("NP") == 1
