"""Running tests on both databases."""

import pytest

BACKENDS = ("sqlite", "postgres")
"""Each is also the mark of tests that are about it alone."""


def on_both(metafunc: pytest.Metafunc) -> None:
    """Run each test that builds a database on both; a conftest calls this for the tests below it."""
    if "backend" in metafunc.fixturenames:
        alone = [backend for backend in BACKENDS if metafunc.definition.get_closest_marker(backend)]
        metafunc.parametrize("backend", alone or BACKENDS, indirect=True, scope="session")
