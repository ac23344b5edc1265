"""Run a blocking function in a thread of its own, so that one that hangs blocks neither calls nor the shutdown."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress


async def in_thread(work: Callable[[], object]) -> object:
    """Return what *work* returns, or raise what it raises.

    A thread cannot be stopped: when the caller is cancelled *work* runs on and its result is dropped. The thread is a
    daemon, and there is no pool: calls that hang take no place from others.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = context.run(work)
        except BaseException as caught:  # noqa: BLE001 - handed to the task that waits
            error = caught
        with suppress(RuntimeError):  # the loop is closed, the result is not needed any more
            loop.call_soon_threadsafe(_deliver, future, result, error)

    threading.Thread(target=run, name="parley-tool", daemon=True).start()
    return await future


def _deliver(future: "asyncio.Future[object]", result: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
