"""The report: one self-contained HTML page that says what a selection found, and how."""

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.render import render_report
from chaffinch.tasks.reporting.writing import report_of, write_report

__all__ = ["ReportContent", "render_report", "report_of", "write_report"]
