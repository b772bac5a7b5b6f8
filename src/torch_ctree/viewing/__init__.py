"""Trees and results to look at."""

from torch_ctree.viewing.folding import fold as fold
from torch_ctree.viewing.look import Look as Look
from torch_ctree.viewing.svg import svg as svg
from torch_ctree.viewing.terminal import draw as draw
from torch_ctree.viewing.text import visible as visible
from torch_ctree.viewing.text import width as width
