"""The report: a self-contained HTML page on the selected features and their selection."""

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.forms import render_report

__all__ = ["ReportContent", "render_report"]
