"""Pictures as SVG."""

from __future__ import annotations

import hashlib
import io
import re

from matplotlib.figure import Figure

from torch_ctree.viewing.pictures.style import INK, styled
from torch_ctree.viewing.text import visible


@styled
def as_svg(figure: Figure, about: str = "", background: str | None = None) -> str:
    """A picture as an ``<svg>`` element, the same every time: a file of its own, or a part of an HTML page.

    about: what is to be seen, for those who do not see it
    background: a colour. Without one it is transparent, and what has no fill behind it is in ``currentColor``: on a
        page that has the colour of the page's letters, in a file of its own light or dark as the reader has set it.

    Text stays text. Ids are of this picture alone, so that a page can have many.
    """
    content = io.StringIO()
    figure.savefig(content, format="svg", facecolor=background or "none", metadata=dict.fromkeys(_METADATA))
    _, start, text = content.getvalue().partition("<svg ")
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", start + text, flags=re.DOTALL)
    text = re.sub(r"\s*<style.*?</style>", "", text, count=1, flags=re.DOTALL)  # it would be of the whole page
    text = _UNHEARD_OF.sub(lambda found: visible(found[0]), text)
    text = re.sub(r'<g id="[\w.]+_\d+">', "<g>", text)
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)
    head, _, rest = text.partition(">")
    head += f' role="img" aria-label="{_escaped(about)}"' if about else ' role="img"'
    head += ' style="max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt">'
    if background is None:
        head, rest = head + _SCHEMES, rest.replace(INK, "currentColor")
    return head + rest.rstrip() + "\n"


_UNHEARD_OF = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # by XML
_METADATA = ("Date", "Creator", "Format", "Type")
_SCHEMES = (  # of a file of its own: on a page, the root is the page
    f"\n <style>svg:root {{ color: {INK}; color-scheme: light dark }} "
    "@media (prefers-color-scheme: dark) { svg:root { color: #e3e7ec } }</style>"
)


def _escaped(text: str) -> str:
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
