"""What is said of a client that cannot be had."""


class Absent(Exception):
    """The text says why and what to do."""
