"""How fast it is: rounds interleaved in one run, ratios inside one round, never a time alone. See docs/performance.md."""
