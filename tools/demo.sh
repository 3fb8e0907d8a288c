#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds, and demonstrates ckptdb in about a minute: a trainer that
# saves changed rows is killed in the middle of a save, resumes from its newest
# checkpoint, and ends with the same state as one that was never killed. A
# second process that follows it from save to save ends with the same state,
# too.
#
#   tools/demo.sh [FILE criteo|movielens]
#
# FILE is a click log to train on; without it the trainer generates one. The
# store is in a temporary folder, which is removed at the end unless
# CKPTDB_DEMO_KEEP is set.
set -euo pipefail

fail() {
  echo "demo.sh: $*" >&2
  exit 1
}

data=()
case $# in
  0) ;;
  2)
    [[ -r $1 ]] || fail "cannot read \"$1\""
    data=(--data "$(realpath "$1")" --format "$2")
    ;;
  *) fail "usage: tools/demo.sh [FILE criteo|movielens]" ;;
esac

cd "$(dirname "$0")/.."

readonly bin=build/release/bin
readonly steps=600 save_every=50 crash_step=500
readonly crash_point=publish:ingested
readonly killed=137 # 128 + SIGKILL, as a shell reports it

CKPTDB_BUILD_PYTHON=OFF tools/setup.sh
cmake --preset release
cmake --build --preset release --target train_ctr ckptdb_tool

work=$(mktemp -d)
readonly work
follower=
clean_up() {
  if [[ -n ${follower} ]]; then kill "${follower}" || true; fi
  if [[ -n ${CKPTDB_DEMO_KEEP:-} ]]; then
    echo "The stores are in ${work}"
  else
    rm -rf "${work}"
  fi
}
trap clean_up EXIT

say() { printf '\n=== %s\n' "$*"; }

run() {
  echo "\$ $*"
  "$@"
}

# train STORE [FLAG...]
train() {
  local store=$1
  shift
  run "${bin}/train_ctr" --store "${work}/${store}" --steps "${steps}" \
    --batch 256 --save-every "${save_every}" --delta --keep 6 --seed 1 \
    "${data[@]}" "$@"
}

# Prints the digest of the final state from a run's JSON.
digest_of() {
  sed -n -E 's/.*"digest": *"?([0-9a-zA-Z]+)"?.*/\1/p' "$1" | tail -n 1
}

say "A run of ${steps} steps without faults, which saves changed rows"
train calm --json "${work}/calm.json"

say "The same run, killed in the save of step ${crash_step}," \
  "at ${crash_point}"
code=0
# A subshell reports the kill on the terminal.
(train crashed --crash-at "${crash_step}:${crash_point}") || code=$?
[[ ${code} -eq ${killed} ]] ||
  fail "the trainer ended with code ${code}, not ${killed} (SIGKILL)"
echo "Killed by SIGKILL: exit code ${code}"

say "Step ${crash_step} is missing from the store: its save did not commit"
run "${bin}/ckptdb" ls --store "${work}/crashed"

say "It resumes from the newest checkpoint, and a second process follows it"
run "${bin}/train_ctr" --store "${work}/crashed" --follow \
  --until-step "${steps}" --json "${work}/follower.json" \
  2>"${work}/follower.log" &
follower=$!
train crashed --resume --json "${work}/crashed.json"
wait "${follower}" || fail "the follower: $(<"${work}/follower.log")"
follower=

say "The follower's log"
cat "${work}/follower.log"

say "The steps in the store"
run "${bin}/ckptdb" ls --store "${work}/crashed"
run "${bin}/ckptdb" show "${steps}" --store "${work}/crashed"
run "${bin}/ckptdb" verify --store "${work}/crashed"

calm=$(digest_of "${work}/calm.json")
crashed=$(digest_of "${work}/crashed.json")
copy=$(digest_of "${work}/follower.json")
say "Digest of the state at step ${steps}"
echo "never killed:       ${calm}"
echo "killed and resumed: ${crashed}"
echo "follower:           ${copy}"
[[ -n ${calm} && ${calm} == "${crashed}" && ${calm} == "${copy}" ]] ||
  fail "the digests differ"

say "The same in Python (docs/python.md), after tools/wheel.sh and pip install:"
echo "python examples/python/two_tower.py --store STORE --steps ${steps}"
