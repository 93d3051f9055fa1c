"""What goes wrong: for the user, or as the result of a peer."""


class Trouble(Exception):
    """An error that is nobody's result, with the next step for the user."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class Failure(Exception):
    """A peer that could not be measured: a result, with kernels.Status."""

    def __init__(self, status: str, reason: str, broken: bool = False) -> None:
        super().__init__(reason)
        self.status, self.broken = status, broken


def one_line(e: BaseException) -> str:
    lines = str(e).strip().splitlines()
    return f"{type(e).__name__}: {lines[0].strip()[:200]}" if lines else type(e).__name__
