"""A torch without CUDA, as far as peers.py looks."""

__version__ = "9.9+cpu"


class cuda:
    @staticmethod
    def is_available() -> bool:
        return False
