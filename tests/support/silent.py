"""An observer that hears nothing: what a test wants to hear, it overrides."""

from duetime.observer import Attempt, Followed, Watched
from duetime.store import Failure, SweepRun


class SilentObserver:
    """Fulfils ``duetime.observer.Observer``."""

    def attempted(self, attempt: Attempt) -> None:
        """Nothing."""

    def swept(self, run: SweepRun) -> None:
        """Nothing."""

    def released(self, *, kind: str, ref: str, holds: int) -> None:
        """Nothing."""

    def followed(self, followed: Followed) -> None:
        """Nothing."""

    def watched(self, watched: Watched) -> None:
        """Nothing."""

    def failed(self, failure: Failure) -> None:
        """Nothing."""

    def troubled(self, what: str, error: BaseException) -> None:
        """Nothing."""
