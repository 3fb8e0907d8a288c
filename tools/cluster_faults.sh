#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Injects faults between hosts: trains on the hosts of a cluster started with
# tools/cluster.sh, injects a fault, and checks the store afterwards.
#
#   tools/cluster_faults.sh [--fs moosefs|glusterfs] [--coherent] [--hosts N]
#                           [--bin DIR] [--rounds N] [--seed N] [--keep]
#                           [--only RANK:POINT] FAULT...
#
#   kill      SIGKILL of one rank, --rounds times (20): at each crash point of
#             db/options.h that the rank reaches, between two saves
#             ("train"), and at a random time ("time"); --only repeats one of them
#   pause     cuts a host's network for 5 s; the ranks wait longer
#   cut       cuts a host's network for longer than the ranks wait
#   cut-owner the same for the owner's host
#   takeover  cuts off the owner's host during training, lets the other hosts
#             continue with the store, and then reconnects the first owner
#   server    stops the storage server on a host with ranks, and restarts it
#   follow    a reader on another host follows the saves, --rounds times
#
# After each round: every step that was acknowledged to any rank is in the
# store, as seen by a host that has not written it, unless `keep` newer steps
# are; all steps verify; the surviving ranks have ended in time, with an error
# that names the struck rank; and a job with another number of ranks continues
# and restores the values of a job without faults, which the trainer can
# compute.
#
# DIR contains ckptdb and cluster_trainer (tests/cluster), by default
# build/release/bin. Prints one line per round; the last line is "N passed, N
# failed". --keep keeps the cluster and the folder of the run.
#
# Exit code: 0 if all passed, 1 if not, 77 if a cluster cannot be started.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin fs=(--fs moosefs) hosts=3 rounds=20 keep=false
seed=${CKPTDB_SEED:-${RANDOM}} only=
faults=()
cluster=tools/cluster.sh

fail() {
  echo "cluster_faults.sh: $*" >&2
  exit 1
}

while [[ $# -gt 0 ]]; do
  case $1 in
    --fs) fs=(--fs "$2") && shift ;;
    --coherent) fs+=(--coherent) ;;
    --hosts) hosts=$2 && shift ;;
    --bin) bin=$2 && shift ;;
    --rounds) rounds=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --only) only=$2 && shift ;;
    --keep) keep=true ;;
    kill | pause | cut | cut-owner | takeover | server | follow)
      faults+=("$1")
      ;;
    *) fail "unknown fault or flag \"$1\"; see the head of this file" ;;
  esac
  shift || fail "the last flag has no value"
done
[[ ${#faults[@]} -gt 0 ]] || fail "a fault is required; see the head of this file"
[[ ${hosts} -ge 3 ]] || fail "${hosts} hosts are too few; expected 3 or more"
for program in ckptdb cluster_trainer; do
  [[ -x ${bin}/${program} ]] || fail "no ${bin}/${program}; build it first"
done
bin=$(cd "${bin}" && pwd)
command -v mpirun > /dev/null || {
  echo "skipped: no mpirun here; install openmpi-bin"
  exit 77
}

work=$(mktemp -d "${TMPDIR:-/tmp}/cluster-faults.XXXXXX")
export CKPTDB_CLUSTER=${work}/cluster
# Surviving ranks continue after one has died or has ended with an error.
export OMPI_MCA_orte_enable_recovery=1
export OMPI_MCA_orte_abort_on_non_zero_status=0
readonly point_names=(begin:recorded stage:writing stage:done publish:checked
  publish:ingested publish:committed publish:flushed sweep:marked sweep:freed
  sweep:done)

finish() {
  local code=$?
  if [[ ${keep} == true ]]; then
    echo "kept: CKPTDB_CLUSTER=${CKPTDB_CLUSTER} and ${work}"
  else
    "${cluster}" down > /dev/null || true
    if [[ -d ${work}/failed ]]; then
      echo "what ranks of failed rounds wrote is in ${work}/failed"
    else
      rm -rf --one-file-system "${work}"
    fi
  fi
  exit "${code}"
}
trap finish EXIT

# shellcheck source=tools/cluster_jobs.sh
. tools/cluster_jobs.sh

# --- Faults

# note_time START: sets `took` to the time from the kill to the end of the last
# rank.
note_time() {
  local from=$1 rank last
  last=$(find "${out}" -name '*.end' -exec stat -c %.3Y {} + | sort -n | tail -n 1)
  took=$(awk -v from="${from}" -v last="${last:-${from}}" \
    'BEGIN { printf "%.1f", (last > from) ? last - from : 0 }')
}

# Kills a rank at a crash point or at a random time.
kill_round() {
  local rank=$1 point=$2 deltas async step struck
  begin_round
  draw 2 && deltas=${number}
  draw 2 && async=${number}
  draw 2 && kib=$((number == 0 ? 16 : 1024))
  [[ ${point} != stage:writing ]] || kib=1024
  draw 7 && step=$((number + 6))
  local options=(steps=16 deltas="${deltas}" async="${async}" pace=20
    deadline="${patience}")
  if [[ ${point} == time ]]; then
    start_job 3 "" "${options[@]}"
    draw 1000
    wait_until 30 has_saved 1 || complain "no step was saved in 30 s"
    sleep "0.${number}"
    "${cluster}" exec host2 -- kill -KILL "$(< "${out}/${rank}.pid")" || true
    touch "${out}/${rank}.killed"
  else
    start_job 3 "" "${options[@]}" kill_rank="${rank}" kill_step="${step}" \
      kill_point="${point}"
  fi
  end_job 60
  struck=$(stat -c %.3Y "${out}/${rank}.killed" \
    2> /dev/null) || complain "the point was not passed"
  expect_named 3 "${rank}"
  note_time "${struck:-0}"
  # Five deadlines with their grace periods: of an exchange that a missing rank
  # blocks, and of the owner's notifications. The rest allows for a busy
  # machine.
  awk -v took="${took}" -v most="$((5 * patience + 20))" \
    'BEGIN { exit took > most }' || complain "it took ${took} s"
  note_saved
  resume
  end_round "kill ${rank} at ${point}, deltas=${deltas} async=${async}" \
    "kib=${kib}: named after ${took} s"
}

kill_rounds() {
  local cases=() point rank i
  for point in "${point_names[@]}" train time; do cases+=("0 ${point}"); done
  for rank in 1 2; do
    for point in stage:writing stage:done train time; do
      cases+=("${rank} ${point}")
    done
  done
  [[ -z ${only} ]] || cases=("${only/:/ }")
  patience=3
  for ((i = 0; i < rounds; ++i)); do
    read -r rank point <<< "${cases[i % ${#cases[@]}]}"
    kill_round "${rank}" "${point}"
  done
}

# The job waits for longer than the outage, and continues.
pause_host() {
  begin_round
  start_job 3 "" steps=20 pace=50 deadline=90
  wait_until 30 has_saved 2 || complain "no step was saved in 30 s"
  "${cluster}" cut "$1"
  sleep 5
  "${cluster}" join "$1"
  end_job 150
  expect_ok 3 "after 5 s without the network of $1"
  note_saved
  resume
  end_round "pause $1 for 5 s"
}

files_are_back() {
  wait_until 90 "${cluster}" exec "${looks}" -- ls "${store}" > /dev/null 2>&1 ||
    complain "the file system does not recover"
}

# Waits until ranks of the last job have ended: ranks_end SECONDS RANK...
ranks_end() {
  local seconds=$1 rank files=()
  shift
  for rank in "$@"; do files+=("${out}/${rank}.end"); done
  wait_until "${seconds}" all_exist "${files[@]}" ||
    complain "ranks $* have not ended in ${seconds} s"
}

# cut_host HOST RANK: the ranks on other hosts give up, and the rank on HOST
# when it is reconnected. File operations wait until the file system continues
# without the host, so this may take longer than the deadline.
cut_host() {
  local host=$1 rank=$2 others=(0 1 2) struck
  begin_round
  [[ ${looks} != "${host}" ]] || looks=host2
  unset "others[${rank}]"
  start_job 3 "" steps=100000 pace=50 deadline=5
  wait_until 30 has_saved 2 || complain "no step was saved in 30 s"
  "${cluster}" cut "${host}"
  struck=$(date +%s.%3N)
  ranks_end 180 "${others[@]}"
  note_time "${struck}"
  # The owner is late if the file system waits for the host's server.
  expect_named 3 "${rank}" 0
  "${cluster}" join "${host}"
  ranks_end 180 "${rank}"
  [[ $(cat "${out}/${rank}.end" 2> /dev/null) != OK ]] ||
    complain "the rank that was cut off reports a completed training"
  end_job 5
  files_are_back
  note_saved
  resume
  end_round "cut ${host}: named after ${took} s"
}

# Starts a job until the store is no longer locked.
take_over() {
  local end=$((SECONDS + 240))
  while true; do
    start_job 2 host2,host3 steps=100000 pace=50 deadline=60
    wait_until 60 ended_or_saves || complain "the second owner does nothing"
    has_saved 3 && return
    end_job 2
    if [[ ${SECONDS} -ge ${end} ]] ||
      ! grep -q 'UNAVAILABLE' "${out}/0.end"; then
      complain "no second owner: $(cat "${out}/0.end" 2> /dev/null)"
      return
    fi
    sleep 1
  done
}
ended_or_saves() { [[ -e ${out}/0.end ]] || has_saved 3; }

# The first owner is reconnected, and must change nothing.
takeover() {
  local first first_job first_ranks second second_job
  begin_round
  kept=1000000
  start_job 3 "" steps=100000 pace=50 deadline=10
  first=${out} first_job=${job} first_ranks=${ranks}
  wait_until 30 has_saved 2 || complain "no step was saved in 30 s"
  "${cluster}" cut host1
  begun=${SECONDS}
  take_over
  took=$((SECONDS - begun))
  second=${out} second_job=${job}
  "${cluster}" join host1
  out=${first} job=${first_job} ranks=${first_ranks}
  ranks_end 90 0 1 2
  [[ $(cat "${out}/0.end" 2> /dev/null) != OK ]] ||
    complain "the first owner reports a completed training"
  echo "        first owner: $(cat "${first}/0.end" 2> /dev/null)"
  end_job 5
  note_saved
  # The second owner continues saving for a while.
  out=${second} job=${second_job} ranks=2
  local saves=0
  [[ ! -r ${out}/0.saved ]] || saves=$(wc -l < "${out}/0.saved")
  wait_until 30 has_saved "$((saves + 5))" ||
    complain "the second owner does not continue: $(cat "${out}/0.end" 2> /dev/null)"
  end_job 0
  note_saved
  resume
  end_round "takeover after ${took} s"
}

# Stops a host's storage server, and restarts it after 5 s.
server() {
  local host=$1
  begin_round
  start_job 3 "" steps=60 pace=50 deadline=90
  wait_until 30 has_saved 2 || complain "no step was saved in 30 s"
  "${cluster}" stop "${host}"
  sleep 5
  "${cluster}" start "${host}"
  end_job 150
  files_are_back
  note_saved
  echo "        rank 0: $(cat "${out}/0.end" 2> /dev/null || echo "did not end")"
  resume
  end_round "server of ${host} away for 5 s"
}

# A reader on a separate host.
follow() {
  local reader trainer
  begin_round
  start_job 2 host1,host2 steps=60 pace=30 deadline=60
  trainer=${out}
  wait_until 30 has_saved 1 || complain "no step was saved in 30 s"
  new_job
  reader=${out}
  "${cluster}" exec host3 -- "${bin}/cluster_trainer" "${reader}" "${store}" \
    follow=1 steps=60 > "${reader}/log" 2>&1 || true
  expect_ok 1 "the reader"
  out=${trainer}
  end_job 60
  expect_ok 2 "the trainer"
  note_saved
  check_store
  end_round "follow: $(wc -l < "${reader}/0.saved" 2> /dev/null) steps"
}

jobs=0 stores=0 passed=0 failed=0 ranks=0
RANDOM=${seed}
echo "seed ${seed}"
code=0
"${cluster}" up "${hosts}" "${fs[@]}" || code=$?
[[ ${code} -eq 0 ]] || exit "${code}"

for fault in "${faults[@]}"; do
  case ${fault} in
    kill) kill_rounds ;;
    pause) for host in host3 host1; do pause_host "${host}"; done ;;
    cut) cut_host host3 2 ;;
    cut-owner) cut_host host1 0 ;;
    takeover) takeover ;;
    server)
      server host1
      # GlusterFS keeps all files on host1.
      [[ ${fs[1]} != moosefs ]] || server host2
      ;;
    follow) for ((i = 0; i < rounds; ++i)); do follow; done ;;
  esac
done
echo "${passed} passed, ${failed} failed"
[[ ${failed} -eq 0 ]]
