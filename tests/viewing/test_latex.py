import re
import shutil
import subprocess

import pytest
from hypothesis import given, settings

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, forest
from torch_ctree.viewing.latex import escaped

from .trees import DEEP, balanced, chain, known, trees

FULL = Look(probabilities=True, confidence=True)


def tree_of(text: str) -> str:
    """The lines after the style."""
    return text.split("  }\n", 1)[1].removesuffix("\\end{forest}\n").strip()


def on_one_line(text: str) -> str:
    return "".join(line.strip() for line in tree_of(text).splitlines())


def test_by_hand():
    assert tree_of(forest(balanced(["jump", "I_RUN", "50%"]))) == r"[[[{jump}][{I\_RUN}]][{50\%}]]"
    assert tree_of(forest("walk")) == "[{walk}]"
    assert tree_of(forest(Vertex(""))) == "[{}]"
    assert tree_of(forest(Vertex(children=(Vertex("a"),), label="NP"))) == "[{NP}[{a}]]"
    assert tree_of(forest(balanced(["a"] * 3), Look(fold=True))) == r"[{\ensuremath{\times}3}[{a}]]"


def test_what_is_known():
    colours = "rounded corners=0.4em, text=black, fill=sure3!0!sure2"
    number = r"\scriptsize \ensuremath{\wedge}75\%"
    words = r"[{a\\\scriptsize 25\%}][{b\\\scriptsize 25\%}]"
    text = forest(known(balanced(["a", "b"])), FULL)
    assert on_one_line(text) == rf"[{{50\%\\{number}}}, {colours}{words}]"
    assert text.startswith("% % in colour: posterior probability of the constituent\n")
    assert "\\definecolor{sure2}{HTML}{67BFC0}\n" in text
    assert "definecolor" not in forest(balanced(["a", "b"]), FULL)


def test_from_left_to_right():
    tree, sideways = known(balanced(["a", "b"])), Look(probabilities=True, sideways=True)
    assert "grow'=east" in forest(tree, sideways)
    words = r"[{a\ \scriptsize 25\%}][{b\ \scriptsize 25\%}]"
    assert on_one_line(forest(tree, sideways)) == rf"[{{\scriptsize \ensuremath{{\wedge}}75\%}}{words}]"
    wide = balanced(["longer"] * 40)
    assert "grow'=east" in forest(wide)
    assert "grow'=east" not in forest(wide, Look(sideways=False))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("50% of $x_1^2$ & #", r"50\% of \$x\_1\textasciicircum{}2\$ \& \#"),
        ("\\frac{~}", r"\textbackslash{}frac\{\textasciitilde{}\}"),
        ("a\x07", r"a\textbackslash{}x07"),
        ("--", "{-}{-}"),
        ("▁a", r"\textunderscore{}a"),
        ("?`", r"?{\char96}"),
        (",,", "{,}{,}"),
        ("<script>", r"\textless{}script\textgreater{}"),
        ("熊 é", "熊 é"),
    ],
)
def test_escaped(text, expected):
    assert escaped(text) == expected


def braces(text: str) -> list[str]:
    return re.findall(r"(?<!\\)[{}]|(?<!\\)[\[\]]", text)


@pytest.mark.parametrize("look", [Look(), FULL])
@settings(max_examples=15)
@given(tree=trees)
def test_all_that_is_opened_is_closed(look, tree):
    text = forest(tree, look, standalone=True)
    open_ = []
    for mark in braces(text):
        if mark in "[]" and open_[-1:] == ["{"]:  # of a word
            continue
        if mark in "{[":
            open_.append(mark)
        else:
            assert open_.pop() + mark in ("{}", "[]")
    assert open_ == []
    nodes = tree_of(forest(tree, look))
    assert len(re.findall(r"(?<!\\)\[", re.sub(r"\{(?:[^{}\\]|\\.|\{[^{}]*\})*\}", "", nodes))) == len(
        list(tree.walk())
    )


def test_a_whole_document():
    text = forest(balanced(["a", "b"]), standalone=True)
    assert text.startswith("\\documentclass[border=4pt]{standalone}\n")
    assert text.endswith("\\end{forest}\n\\end{document}\n")
    assert forest(balanced(["a", "b"])) in text


def test_any_depth():
    assert forest(chain(DEEP)).count("[{") == len(DEEP)


TYPESET = {
    "what TeX reads otherwise": (balanced([*r"""%_^$#&\~{}[]<>|"'`-,=·×@!""", "\\frac{~}", "?`", "--", ""]), Look()),
    "all that is known": (known(balanced(["a"] * 5)), FULL),
    "from left to right": (known(balanced(["a"] * 5)), Look(probabilities=True, confidence=True, sideways=True)),
    "folded": (known(balanced(["a"] * 8)), Look(confidence=True, fold=True)),
    "deep": (chain([f"w{n}" for n in range(200)]), Look()),
}


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs LaTeX, with the package forest")
@pytest.mark.parametrize(("tree", "look"), TYPESET.values(), ids=TYPESET)
def test_latex_takes_it(tmp_path, tree, look):
    (tmp_path / "tree.tex").write_text(forest(tree, look, standalone=True))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "tree.tex"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
