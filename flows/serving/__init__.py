"""Deployments, automations and the process that serves them."""
