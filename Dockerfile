# The suite itself:  docker build -t conformance .   docker run --rm -v "$PWD/runs:/runs" conformance run --adapter reference
#
# Where no registry is to be reached, BASE_IMAGE is any Debian with Python 3.11 or newer. Where no index of packages is, a
# folder wheels/ beside this file has what requirements/ locks (pip download), with --build-arg PIP_NO_INDEX=1; another
# index is --build-arg PIP_INDEX_URL=...
#
# It runs as a user of its own. A power loss needs root, loop devices and mounts: docker run --user root --privileged.
ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
# python-qpid-proton has no wheel: it is compiled here, and the compiler stays behind.
RUN set -e; missing=""; \
    for tool in gcc pkg-config; do command -v $tool >/dev/null || missing="$missing $tool"; done; \
    pkg-config --exists openssl 2>/dev/null || missing="$missing libc6-dev libssl-dev"; \
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"; \
    header=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h; \
    [ -f "$header" ] || missing="$missing python3-dev"; \
    if [ -n "$missing" ]; then apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; fi
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ARG PIP_TRUSTED_HOST=
ARG PIP_NO_INDEX=
COPY pyproject.toml README.md LICENSE wheels* /source/wheels/
COPY conformance /source/conformance
COPY docs /source/docs
COPY suites /source/suites
COPY fixtures /source/fixtures
COPY reports /source/reports
COPY requirements /source/requirements
# Everything is checked by its hash, the tools that build too: nothing is built in isolation, with what the index has today.
RUN set -e; cd /source; mv wheels/pyproject.toml wheels/README.md wheels/LICENSE .; \
    export PIP_NO_CACHE_DIR=1 PIP_FIND_LINKS=wheels PIP_WHEEL_DIR=built; \
    python3 -m venv tools; \
    tools/bin/pip install --require-hashes --requirement requirements/build.txt; \
    tools/bin/pip wheel --require-hashes --requirement requirements/image.txt --no-build-isolation; \
    tools/bin/pip wheel --no-deps --no-build-isolation .; \
    python3 -m venv /opt/conformance; \
    /opt/conformance/bin/pip install --no-index --no-deps built/*.whl

FROM ${BASE_IMAGE}
# strace: the faults at the disk. util-linux and e2fsprogs, for a power loss, are part of every Debian.
RUN set -e; missing=""; \
    command -v strace >/dev/null || missing="$missing strace"; \
    ldconfig -p | grep -q libssl.so.3 || missing="$missing libssl3"; \
    if [ -n "$missing" ]; then \
        apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing && rm -rf /var/lib/apt/lists/*; \
    fi; \
    useradd --create-home --uid 1000 conformance && install -d -o conformance -g conformance /runs
COPY --from=build /opt/conformance /opt/conformance
ENV PATH=/opt/conformance/bin:$PATH
USER conformance
WORKDIR /runs
RUN conformance --version
ENTRYPOINT ["conformance"]
CMD ["--help"]
