"""Runs against judgements: measures, and tests of their differences."""
