# What tools/cluster_faults.sh has of jobs on a cluster, and of what they leave. It
# is read by that script, which sets cluster, bin, work, hosts and seed.
# shellcheck shell=bash disable=SC2154,SC2034 # set there, and used there

# --- Jobs

# Sets `number` to a drawn one from 0 to below $1. Not in a subshell, where the
# same would be drawn again and again.
draw() { number=$((RANDOM % $1)); }

# Ranks of a job write what they came to on the machine's own disk.
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

# Waits for so many seconds until a command succeeds.
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

# All ranks of the last job have come to their end, or were killed.
all_ended() {
  local ended
  not_running && return
  ended=$(find "${out}" -name '*.end' -o -name '*.killed' | wc -l)
  [[ ${ended} -ge ${ranks} ]]
}

# end_rank PID FILE: notes where it is, and ends it.
end_rank() {
  if command -v gdb > /dev/null; then
    "${cluster}" exec host2 -- timeout 20 gdb -p "$1" -batch \
      -ex 'thread apply all bt 25' > "$2stack" 2>&1 || true
  fi
  "${cluster}" exec host2 -- kill -KILL "$1" 2> /dev/null || true
}

# Waits for a job, for so many seconds, and ends what is left of it: mpirun may
# wait for a rank or a host that is gone.
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

# --- What is left

complain() {
  problems+=("$*")
}

# The ranks of the last job are all OK.
expect_ok() {
  local rank text
  for ((rank = 0; rank < $1; ++rank)); do
    text=$(cat "${out}/${rank}.end" 2> /dev/null || echo "did not end")
    [[ ${text} == OK ]] || complain "$2: rank ${rank}: ${text}"
  done
}

# expect_named RANKS STRUCK [LATE]: all others have ended, all right or naming it,
# or the one that may be late as well.
expect_named() {
  local rank text
  for ((rank = 0; rank < $1; ++rank)); do
    [[ ${rank} -ne $2 ]] || continue
    text=$(cat "${out}/${rank}.end" 2> /dev/null || echo "did not end")
    [[ ${text} == OK || ${text} == *"ranks $2 of $1 did not come"* ||
      ${text} == *"ranks ${3:-$2} of $1 did not come"* ]] ||
      complain "rank ${rank}: ${text}"
  done
}

# Appends what the last job was told of to what was acknowledged.
note_saved() {
  cat "${out}"/*.saved >> "${work}/acknowledged" 2> /dev/null || true
}

# The steps, as another host sees them.
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
      complain "step ${step} was acknowledged and is not there:" \
        "$(tr '\n' ' ' < "${work}/steps")"
  done < <(sort -n -u "${work}/acknowledged" 2> /dev/null)
  [[ ! -s ${work}/steps ]] ||
    "${cluster}" exec "${looks}" -- "${bin}/ckptdb" -s "${store}" verify \
      > "${work}/verify" 2>&1 || complain "verify: $(tail -n 2 "${work}/verify")"
}

# A job on another number of ranks goes on for some steps.
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
