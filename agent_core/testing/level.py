"""A number that tests can wait for."""

import asyncio


class Level:
    """Hold a number; `reached` returns as soon as it is high enough."""

    def __init__(self) -> None:
        self.value = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    def set(self, value: int) -> None:
        self.value = value
        for wanted, future in self._waiting:
            if wanted <= value and not future.done():
                future.set_result(None)

    async def reached(self, wanted: int) -> None:
        """Return once the number is *wanted* or more, at once if it is already."""
        if self.value >= wanted:
            return
        entry = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await entry[1]
        finally:
            self._waiting.remove(entry)
