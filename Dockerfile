# The server in a container: core and server alone, no root, and nothing to write but /index and the cache of compiled
# loops. docs/docker.md says how to run it.
FROM python:3.11-slim AS build
WORKDIR /source
COPY . .
RUN python -m venv /opt/denslice \
    && /opt/denslice/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt '.[serve]' \
    && /opt/denslice/bin/pip uninstall --yes --quiet pip setuptools

FROM python:3.11-slim
COPY --from=build /opt/denslice /opt/denslice
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin denslice \
    && install --directory --owner denslice --group denslice /index /var/cache/denslice
ENV PATH=/opt/denslice/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/denslice \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /index
VOLUME ["/index", "/var/cache/denslice"]
EXPOSE 8000
# The first start compiles the search loops; until the server has searched once, /readyz answers 503.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --start-interval=2s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["denslice"]
CMD ["serve", "/index/my.idx", "--host", "0.0.0.0"]
