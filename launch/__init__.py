"""Command line and configuration; the one place where parts are put together."""
