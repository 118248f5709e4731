# syntax=docker/dockerfile:1
# Two stages: the first installs what the lock pins by hash, the second holds only the result.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/mcphub
COPY requirements.lock pyproject.toml README.md LICENSE ./
RUN /opt/mcphub/bin/pip install --require-hashes --requirement requirements.lock
COPY mcphub mcphub
COPY tenants tenants
COPY tracing tracing
COPY oauth oauth
COPY connectors connectors
COPY gateway gateway
COPY console console
RUN /opt/mcphub/bin/pip install --no-build-isolation --no-deps --no-index . \
    && /opt/mcphub/bin/python -m compileall -q /opt/mcphub/lib

FROM python:${PYTHON}-slim
ENV PATH=/opt/mcphub/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --no-create-home --home-dir /tmp mcphub
COPY --from=build /opt/mcphub /opt/mcphub
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["mcphub"]
CMD ["web", "--host", "0.0.0.0", "--port", "8000"]
