"""Where the log and its views live. Implementations of one interface, checked by one contract suite."""
