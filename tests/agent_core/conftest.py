"""What the core does, it does on both databases; what is said of SQLite alone is marked so."""

import pytest

BACKENDS = ("sqlite", "postgres")
"""Each is also the mark of tests that are about it alone."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that builds a database on both."""
    if "backend" in metafunc.fixturenames:
        alone = [backend for backend in BACKENDS if metafunc.definition.get_closest_marker(backend)]
        metafunc.parametrize("backend", alone or BACKENDS, indirect=True, scope="session")
