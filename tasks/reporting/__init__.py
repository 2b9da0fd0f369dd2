"""The report: a self-contained HTML page that shows the selected features, and how they were chosen."""

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.page import render_report

__all__ = ["ReportContent", "render_report"]
