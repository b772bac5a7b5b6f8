"""Pages about runs: one file each, that needs no network and no other file."""

from torch_ctree.viewing.report.run import Published as Published
from torch_ctree.viewing.report.run import write_run_report as write_run_report
