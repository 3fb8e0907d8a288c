#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs everything that needs a GPU: the tests with the label `gpu`, the same
# tests under compute-sanitizer if it is installed, those of the Python package
# if python3 has PyTorch with CUDA, and the benchmarks, whose results go to
# docs/gpu.md.
#
#   tools/gpu_check.sh [BUILD]    BUILD: an existing build folder, of this tree
#                                 or copied from another machine; without it,
#                                 builds build/release
#
# A benchmark fails if it misses a threshold, which it names. Exits with 77 if
# there is no GPU. The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(gpu_tests train_ctr_gpu_tests train_ctr cuda_bench)
build=${1:-}
if [[ ${build} == -* ]]; then
  echo "gpu_check.sh: \"${build}\" is not a build folder" >&2
  exit 2
fi
# The driver's device files on Linux and WSL.
if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
  echo "gpu_check.sh: no GPU found; nothing was run"
  exit 77
fi
if [[ -z ${build} ]]; then
  tools/setup.sh
  cmake --preset release -DCKPTDB_CUDA=ON > /dev/null
  build=build/release
  cmake --build "${build}" --target "${targets[@]}"
fi
for program in "${targets[@]}"; do
  if [[ ! -x ${build}/bin/${program} ]]; then
    echo "gpu_check.sh: ${build}/bin/${program} does not exist; configure with" \
      "CKPTDB_CUDA=ON and build the targets ${targets[*]}" >&2
    exit 1
  fi
done
# Opens the GPU and prints its name.
code=0
"${build}/bin/cuda_bench" 0 || code=$?
if [[ ${code} -eq 77 ]]; then
  echo "gpu_check.sh: no GPU found; nothing was run"
  exit 77
elif [[ ${code} -ne 0 ]]; then
  echo "gpu_check.sh: this machine's GPU does not work" >&2
  exit 1
fi

passed=0
failed=0
skipped=0
run() {
  echo "== $*"
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
}

export CKPTDB_REQUIRE_GPU=1
# compute-sanitizer is next to nvcc, which is often not in PATH.
PATH=${PATH}:/usr/local/cuda/bin
mapfile -t programs < <(find "${build}/bin" -maxdepth 1 -type f -executable \
  -name '*gpu*_tests' | sort)
for program in "${programs[@]}"; do
  run "${program}"
  if command -v compute-sanitizer > /dev/null; then
    # Tests check the errors of calls themselves: one requests more memory than
    # the device has.
    # Kernels that copy lanes use no shared memory, which is all that racecheck
    # checks; it does not return from them.
    for tool in "memcheck --report-api-errors no" synccheck \
      "racecheck --kernel-name-exclude kernel_substring=CopyLanes"; do
      # The trainer's kernels use no shared memory either.
      [[ ${tool} == racecheck* && ${program} != */gpu_tests ]] && continue
      # Excludes the programs that a test starts, because it kills some of them.
      # shellcheck disable=SC2086
      run timeout 300 compute-sanitizer --tool ${tool} --error-exitcode 1 \
        --target-processes application-only "${program}"
    done
  else
    skipped=$((skipped + 1))
  fi
done
if [[ -d ${build}/python/ckptdb ]] &&
  python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
    2> /dev/null; then
  run env "PYTHONPATH=${build}/python:${PYTHONPATH:-}" python3 -m pytest -q \
    python/tests/test_cuda.py
else
  echo "the Python package is not tested: it is not built, or python3 has no" \
    "PyTorch that finds the GPU"
fi
echo "== measured on $(date -u +%Y-%m-%d)"
run "${build}/bin/cuda_bench"
run "${build}/bin/cuda_bench" rows      # 2.4 GiB
run "${build}/bin/cuda_bench" rows 42   # 10 GiB

if [[ ${skipped} -gt 0 ]]; then
  echo "${skipped} programs without sanitizers: compute-sanitizer is not installed"
fi
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
