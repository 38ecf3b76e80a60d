"""Loops: roll-outs, evaluation, training, metrics."""
