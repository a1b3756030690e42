"""The shell that joins the rules to storage and to the world: one write path, one read path, one effect path."""
