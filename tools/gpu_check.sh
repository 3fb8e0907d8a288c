#!/bin/bash
# Runs on a machine with a GPU all that needs one: the tests with the label
# `gpu`, again under compute-sanitizer where it is installed, and the bench,
# whose table goes to docs/gpu.md.
#
#   tools/gpu_check.sh [BUILD]    BUILD: a build that is there, of this tree or
#                                 carried from another machine; without it,
#                                 build/release is built
#
# A bench fails if it misses a bar, which it names. Exits with 77 where there is
# no GPU, and says so. The last line printed is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(gpu_tests train_ctr_gpu_tests train_ctr cuda_bench cuda_row_bench)
build=${1:-}
if [[ ${build} == -* ]]; then
  echo "gpu_check.sh: \"${build}\" is no folder of a build" >&2
  exit 2
fi
# The driver's device, of Linux and of WSL.
if [[ ! -e /dev/nvidiactl && ! -e /dev/dxg ]]; then
  echo "gpu_check.sh: there is no GPU here, so nothing was run"
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
    echo "gpu_check.sh: ${build}/bin/${program} is not there; configure with" \
      "CKPTDB_CUDA=ON and build the targets ${targets[*]}" >&2
    exit 1
  fi
done
# It opens the GPU and names it.
code=0
"${build}/bin/cuda_bench" 0 || code=$?
if [[ ${code} -eq 77 ]]; then
  echo "gpu_check.sh: there is no GPU here, so nothing was run"
  exit 77
elif [[ ${code} -ne 0 ]]; then
  echo "gpu_check.sh: the GPU of this machine does not work" >&2
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
# The toolkit has compute-sanitizer beside nvcc, which is often not in PATH.
PATH=${PATH}:/usr/local/cuda/bin
mapfile -t programs < <(find "${build}/bin" -maxdepth 1 -type f -executable \
  -name '*gpu*_tests' | sort)
for program in "${programs[@]}"; do
  run "${program}"
  if command -v compute-sanitizer > /dev/null; then
    # Errors of calls are the tests' own to expect: one asks for more memory
    # than there is.
    for tool in "memcheck --report-api-errors no" racecheck synccheck; do
      # Not the programs that a test starts: some of them it kills.
      # shellcheck disable=SC2086
      run compute-sanitizer --tool ${tool} --error-exitcode 1 \
        --target-processes application-only "${program}"
    done
  else
    skipped=$((skipped + 3))
  fi
done
echo "== measured on $(date -u +%Y-%m-%d)"
run "${build}/bin/cuda_bench"
run "${build}/bin/cuda_row_bench"      # 2.4 GiB
run "${build}/bin/cuda_row_bench" 42   # 10 GiB

if [[ ${skipped} -gt 0 ]]; then
  echo "${skipped} skipped: compute-sanitizer is not installed"
fi
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
