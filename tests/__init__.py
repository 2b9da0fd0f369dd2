"""Tests mirror the rooms."""
