"""What is typed into the page: checked before a model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from torch_ctree.data import DataError, Encoder, Vocabulary
from torch_ctree.data.errors import shown

MOST_LETTERS = 2_000
"""Of a source or a target."""
MOST_NAMED = 5
"""Words that one line is about."""
LONG = 30
"""Letters of a word that is shown in part, and that no word is near to."""


def cleaned(text: str | None) -> str:
    """With one blank between words, and one at the end if the last is over.

    Half a surrogate, which no text can have, becomes a question mark.
    """
    text = (text or "").encode(errors="replace").decode()
    words = " ".join(text.split())
    return f"{words} " if words and text[-1].isspace() else words


def check(name: str, text: str, words: Encoder, most_words: int) -> str:
    """Refuse what a model cannot read, in one line → what is to be said of what it can; mostly nothing.

    name: what the text is: source or target
    """
    if len(text) > MOST_LETTERS:
        raise DataError(f"The {name} is too long: {len(text):,} letters; at most {MOST_LETTERS:,} are read here.")
    if (count := len(text.split())) > most_words:
        raise DataError(f"The {name} is too long: {count:,} words; at most {most_words} are read here.")
    if not isinstance(words, Vocabulary) or not (strange := strangers(text, words)):
        return ""
    if words.unknown is None:
        raise DataError(f"Unknown in a {name}: {_listed(strange, words)}. {_some(words)}")
    return f"Unknown in a {name}, and read as {words.unknown}: {_listed(strange, words)}."


def unfinished(text: str, words: Encoder) -> str:
    """The end of what is being typed, if it is no word yet but may become one with the next letters; mostly nothing."""
    last = text[text.rfind(" ") + 1 :]
    if not last or not isinstance(words, Vocabulary) or last in words:
        return ""
    return last if any(word.startswith(last) for word in words) else ""


def strangers(text: str, words: Vocabulary) -> list[str]:
    """The words that are not known, each once."""
    return [word for word in dict.fromkeys(text.split()) if word not in words]


def _listed(strange: Sequence[str], words: Vocabulary) -> str:
    """Each with the known words next to it."""
    named = ", ".join(_with_nearest(word, words) for word in strange[:MOST_NAMED])
    return f"{named} and {len(strange) - MOST_NAMED} more" if len(strange) > MOST_NAMED else named


def _with_nearest(word: str, words: Vocabulary) -> str:
    near = get_close_matches(word, words, n=2, cutoff=0.7) if len(word) <= LONG else []
    hint = f" ({' or '.join(near)}?)" if near else ""
    return f"{shown(word, LONG)}{hint}"


def _some(words: Vocabulary) -> str:
    """Known words, so that one can begin."""
    some = [word for word in words if word != words.unknown][:8]
    return f"Known are {', '.join(some)}{', …' if len(words) > len(some) else '.'}"
