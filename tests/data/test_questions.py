import re
from itertools import islice

import pytest

from torch_ctree.data import DataError, Example, questions
from torch_ctree.data.questions import LEXICON, generate, gold

from ..measure import chi_square_p_value

SIZES = {"train": 3000, "validation": 300, "test": 1000, "gen": 1000}
SETS = generate(0, SIZES)
KIND = {word: kind for kind, words in LEXICON.items() for word in words}

# The grammar a second time, as a pattern over one letter a word: D determiner, s/p nouns, 1/2 auxiliaries, i/t verbs.
LETTER = {"Det": "D", "N_S": "s", "N_P": "p", "Aux_S": "1", "Aux_P": "2"}
LETTER |= {"V_intrans": "i", "V_trans": "t", "Prep": "P", "Rel": "R"}


def clause(aux: str) -> str:
    return f"R(?:{aux}i|Ds1t|Dp2t|{aux}tD[sp])"


OBJECT = f"D(?:[sp]|[sp]PD[sp]|s{clause('1')}|p{clause('2')})"
SENTENCE = re.compile(
    "|".join(
        f"(?:D{noun}(?P<pp{aux}>PD[sp])?(?P<rc{aux}>{clause(aux)})?{aux}(?:i|t{OBJECT}))" for noun, aux in ("s1", "p2")
    )
)


def letters(sentence: str) -> str:
    return "".join(LETTER[KIND[word]] for word in sentence.split())


def parts(example: Example) -> tuple[str, str]:
    sentence, order = example.source.split(" . ")
    return sentence, order


def subject_has_clause(sentence: str) -> bool:
    return bool(re.match("D[sp]R", letters(sentence)))


@pytest.mark.parametrize("name", SIZES)
def test_every_source_is_a_sentence_of_the_grammar(name):
    assert len(SETS[name]) == SIZES[name]
    for example in SETS[name]:
        sentence, order = parts(example)
        assert SENTENCE.fullmatch(letters(sentence)), sentence
        assert order in ("decl", "quest")


@pytest.mark.parametrize("name", SIZES)
def test_targets_by_another_road(name):
    """A question fronts the auxiliary that follows the whole subject: found by the pattern, not by the generator."""
    for example in SETS[name]:
        sentence, order = parts(example)
        if order == "decl":
            assert example.target == f"{sentence} ."
            continue
        subject = re.match(f"D(?:s(?:PD[sp]|{clause('1')})?(?=1)|p(?:PD[sp]|{clause('2')})?(?=2))", letters(sentence))
        assert subject, sentence
        words = sentence.split()
        main = words.pop(subject.end())
        assert example.target == " ".join([main, *words, "?"])


def test_the_structure_withheld():
    for name in ("train", "validation", "test"):
        asked = [sentence for sentence, order in map(parts, SETS[name]) if order == "quest"]
        assert asked
        assert not any(map(subject_has_clause, asked))
        assert any(subject_has_clause(sentence) for sentence, order in map(parts, SETS[name]) if order == "decl")
    for sentence, order in map(parts, SETS["gen"]):
        assert order == "quest"
        assert subject_has_clause(sentence)
        first, second = (word for word in sentence.split() if KIND[word].startswith("Aux"))
        assert KIND[first] == KIND[second]
        assert first != second


def test_no_source_twice_anywhere():
    sources = [example.source for pairs in SETS.values() for example in pairs]
    assert len(sources) == len(set(sources))


def test_one_seed_makes_it_all():
    again, other = generate(0, SIZES), generate(1, SIZES)
    for name in SIZES:
        assert list(again[name]) == list(SETS[name])
        assert list(other[name]) != list(SETS[name])


def test_what_is_given_stays_and_is_never_made_again():
    given = {"test": SETS["train"][:500], "gen": SETS["gen"]}
    made = generate(0, SIZES, given)
    assert made["test"] is given["test"]
    assert made["gen"] is given["gen"]
    taken = {example.source for pairs in given.values() for example in pairs}
    assert not taken & {example.source for name in ("train", "validation") for example in made[name]}
    assert len(made["train"]) == SIZES["train"]


def test_the_longest_sentences():
    most = max(questions.ordinary(), key=lambda template: len(template.slots))
    assert len(most.slots) + 2 == 18  # and the full stop and the order
    assert max(len(example.target.split()) for example in SETS["train"]) <= 17


def structure(example: Example) -> str:
    """The kinds of a sentence's phrases, numbers aside, and its order."""
    sentence, order = parts(example)
    return f"{letters(sentence).translate(str.maketrans('sp12', 'nnaa'))} {order}"


def proportions(templates: dict[questions.Template, int], *left_out: str) -> dict[str, float]:
    """The structures of templates with their probabilities, those left out aside."""
    weights: dict[str, int] = {}
    for template, weight in templates.items():
        kind = "".join(LETTER[slot] for slot in template.slots).translate(str.maketrans("sp12", "nnaa"))
        if kind not in left_out:
            name = f"{kind} {template.order}"
            weights[name] = weights.get(name, 0) + weight
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


@pytest.mark.parametrize("templates", [questions.ordinary(), questions.generalisation()])
def test_sentences_come_as_often_as_their_weights_say(templates):
    drawn = islice(questions.sentences(templates, 5), 20_000)
    assert chi_square_p_value(map(structure, drawn), proportions(templates)) > 1e-3


@pytest.mark.parametrize("name", ["validation", "gen"])
def test_the_official_proportions(name, official):
    """The shortest sentences aside, in the development set: training has most of those there are.

    The weights were found with these very files, so this only tells that they are still what they were.
    """
    templates = questions.generalisation() if name == "gen" else questions.ordinary()
    found = [kind for kind in map(structure, questions.official(official / "question")[name]) if kind[:5] != "Dnai "]
    assert chi_square_p_value(found, proportions(templates, "Dnai")) > 1e-3


# Trees.


@pytest.mark.parametrize("name", SIZES)
def test_gold_trees_are_full_binary_trees_over_the_words(name):
    for example in SETS[name][:200]:
        for text, tree in zip(example, gold(example), strict=True):
            assert tree.leaves() == text.split()
            assert all(len(node) == 2 for node in tree.subtrees())


@pytest.mark.parametrize(
    ("source", "tree", "target"),
    [
        (
            "the yak does smile . decl",
            "(ROOT (· (S (NP the yak) (VP does smile)) .) decl)",
            "(ROOT (S (NP the yak) (VP does smile)) .)",
        ),
        (
            "my newts by the yak do amuse her quail that our zebras don't admire . quest",
            "(ROOT (· (S (NP (NP my newts) (PP by (NP the yak))) (VP do (VP amuse (NP (NP her quail) "
            "(RC that (S (NP our zebras) (VP don't admire))))))) .) quest)",
            "(ROOT (SQ do (S (NP (NP my newts) (PP by (NP the yak))) (VP amuse (NP (NP her quail) "
            "(RC that (S (NP our zebras) (VP don't admire))))))) ?)",
        ),
        (
            "my raven that doesn't accept the yak does change . quest",
            "(ROOT (· (S (NP (NP my raven) (RC that (VP doesn't (VP accept (NP the yak))))) (VP does change)) .) "
            "quest)",
            "(ROOT (SQ does (S (NP (NP my raven) (RC that (VP doesn't (VP accept (NP the yak))))) change)) ?)",
        ),
    ],
)
def test_gold_trees_by_hand(source, tree, target):
    found = gold(Example(source, ""))
    assert found.source.pformat(margin=1000) == tree
    assert found.target.pformat(margin=1000) == target


@pytest.mark.parametrize(
    "source",
    [
        "",
        "the yak does smile .",
        "the yak does smile . shout",
        "the yak do smile . decl",
        "the yaks who does smile do wait . decl",
        "the yak does amuse . decl",
        "the yak does smile smile . decl",
        "yak does smile . decl",
        "the dog does smile . decl",
    ],
)
def test_what_is_no_sentence(source):
    with pytest.raises(DataError):
        gold(Example(source, ""))


# Official files.


@pytest.fixture
def few(monkeypatch):
    """The published sizes are those of the sets made here."""
    monkeypatch.setattr(questions, "SIZES", SIZES)


def put(folder, sets):
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in sets.items():
        (folder / questions.FILES[name]).write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs))
    return folder


def test_official_files_that_are_there_are_read(few, tmp_path):
    assert questions.official(tmp_path) == {}
    given = {"validation": SETS["validation"], "gen": SETS["gen"]}
    found = questions.official(put(tmp_path, given))
    assert {name: list(pairs) for name, pairs in found.items()} == {name: list(pairs) for name, pairs in given.items()}


def test_the_official_files(official):
    found = questions.official(official / "question")
    assert {name: len(found[name]) for name in ("validation", "test", "gen")} == {
        "validation": 1000,
        "test": 10_000,
        "gen": 10_000,
    }
    for name in ("validation", "test"):
        assert not any(subject_has_clause(s) for s, order in map(parts, found[name]) if order == "quest")
    kinds = {structure(Example(f"{s} . quest", "")) for s, _ in map(parts, SETS["gen"])}
    assert {structure(example) for example in found["gen"]} <= kinds


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("the yak do smile . decl\tthe yak do smile .", "line 2: not of this task: 'the yak do smile': do at word 3"),
        ("the yak does smile . quest\tthe yak does smile .", "line 2: the target is 'the yak does smile .'; expected"),
    ],
)
def test_bad_rows_are_named(tmp_path, line, said):
    (tmp_path / "question.dev").write_text(f"the yak does smile . decl\tthe yak does smile .\n{line}\n")
    with pytest.raises(DataError, match=re.escape(said)):
        questions.official(tmp_path)


def test_prepare_copies_what_is_there(few, tmp_path):
    put(tmp_path / "given" / "question", {"test": SETS["test"], "gen": SETS["gen"]})
    files = questions.prepare(tmp_path / "root", tmp_path / "given")
    assert [file.name for file in files] == ["question.test", "question.gen"]
    assert all(file.parent == tmp_path / "root" / "question" for file in files)
    with pytest.raises(DataError, match="expected the folder with the official files"):
        questions.prepare(tmp_path / "root", tmp_path)
    with pytest.raises(DataError, match="nothing to download"):
        questions.prepare(tmp_path / "root", None)


def test_a_file_that_is_not_whole(few, tmp_path):
    put(tmp_path, {"test": SETS["test"][:37]})
    with pytest.raises(DataError, match=r"question\.test: 37 pairs; expected 1,000; get the file again$"):
        questions.official(tmp_path)


def test_files_that_were_swapped(few, tmp_path):
    put(tmp_path, {"test": SETS["gen"]})
    with pytest.raises(DataError, match="line 1: is a question with a relative clause on its subject"):
        questions.official(tmp_path)
    (tmp_path / "question.test").unlink()
    put(tmp_path, {"gen": SETS["test"]})
    with pytest.raises(DataError, match="line 1: is not a question with a relative clause on its subject"):
        questions.official(tmp_path)


def test_a_training_file_with_sources_of_the_test_set(few, tmp_path):
    rows = [*SETS["train"][:2990], *SETS["test"][:10]]
    put(tmp_path, {"train": rows, "test": SETS["test"]})
    with pytest.raises(DataError, match=r"question\.train, line 2991: another of the sets has this source too"):
        questions.official(tmp_path)
