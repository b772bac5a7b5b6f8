"""Pages about runs: one file each, that needs no network and no other file."""

from torch_ctree.viewing.report.run import REPORT as REPORT
from torch_ctree.viewing.report.run import Beside as Beside
from torch_ctree.viewing.report.run import write_run_report as write_run_report
