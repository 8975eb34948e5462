"""Evaluation of runs against judgements: measures, and significance tests of their differences."""

from denslice.evaluate.evaluation import Evaluation, as_run, evaluate, evaluate_files, without_self

__all__ = ["Evaluation", "as_run", "evaluate", "evaluate_files", "without_self"]
