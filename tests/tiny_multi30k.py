"""Multi30k in small, with files of the same names and kinds."""

import gzip

TINY = {
    "train": {"de": ["Ein Hund.", "Zwei Männer.", "Drei Bäume."], "en": ["A dog.", "Two men.", "Three trees."]},
    "val": {"de": ["Ein Haus.", "Schnee."], "en": ["A house.", "Snow."]},
    "test_2016_flickr": {"de": ["Ein Ball.", "Sand."], "en": ["A ball.", "Sand."]},
    "test_2017_flickr": {"de": ["Ein Boot.", "Gras."], "en": ["A boat.", "Grass."]},
}


def tokenise(sentence):
    return sentence.lower().replace(".", " .")


def contents():
    """Every file of a tiny Multi30k, by name."""
    found = {}
    for stem, sentences in TINY.items():
        for language, lines in sentences.items():
            text = "".join(line + "\n" for line in lines)
            found[f"raw/{stem}.{language}.gz"] = gzip.compress(text.encode(), mtime=0)
            found[f"tok/{stem}.lc.norm.tok.{language}"] = tokenise(text).encode()
    return found


def put(folder, names=None):
    for name in names or contents():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents()[name])
    return folder
