# Parley as an image: the wheel of this checkout, what requirements.lock pins, and nothing that builds or tests it.
#
#   docker build -t parley .
#   docker run --rm -p 127.0.0.1:8000:8000 -v parley:/data parley
#
# Agents are in /parley/agents; mount your own over it. Keys and DATABASE_URL come from the environment at run time.

ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# What changes seldom comes first: a change of the code installs nothing again.
COPY requirements.lock requirements-build.lock ./
RUN python -m pip install --require-hashes --requirement requirements-build.lock
RUN python -m venv /opt/parley \
    && /opt/parley/bin/python -m pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY agent_core agent_core
COPY app app
COPY channels channels
COPY migrations migrations
COPY parley parley
RUN python -m hatchling build --target wheel --directory /wheels \
    && /opt/parley/bin/python -m pip install --no-deps --no-index /wheels/*.whl \
    && /opt/parley/bin/python -m pip uninstall --yes setuptools pip

FROM python:${PYTHON}-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin parley \
    && install --directory --owner=parley --group=parley --mode=0700 /data
COPY --from=build /opt/parley /opt/parley
WORKDIR /parley
COPY agents agents
ENV PATH=/opt/parley/bin:$PATH PYTHONUNBUFFERED=1 HOST=0.0.0.0 PORT=8000 PARLEY_DATA=/data
USER parley
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=4)"]
# `exec`: the signals that end a container reach the server, which ends its streams and hands on its runs.
CMD ["sh", "-c", "parley migrate && exec parley serve"]
