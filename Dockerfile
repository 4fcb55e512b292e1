# Images of loopmt for CPUs and for CUDA. docs/install.md describes their use. Not tested: no Docker daemon was available.
#   docker build --target cpu --build-arg TORCH_INDEX=ADDRESS --tag loopmt:cpu .
#   docker build --target cuda --tag loopmt:cuda .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS wheel
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN pip install --no-cache-dir --constraint constraints.txt build setuptools
COPY src src
RUN python -m build --no-isolation --wheel --outdir /wheel

FROM python:${PYTHON}-slim-bookworm AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONUNBUFFERED=1
COPY constraints.txt requirements-hashed.txt /tmp/
RUN pip install --require-hashes --no-deps --requirement /tmp/requirements-hashed.txt
RUN useradd --create-home --uid 1000 loopmt && install --directory --owner=loopmt --group=loopmt /work
WORKDIR /work
ENTRYPOINT ["loopmt"]
CMD ["--help"]

# TORCH_INDEX: the package index of CPU builds that pytorch.org names. Without it the image holds CUDA's libraries.
FROM packages AS cpu
ARG TORCH_INDEX=
RUN pip install --constraint /tmp/constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    "torch==$(sed -n 's/^torch==//p' /tmp/constraints.txt)"
COPY --from=wheel /wheel /tmp/wheel
RUN pip install --no-deps /tmp/wheel/*.whl
USER loopmt

# torch brings CUDA's libraries, the host its driver (NVIDIA Container Toolkit); triton compiles launchers with gcc.
FROM packages AS cuda
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN pip install --constraint /tmp/constraints.txt "torch==$(sed -n 's/^torch==//p' /tmp/constraints.txt)"
COPY --from=wheel /wheel /tmp/wheel
RUN pip install --no-deps /tmp/wheel/*.whl
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER loopmt
