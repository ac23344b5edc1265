"""The secret key and the bootstrap API key."""

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from agent_core.errors import ConfigError
from agent_core.store.access import shared_value as value_of
from app.settings import Settings
from app.storage import SECRET_NAME, Keys, check_secret, connected, load_api_key, load_keys, prepare_data
from tests.app.processes import PlainShell


def settings(tmp_path, **more) -> Settings:
    return Settings(_env_file=None, data=tmp_path / "data", agents=tmp_path, **more)  # type: ignore[call-arg]


def test_keys_are_made_once_for_this_user_only(tmp_path):
    """The secret key and the API key's hash are kept in files that only this user can read."""
    wanted = settings(tmp_path)
    prepare_data(wanted)
    keys, first = load_keys(wanted), load_api_key(wanted)
    assert load_keys(wanted) == keys
    for file in wanted.data.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(wanted.data.stat().st_mode) == 0o700
    assert first.generated
    assert first.fits(first.generated)


def test_the_api_key_is_shown_once_and_kept_as_a_hash(tmp_path):
    """The second start knows the key without being able to show it."""
    wanted = settings(tmp_path)
    prepare_data(wanted)
    made = load_api_key(wanted).generated or ""
    again = load_api_key(wanted)
    assert again.generated is None
    assert again.fits(made)
    assert not again.fits(made + "x")
    assert made not in (wanted.data / "api_key.sha256").read_text()


def test_what_is_set_beats_what_was_made(tmp_path):
    """PARLEY_API_KEY and PARLEY_SECRET_KEY leave the folder alone."""
    wanted = settings(tmp_path, api_key="mine", secret_key="s" * 32)
    assert load_api_key(wanted).fits("mine")
    assert load_keys(wanted).root == b"s" * 32
    assert not wanted.data.exists()


def test_purposes_share_no_key():
    """Each purpose has 32 bytes of its own, the same at every start."""
    keys = Keys(b"s" * 32)
    assert keys.derive("a") == Keys(b"s" * 32).derive("a")
    assert keys.derive("a") != keys.derive("b")
    assert len(keys.derive("a")) == 32
    assert "ssss" not in repr(keys)


@pytest.mark.parametrize(("file", "load"), [("secret.key", load_keys), ("api_key.sha256", load_api_key)])
def test_a_damaged_file_is_named(tmp_path, file, load):
    """A file that holds something else fails the start with its name and the remedy."""
    wanted = settings(tmp_path)
    prepare_data(wanted)
    (wanted.data / file).write_text("odd\n")
    with pytest.raises(ConfigError, match=file):
        load(wanted)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    """PARLEY_DATA under a file fails the start."""
    (tmp_path / "data").write_text("")
    wanted = settings(tmp_path)
    with pytest.raises(ConfigError, match="PARLEY_DATA"):
        prepare_data(wanted)


def test_processes_of_one_postgres_share_the_key_that_one_of_them_made(tmp_path, postgres_url):
    """However many start at once, one makes the key and shows it, all take it, and only its hash is kept."""
    wanted = settings(tmp_path, database_url=postgres_url, secret_key="s" * 32)
    with ThreadPoolExecutor(4) as processes:
        keys = list(processes.map(load_api_key, [wanted] * 4))
    made = [key.generated for key in keys if key.generated]
    assert len(made) == 1
    assert [key for key in keys if not key.fits(made[0])] == []
    with connected(postgres_url) as connection:
        values = connection.execute(text("SELECT value FROM kept")).scalars().all()
    assert values == [hashlib.sha256(made[0].encode()).digest()]
    assert not wanted.data.exists()
    assert load_api_key(settings(tmp_path, database_url=postgres_url, api_key="mine")).fits("mine")


def test_processes_of_one_postgres_have_one_secret(tmp_path, postgres_url):
    """A process with another PARLEY_SECRET_KEY than the first one does not start; the key itself is not kept."""
    for _ in range(2):
        check_secret(settings(tmp_path, database_url=postgres_url, secret_key="s" * 32))
    with pytest.raises(ConfigError, match="PARLEY_SECRET_KEY") as caught:
        check_secret(settings(tmp_path, database_url=postgres_url, secret_key="t" * 32))
    assert "\n" not in str(caught.value)
    with connected(postgres_url) as connection:
        assert b"ssss" not in (value_of(connection, SECRET_NAME) or b"ssss")


@pytest.mark.whole
async def test_a_second_secret_ends_the_start(plain_shell: PlainShell, postgres_url: str, tmp_path):
    """`parley worker` refuses to start with a secret of its own, in one line."""
    check_secret(settings(tmp_path, database_url=postgres_url, secret_key="s" * 32))
    assert "PARLEY_SECRET_KEY" in await plain_shell.refused(
        "worker", DATABASE_URL=postgres_url, PARLEY_SECRET_KEY="t" * 32
    )
