"""Subgoal by subgoal: drive, check, retry, report."""
