# An image for `orderfree serve`. The model directory is mounted at /model, a file with the token at /run/secrets/token:
#
#   docker build -t orderfree .
#   docker run -p 8000:8000 -v "$PWD/runs/news:/model:ro" -v "$PWD/token:/run/secrets/token:ro" orderfree
#
# --build-arg TORCH_INDEX=URL installs torch from another package index, such as one with CPU builds.
FROM python:3.12-slim AS build
ARG TORCH_INDEX=""
WORKDIR /src
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN pip install --no-cache-dir -c constraints.txt ".[serve,transformers,onnx]"

FROM python:3.12-slim
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH OMP_WAIT_POLICY=PASSIVE
RUN useradd --create-home orderfree
USER orderfree
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["orderfree", "serve", "/model", "--host", "0.0.0.0", "--token-file", "/run/secrets/token"]
