"""The paper's tables: what was published, the runs that do it again, and their results."""

from torch_ctree.experiments.report import write_report as write_report
from torch_ctree.experiments.results import Result as Result
from torch_ctree.experiments.results import read_results as read_results
from torch_ctree.experiments.tables import TABLES as TABLES
from torch_ctree.experiments.tables import Column as Column
from torch_ctree.experiments.tables import Published as Published
from torch_ctree.experiments.tables import Row as Row
from torch_ctree.experiments.tables import Table as Table
