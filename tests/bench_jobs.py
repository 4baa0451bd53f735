"""The job of the benchmark: nothing."""


async def nothing() -> None:
    """Ends at once."""
