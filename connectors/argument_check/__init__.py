"""Checks a call's arguments against the tool's input schema, which a stranger wrote; pure layer."""

from connectors.argument_check.checker import ArgumentChecker, shared_checker
from connectors.argument_check.rules import CheckResult, Reason

__all__ = ["ArgumentChecker", "CheckResult", "Reason", "shared_checker"]
