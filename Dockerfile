# The gateway, and with `python -m gateway.demo.upstream` and `.traffic` the demo: one image.
FROM python:3.13-slim-bookworm AS build
WORKDIR /build
# The environment has no pip of its own: the image's stays outside, and the last stage gets only what runs.
RUN python -m venv --without-pip /opt/thinkcap
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_CACHE_DIR=1
COPY requirements/run.txt requirements/build.txt requirements/
RUN pip --python /opt/thinkcap/bin/python install --quiet --require-hashes -r requirements/run.txt \
 && pip install --quiet --require-hashes --target /tools -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY gateway gateway
COPY telemetry telemetry
RUN PYTHONPATH=/tools pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip --python /opt/thinkcap/bin/python install --quiet --no-deps /wheels/*.whl

FROM python:3.13-slim-bookworm
COPY --from=build /opt/thinkcap /opt/thinkcap
COPY dashboards/compose/thinkcap.toml /etc/thinkcap/thinkcap.toml
ENV PATH=/opt/thinkcap/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080 9464
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s --retries=6 \
  CMD ["python", "-c", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 8080, timeout=2); c.request('GET', '/health/ready'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["thinkcap"]
CMD ["serve", "--config", "/etc/thinkcap/thinkcap.toml"]
