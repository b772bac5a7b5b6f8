"""Independent oracles: the published rules written a second time, digests of the official files, and the files,
where they are there."""

import hashlib
import re
from collections import Counter

import pytest

from torch_ctree.data import DataError, Example, scan

# SHA-256 of the official files' rows, sorted, each as "IN: command OUT: actions\n".
DIGESTS = {
    "tasks": "6be4b39bc8bf3a20be810b6991250d0493e608560609db6765dd679e1ed1c98e",
    "length train": "7ffb97f45029871c94bede7e723f7a4aa179eb99fe2b977a18283310422c719d",
    "length test": "3297fd0b676c391f7bc3a7385aa66a7fdf64f6f8e81ad584810c1d4ebd0eaa2c",
    "jump train": "0683daacfdce23cf8ed6f5077feda21785e93ac82e0d11363a9280b7b0c6561e",
    "jump test": "522454c6280eab957dfc4ea9579ef1d780a716ac34df09619970e1d98822d7e2",
    "turn-left train": "e0c26b51b6bba2658e02d69ad53fc15399842d57356d3551a3ed192bca0f9ad4",
    "turn-left test": "14dd6316d16204d2871678ee4bd35aba253416a9b4df36bb6dfdda153d46e549",
}
FILES = {
    "tasks": "tasks",
    "length train": "length_split/tasks_train_length",
    "length test": "length_split/tasks_test_length",
    "jump train": "add_prim_split/tasks_train_addprim_jump",
    "jump test": "add_prim_split/tasks_test_addprim_jump",
    "turn-left train": "add_prim_split/tasks_train_addprim_turn_left",
    "turn-left test": "add_prim_split/tasks_test_addprim_turn_left",
}
ALL = list(scan.everything())


def digest(pairs) -> str:
    rows = sorted(f"IN: {pair.source} OUT: {pair.target}\n" for pair in pairs)
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def made(name: str):
    if name == "tasks":
        return scan.everything()
    split, _, part = name.partition(" ")
    return scan.by_rule(split)[part == "test"]


@pytest.mark.parametrize("name", DIGESTS)
def test_equals_the_official_rows(name):
    assert digest(made(name)) == DIGESTS[name]


@pytest.mark.parametrize("name", FILES)
def test_equals_the_official_files(name, official):
    rows = scan.read_official(official / "SCAN" / f"{FILES[name]}.txt")
    assert Counter(rows) == Counter(made(name))
    assert digest(rows) == DIGESTS[name]


def rewrite(command: str) -> str:
    """The published interpretation function, as rewriting of strings from the inside out."""
    for direction in ("left", "right"):
        turn = f"I_TURN_{direction.upper()}"
        command = re.sub(rf"turn opposite {direction}", f"[{turn} {turn}]", command)
        command = re.sub(rf"turn around {direction}", f"[{turn} {turn} {turn} {turn}]", command)
        command = re.sub(rf"(\w+) opposite {direction}", rf"[{turn} {turn} \1]", command)
        command = re.sub(rf"(\w+) around {direction}", rf"[{turn} \1 {turn} \1 {turn} \1 {turn} \1]", command)
        command = re.sub(rf"turn {direction}", f"[{turn}]", command)
        command = re.sub(rf"(\w+) {direction}", rf"[{turn} \1]", command)
    for verb in ("walk", "look", "run", "jump"):
        command = re.sub(rf"\b{verb}\b", f"I_{verb.upper()}", command)
    command = re.sub(r"(\[[^]]*\]|\w+) twice", r"\1 \1", command)
    command = re.sub(r"(\[[^]]*\]|\w+) thrice", r"\1 \1 \1", command)
    if " after " in command:
        command = " ".join(reversed(command.split(" after ")))
    return " ".join(re.sub(r"[][]|\band\b", " ", command).split())


def test_actions_by_another_road():
    assert all(rewrite(pair.source) == pair.target for pair in ALL)


def test_every_command_once():
    assert len(ALL) == len({pair.source for pair in ALL}) == 20_910
    assert max(len(pair.source.split()) for pair in ALL) == 9
    assert {len(pair.target.split()) for pair in ALL} <= set(range(1, 49))


@pytest.mark.parametrize(
    ("split", "train", "test"),
    [
        ("length", 16_990, 3_920),
        ("jump", 14_670, 7_706),
        ("turn-left", 21_890, 1_208),
        ("around-right", 15_225, 4_476),
        ("jump-around-right", 18_528, 1_173),
        ("opposite-right", 15_225, 4_476),
        ("right", 15_225, 4_476),
    ],
)
def test_sizes_as_published(split, train, test):
    assert tuple(map(len, scan.by_rule(split))) == (train, test)


@pytest.mark.parametrize("split", scan.SPLITS)
def test_no_command_is_on_both_sides(split):
    train, test = ({pair.source for pair in part} for part in scan.by_rule(split))
    assert not train & test
    assert train | test <= {pair.source for pair in ALL}


@pytest.mark.parametrize(("split", "primitive", "copies"), [("jump", "jump", 1467), ("turn-left", "turn left", 2189)])
def test_the_primitive_is_repeated(split, primitive, copies):
    train, test = scan.by_rule(split)
    count = Counter(pair.source for pair in train)
    assert count.pop(primitive) == copies
    assert set(count.values()) == {1}
    assert all(primitive in pair.source for pair in test)
    assert not any(re.search(rf"\b{primitive}\b", source) for source in count)


@pytest.mark.parametrize("phrase", ["around right", "opposite right", "right"])
def test_a_template_is_never_trained_on(phrase):
    train, test = scan.by_rule(phrase.replace(" ", "-"))
    pattern = rf"\b(walk|look|run|jump|turn) {phrase}\b"
    assert not any(re.search(pattern, pair.source) for pair in train)
    assert all(re.search(pattern, pair.source) for pair in test)
    assert not any(f"turn {phrase}" in pair.source for pair in test)
    assert len(ALL) - len(train) - len(test) == 1209


def test_simple_is_random_but_for_its_seed():
    train, test = scan.simple(3)
    assert (len(train), len(test)) == (16_728, 4_182)
    assert sorted([*train, *test]) == sorted(ALL)
    assert list(scan.simple(3)[1]) == list(test) != list(scan.simple(4)[1])


# Trees.


@pytest.mark.parametrize("n", range(0, len(ALL), 61))
def test_gold_trees_are_full_binary_trees_over_the_words(n):
    for text, tree in zip(ALL[n], scan.gold(ALL[n]), strict=True):
        assert tree.leaves() == text.split()
        if len(tree.leaves()) > 1:
            assert all(len(node) == 2 for node in tree.subtrees())


@pytest.mark.parametrize(
    ("command", "source", "target"),
    [
        ("walk", "(· walk)", "(· I_WALK)"),
        ("turn left", "(V turn left)", "(· I_TURN_LEFT)"),
        ("run right", "(V run right)", "(right I_TURN_RIGHT I_RUN)"),
        ("look thrice", "(S look thrice)", "(thrice I_LOOK (· I_LOOK I_LOOK))"),
        (
            "jump opposite left twice",
            "(S (V jump (· opposite left)) twice)",
            "(twice (opposite (opposite I_TURN_LEFT I_TURN_LEFT) I_JUMP) "
            "(opposite (opposite I_TURN_LEFT I_TURN_LEFT) I_JUMP))",
        ),
        (
            "walk after look around right",
            "(C walk (· after (V look (· around right))))",
            "(after (around (· (right I_TURN_RIGHT I_LOOK) (right I_TURN_RIGHT I_LOOK)) "
            "(· (right I_TURN_RIGHT I_LOOK) (right I_TURN_RIGHT I_LOOK))) I_WALK)",
        ),
        ("walk and run", "(C walk (· and run))", "(and I_WALK I_RUN)"),
    ],
)
def test_gold_trees_by_hand(command, source, target):
    gold = scan.gold(Example(command, scan.actions(command)))
    assert gold.source.pformat(margin=1000) == source
    assert gold.target.pformat(margin=1000) == target


@pytest.mark.parametrize(
    "command", ["", "turn", "jump left right", "fly", "walk and", "and run", "twice", "a after b and c"]
)
def test_what_is_no_command(command):
    with pytest.raises(DataError, match="is not a phrase of SCAN"):
        scan.actions(command)


# Official files.


def simple_files(folder, train, test):
    (folder / "simple_split").mkdir(parents=True, exist_ok=True)
    for name, pairs in ((scan.SIMPLE[0], train), (scan.SIMPLE[1], test)):
        (folder / name).write_text("".join(f"IN: {p.source} OUT: {p.target}\n" for p in pairs))


def test_the_official_simple_split_is_read(tmp_path):
    assert scan.official_simple(tmp_path) is None
    train, test = scan.simple(7)
    simple_files(tmp_path, train, test)
    found = scan.official_simple(tmp_path)
    assert found is not None
    assert [list(part) for part in found] == [list(train), list(test)]


def test_an_incomplete_simple_split(tmp_path):
    train, test = scan.simple(7)
    simple_files(tmp_path, train[1:], test)
    with pytest.raises(DataError, match="20,909 commands in 20,909 rows; expected 20,910, each once"):
        scan.official_simple(tmp_path)
    (tmp_path / scan.SIMPLE[1]).unlink()
    with pytest.raises(DataError, match=r"tasks_test_simple\.txt: cannot be read"):
        scan.official_simple(tmp_path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("IN: walk OUT: I_RUN", "line 2: 'walk' does not mean 'I_RUN'"),
        ("walk\tI_WALK", "line 2: got 'walk.tI_WALK'; expected 'IN: command OUT: actions'"),
        ("IN: fly OUT: I_FLY", "line 2: 'fly' is not a phrase of SCAN"),
    ],
)
def test_bad_rows_are_named(tmp_path, line, said):
    path = tmp_path / "tasks.txt"
    path.write_text(f"IN: run OUT: I_RUN\n{line}\n")
    with pytest.raises(DataError, match=said):
        scan.read_official(path)


def test_prepare_copies_the_simple_split(tmp_path):
    simple_files(tmp_path / "given" / "SCAN", *scan.simple(7))
    files = scan.prepare(tmp_path / "root", tmp_path / "given")
    assert [file.relative_to(tmp_path / "root" / "SCAN").as_posix() for file in files] == [*scan.SIMPLE]
    assert scan.official_simple(tmp_path / "root" / "SCAN") is not None
    with pytest.raises(DataError, match="expected the folder with the official SCAN files"):
        scan.prepare(tmp_path / "root", tmp_path)
    with pytest.raises(DataError, match="nothing to download"):
        scan.prepare(tmp_path / "root", None)
