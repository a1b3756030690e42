"""How fast it is: interleaved rounds in one run, ratios inside one round, never a time alone: docs/performance.md."""
