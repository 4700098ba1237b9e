"""What duetime is tested with, for the tests of those who use it or write a backend of their own."""

from duetime.testing.manual_clock import ManualClock

__all__ = ["ManualClock"]
