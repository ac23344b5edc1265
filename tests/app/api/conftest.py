"""What the API answers, it answers on both databases."""

import pytest

from tests.both import on_both


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_both(metafunc)
