"""What the core does, it does on both databases; what is said of SQLite alone is marked so."""

import pytest

from tests.both import on_both


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_both(metafunc)
