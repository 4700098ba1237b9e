"""One thing that does not add up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about ``about`` (an order, an asset, a delivery), what was expected, and what to do.

    ``kind`` is a short name that does not change between releases; ``order_no`` is empty where no order is concerned.
    """

    kind: str
    about: str
    found: str
    expected: str
    remedy: str
    order_no: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes two findings the same one, seen twice."""
        return self.kind, self.about

    @property
    def sentence(self) -> str:
        """The whole of it, for people."""
        return f"{self.about}: {self.found}; expected: {self.expected}; {self.remedy}"
