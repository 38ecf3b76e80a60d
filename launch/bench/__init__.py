"""Benchmarks: a suite is a module here with `run(config, table) -> list[str]`; its rows go into the table."""
