#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs all tests of the Python package beside PyTorch, TorchRec, JAX and others, which
# tools/test.sh does without: it skips the tests that need them.
#
#   tools/torch_test.sh [PYTEST ARGUMENT...]
#   tools/torch_test.sh python/tests/test_torchrec.py -k grid
#
# They are installed into build/venv-torch, as python/requirements-torch.txt pins them:
# 3 GB. Where pip finds no build of PyTorch for the CPU, it takes that for CUDA, whose
# libraries it then installs, too. The last line printed is "N passed, N failed";
# CKPTDB_LONG=1 also runs the long parts. Without PyPI nothing is run, and the exit
# code is 0.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  echo "torch_test.sh: $* failed" >&2
  echo "0 passed, 1 failed"
  exit 1
}

tools/setup.sh || fail "setting up"
if [[ ! -x build/venv/bin/python ]]; then
  echo "torch_test.sh: skipped, as there is no build/venv"
  echo "0 passed, 0 failed"
  exit
fi
cmake --preset release || fail "configuring"
cmake --build --preset release --target ckptdb_python || fail "building"

# Copied last, like in tools/setup.sh: it marks a complete environment.
venv=build/venv-torch
pins=python/requirements-torch.txt
pip() {
  "${venv}/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 "$@"
}
exec 9> build/venv-torch.lock
flock 9
if ! cmp --silent "${pins}" "${venv}/requirements.txt"; then
  echo "Making ${venv} from ${pins}"
  if ! /usr/bin/python3 -m venv --clear "${venv}" ||
    ! pip --constraint "${pins}" --only-binary :all: torch ||
    ! pip --no-deps --use-pep517 --requirement "${pins}"; then
    echo "torch_test.sh: skipped, as ${venv} could not be made"
    echo "0 passed, 0 failed"
    exit
  fi
  cp "${pins}" "${venv}/requirements.txt"
fi
flock --unlock 9

log=$(mktemp)
trap 'rm -f "${log}"' EXIT
[[ $# -gt 0 ]] || set -- python/tests
code=0
PYTHONPATH=$(pwd)/build/release/python "${venv}/bin/python" -m pytest "$@" 2>&1 |
  tee "${log}" || code=$?
count() {
  tail -n 1 "${log}" | sed -n -E "s/(^|.*[^0-9])([0-9]+) $1.*/\2/p"
}
# Errors of fixtures and of imports count as failures.
failed=$(($(count failed) + $(count 'errors?') + 0))
if [[ ${code} -ne 0 && ${failed} -eq 0 ]]; then
  failed=1
fi
echo "$(($(count passed) + 0)) passed, ${failed} failed"
exit "${code}"
