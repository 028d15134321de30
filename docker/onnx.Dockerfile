# The service on a CPU without PyTorch, for folders that `boustro export` wrote. From the root of the repository:
#   docker build -f docker/onnx.Dockerfile -t boustro-onnx .
#   docker run -p 8000:8000 -v "$PWD/ner-onnx:/models/ner:ro" boustro-onnx /models/ner
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH PIP_NO_CACHE_DIR=1
COPY constraints.txt ./
# Boustro's own list of packages names PyTorch; what an exported folder needs is named here instead.
RUN pip install --constraint constraints.txt onnxruntime tokenizers numpy filelock tqdm rich fastapi uvicorn \
    websockets prometheus-client
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# The pair of the package is inside an exported folder already.
RUN rm -r src/boustro/data/starter && pip install --no-deps .
# What running a graph does not need: onnxruntime's library for C and its tools, numpy's tests, the client of the Hub.
RUN pip uninstall --yes huggingface-hub hf-xet pip \
    && cd /venv/lib/python3.12/site-packages \
    && rm -rf onnxruntime/capi/libonnxruntime.so* onnxruntime/transformers onnxruntime/quantization onnxruntime/tools \
    && find . -name tests -type d -prune -exec rm -r {} + && find . -name __pycache__ -prune -exec rm -r {} +

FROM python:3.12-slim
RUN useradd --create-home --uid 1000 boustro
COPY --from=build /venv /venv
USER boustro
WORKDIR /home/boustro
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
STOPSIGNAL SIGTERM
# Arguments of `docker run` are folders and options of `boustro serve`. 0.0.0.0 is the container's own network.
ENTRYPOINT ["boustro", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/models/ner"]
