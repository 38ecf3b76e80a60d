"""One module a verb: `KEYS` and `run(config, folder) -> Outcome`; thin over `embodied_launch.api`."""
