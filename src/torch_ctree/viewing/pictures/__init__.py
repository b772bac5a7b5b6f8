"""Pictures that explain, made of plain numbers: matplotlib's figures, and SVG of them."""

from torch_ctree.viewing.pictures.attending import attention as attention
from torch_ctree.viewing.pictures.heat import heat_map as heat_map
from torch_ctree.viewing.pictures.histograms import Counts as Counts
from torch_ctree.viewing.pictures.histograms import seed_histogram as seed_histogram
from torch_ctree.viewing.pictures.intervals import leaf_intervals as leaf_intervals
from torch_ctree.viewing.pictures.lanes import Lane as Lane
from torch_ctree.viewing.pictures.lanes import every_seed as every_seed
from torch_ctree.viewing.pictures.learning import learning_curves as learning_curves
from torch_ctree.viewing.pictures.lengths import accuracy_by_length as accuracy_by_length
from torch_ctree.viewing.pictures.markup import as_svg as as_svg
from torch_ctree.viewing.pictures.spans import span_triangle as span_triangle
from torch_ctree.viewing.pictures.table import Alphas as Alphas
from torch_ctree.viewing.pictures.table import alphas_of as alphas_of
from torch_ctree.viewing.pictures.table import dp_table as dp_table
