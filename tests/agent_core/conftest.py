"""What the core does, it does on both databases; what is said of SQLite alone is marked so."""

import pytest

BACKENDS = ("sqlite", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that builds a database on both."""
    if "backend" in metafunc.fixturenames:
        backends = BACKENDS[:1] if metafunc.definition.get_closest_marker("sqlite") else BACKENDS
        metafunc.parametrize("backend", backends, indirect=True, scope="session")
