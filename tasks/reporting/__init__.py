"""The report: one self-contained HTML page that shows what a selection found, and how."""

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.page import render_report

__all__ = ["ReportContent", "render_report"]
