# SPDX-License-Identifier: Apache-2.0
# Jobs on a cluster, and the checks after them, for tools/cluster_faults.sh,
# which sources this file and sets cluster, bin, work, hosts and seed.
# shellcheck shell=bash disable=SC2154,SC2034 # shared with that script

# --- Jobs

# Sets `number` to a random number below $1. Do not call it in a subshell, which
# would draw the same number again and again.
draw() { number=$((RANDOM % $1)); }

# The ranks of a job write their results to the machine's own disk.
new_job() {
  out=${work}/job$((++jobs))
  mkdir "${out}"
}

# start_job RANKS HOSTS NAME=VALUE...: in the background; HOSTS may be empty.
start_job() {
  local on=$2
  ranks=$1
  shift 2
  new_job
  "${cluster}" run -n "${ranks}" ${on:+-H "${on}"} -- \
    "${bin}/cluster_trainer" "${out}" "${store}" keep="${kept}" \
    kib="${kib}" "$@" \
    > "${out}/log" 2>&1 &
  job=$!
}

# wait_until SECONDS COMMAND...: waits until a command succeeds.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [[ ${SECONDS} -lt ${end} ]] || return 1
    sleep 0.05
  done
}

all_exist() {
  local file
  for file in "$@"; do [[ -e ${file} ]] || return 1; done
}
not_running() { ! kill -0 "${job}" 2> /dev/null; }

# Whether all ranks of the last job have ended or were killed.
all_ended() {
  local ended
  not_running && return
  ended=$(find "${out}" -name '*.end' -o -name '*.killed' | wc -l)
  [[ ${ended} -ge ${ranks} ]]
}

# end_rank PID FILE: writes the rank's stack to FILE and kills it.
end_rank() {
  if command -v gdb > /dev/null; then
    "${cluster}" exec host2 -- timeout 20 gdb -p "$1" -batch \
      -ex 'thread apply all bt 25' > "$2stack" 2>&1 || true
  fi
  "${cluster}" exec host2 -- kill -KILL "$1" 2> /dev/null || true
}

# end_job SECONDS: waits for the job, and then kills the rest of it: mpirun may
# wait for a dead rank or host.
end_job() {
  local file
  wait_until "$1" all_ended || true
  if ! wait_until 3 not_running; then
    for file in "${out}"/*.pid; do
      [[ ! -e ${file} || -e ${file%pid}end || -e ${file%pid}killed ]] ||
        end_rank "$(< "${file}")" "${file%pid}"
    done
    kill -TERM "${job}" 2> /dev/null || true
    wait_until 5 not_running || kill -KILL "${job}" 2> /dev/null || true
  fi
  wait "${job}" 2> /dev/null || true
}

has_saved() { [[ -e ${out}/0.saved && $(wc -l < "${out}/0.saved") -ge $1 ]]; }

# --- Checks

complain() {
  problems+=("$*")
}

# expect_ok RANKS JOB: all ranks of the last job have ended with OK.
expect_ok() {
  local rank text
  for ((rank = 0; rank < $1; ++rank)); do
    text=$(cat "${out}/${rank}.end" 2> /dev/null || echo "did not end")
    [[ ${text} == OK ]] || complain "$2: rank ${rank}: ${text}"
  done
}

# expect_named RANKS STRUCK [LATE]: all other ranks have ended, with OK or an
# error that names STRUCK, or LATE, a rank that may be late because of it. LATE
# may also name ranks that gave up waiting for it.
expect_named() {
  local rank text late="ranks ([0-9]+, )*$2(, [0-9]+)* of $1 did not reach"
  for ((rank = 0; rank < $1; ++rank)); do
    [[ ${rank} -ne $2 ]] || continue
    text=$(cat "${out}/${rank}.end" 2> /dev/null || echo "did not end")
    [[ ${text} == OK || ${text} == *"ranks $2 of $1 did not reach"* ||
      ${text} == *"ranks ${3:-$2} of $1 did not reach"* ||
      (${rank} == "${3:-}" && ${text} =~ ${late}) ]] ||
      complain "rank ${rank}: ${text}"
  done
}

# Adds the steps acknowledged by the last job to all acknowledged steps.
note_saved() {
  cat "${out}"/*.saved >> "${work}/acknowledged" 2> /dev/null || true
}

# Lists the steps as another host sees them.
list_steps() {
  "${cluster}" exec "${looks}" -- "${bin}/ckptdb" -s "${store}" ls 2> "${work}/ls" |
    awk 'NR > 1 { print $1 }'
}

check_store() {
  local step newer lost
  list_steps > "${work}/steps" || complain "ls: $(< "${work}/ls")"
  while read -r step; do
    newer=$(awk -v s="${step}" '$1 > s' "${work}/steps" | wc -l)
    lost=$(grep -c -x "${step}" "${work}/steps" || true)
    [[ ${lost} -gt 0 || ${newer} -ge ${kept} ]] ||
      complain "step ${step} was acknowledged but is missing from:" \
        "$(tr '\n' ' ' < "${work}/steps")"
  done < <(sort -n -u "${work}/acknowledged" 2> /dev/null)
  [[ ! -s ${work}/steps ]] ||
    "${cluster}" exec "${looks}" -- "${bin}/ckptdb" -s "${store}" verify \
      > "${work}/verify" 2>&1 || complain "verify: $(tail -n 2 "${work}/verify")"
}

# A job with another number of ranks continues for some steps.
resume() {
  local last
  check_store
  last=$(tail -n 1 "${work}/steps")
  draw 4
  start_job "$((number + 1))" "" steps="$((${last:-0} + 6))" deadline=60
  end_job 120
  expect_ok "${ranks}" "resumed on ${ranks} ranks after step ${last:-0}"
  note_saved
  check_store
}

begin_round() {
  problems=()
  store=$("${cluster}" path)/store$((++stores))
  kept=3
  kib=1024
  looks=host${hosts}
  : > "${work}/acknowledged"
  begun=${SECONDS}
}

end_round() {
  local problem
  if [[ ${#problems[@]} -eq 0 ]]; then
    passed=$((passed + 1))
    echo "ok      $*, $((SECONDS - begun)) s"
    rm -rf "${work}"/job*
    "${cluster}" exec host2 -- rm -rf "${store}" || true
    return
  fi
  failed=$((failed + 1))
  echo "FAILED  $*, $((SECONDS - begun)) s, seed ${seed}"
  for problem in "${problems[@]}"; do echo "        ${problem}"; done
  mkdir -p "${work}/failed"
  mv "${work}"/job* "${work}/failed" 2> /dev/null || true
}
