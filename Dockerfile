# SPDX-License-Identifier: Apache-2.0
# The tools of tools/packages.txt on Debian 12, so that no script needs root:
#
#   docker build -t ckptdb .
#   docker run --rm -v "$PWD":/src -u "$(id -u):$(id -g)" ckptdb tools/test.sh
FROM debian:12
WORKDIR /src
COPY tools/setup.sh tools/packages.txt tools/
RUN CKPTDB_BUILD_PYTHON=OFF tools/setup.sh && rm -rf /var/lib/apt/lists/*
ENV HOME=/tmp CCACHE_DIR=/tmp/ccache OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
CMD ["bash"]
