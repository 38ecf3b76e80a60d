"""Robots, tasks, scenes and cameras in MuJoCo."""
