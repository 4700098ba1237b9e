"""After each test nothing runs on: whoever starts a task in the background also ends it."""

import asyncio
import inspect
from collections.abc import AsyncIterator

import pytest

LEAVING_SECONDS_MAX = 0.5


@pytest.fixture(autouse=True)
def no_task_left(request: pytest.FixtureRequest) -> None:
    """Set up before every other fixture of an asynchronous test, so it looks after all of them are torn down."""
    function = getattr(request, "function", None)
    if inspect.iscoroutinefunction(function):
        request.getfixturevalue("task_watch")


@pytest.fixture
async def task_watch() -> AsyncIterator[None]:
    """Fail the test that leaves a task running; one that is already ending may finish."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    if left:
        _, left = await asyncio.wait(left, timeout=LEAVING_SECONDS_MAX)
    if left:
        names = "\n".join(f"  {task.get_name()}: {task.get_coro()}" for task in left)
        pytest.fail(f"tasks still running after the test:\n{names}", pytrace=False)
