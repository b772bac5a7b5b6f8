"""A page in a browser: what models answer, and with which trees.

The page knows no models: it talks to what is an ``Answers``. Nothing that is typed is kept: the server has no state of
a visitor, and everything that can be clicked or saved is already in the page.
"""

from torch_ctree.viewing.explorer.answers import Answers as Answers
from torch_ctree.viewing.explorer.answers import Explained as Explained
from torch_ctree.viewing.explorer.answers import Parsed as Parsed
