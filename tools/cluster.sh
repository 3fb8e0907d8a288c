#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Simulates hosts that share a distributed file system on one machine, to test a
# store between hosts. Each host is a network, mount and UTS namespace with its
# own name and address, and mounts the file system at the same path.
#
#   tools/cluster.sh up N [--fs moosefs|glusterfs] [--coherent]
#                        [--mount-option OPTION]... [--mount-option-of HOST OPTION]...
#   tools/cluster.sh exec HOST -- COMMAND...       on one host: host1, host2, ...
#   tools/cluster.sh run [-n RANKS] [-H HOST,...] -- COMMAND...
#                                                  under mpirun, on all hosts
#   tools/cluster.sh cut HOST                      cuts its network
#   tools/cluster.sh join HOST                     restores its network
#   tools/cluster.sh stop HOST                     stops its storage server
#   tools/cluster.sh start HOST                    starts its storage server
#   tools/cluster.sh path                          prints the shared folder
#   tools/cluster.sh status
#   tools/cluster.sh down
#
# GlusterFS keeps all files on host1. With its default options, hosts may see
# stale files; --coherent disables the caches that cause this. --mount-option is
# passed to mfsmount or glusterfs on all hosts, --mount-option-of on one host.
#
# Everything runs in one PID namespace, which `down` kills, in the folder
# CKPTDB_CLUSTER, by default ckptdb-cluster in TMPDIR or /tmp. The machine's own
# network and mounts are not changed. tools/cluster-packages.txt lists the
# required Debian packages: tools/setup.sh tools/cluster-packages.txt
#
# Exit code: COMMAND's, or 0 for success, 1 for an invalid argument or a
# failure, 77 if namespaces, FUSE or a program are not available, or the folder
# is in /dev/shm.
set -euo pipefail

readonly state=${CKPTDB_CLUSTER:-${TMPDIR:-/tmp}/ckptdb-cluster}
readonly shared=${state}/shared
readonly marker=${state}/made-by-cluster.sh
readonly net=10.77.0
readonly hub=${net}.254
readonly max_hosts=16
readonly skipped=77
readonly patience_s=60
replace=

say() { echo "cluster.sh: $*" >&2; }
fail() {
  say "$@"
  exit 1
}
skip() {
  say "skipped: $*"
  exit "${skipped}"
}
usage() {
  say "$*"
  sed -n -e '2d' -e '/^#/!q' -e 's/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 1
}

# --- Requirements

check_programs() {
  local program missing=()
  for program in "$@"; do
    command -v "${program}" > /dev/null || missing+=("${program}")
  done
  [[ ${#missing[@]} -eq 0 ]] ||
    skip "${missing[*]} not found; install the packages with" \
      "tools/setup.sh tools/cluster-packages.txt"
}

check_machine() {
  [[ $(realpath -m "${state}")/ != /dev/shm/* ]] ||
    skip "${state} is in /dev/shm, of which each host has its own; set TMPDIR" \
      "or CKPTDB_CLUSTER to a folder outside of it"
  [[ ${EUID} -eq 0 ]] || skip "namespaces and FUSE mounts need root"
  unshare --net --mount --uts --pid --fork true 2> /dev/null ||
    skip "this machine does not allow namespaces (unshare --net --mount --uts --pid)"
  # The device may exist but fail to open, if the kernel lacks FUSE.
  if [[ $(stat -c %t:%T /dev/fuse 2> /dev/null) != a:e5 ]] ||
    ! (: <> /dev/fuse) 2> /dev/null; then
    skip "/dev/fuse cannot be opened"
  fi
  unshare --net ip link add probe type bridge 2> /dev/null ||
    skip "this machine does not allow network bridges (ip link add type bridge)"
  unshare --net ip link add probe type veth peer name probe2 2> /dev/null ||
    skip "this machine does not allow veth pairs (ip link add type veth)"
  check_programs nsenter setpriv ip
  case $1 in
    moosefs) check_programs mfsmaster mfschunkserver mfsmount ;;
    glusterfs) check_programs glusterd gluster glusterfs ;;
  esac
}

# --- The state of the cluster

# Prints the start time of a process, to detect a reused process id.
start_of() {
  local text
  text=$(cat "/proc/$1/stat" 2> /dev/null) || return 1
  text=${text##*) }
  cut -d ' ' -f 20 <<< "${text}"
}

# Sets `init` to the process whose death kills all others.
find_init() {
  local start
  init=
  [[ -r ${state}/init ]] || return 1
  read -r init start < "${state}/init"
  [[ $(start_of "${init}") == "${start}" ]]
}

need_cluster() {
  find_init ||
    fail "no cluster is up in ${state}; start one with: tools/cluster.sh up 3"
}

# Prints the number of hosts.
count_hosts() { cat "${state}/count"; }

check_host() {
  [[ -n $1 && -f ${state}/hosts/$1 ]] ||
    fail "no host \"$1\"; the hosts are host1 to host$(count_hosts)"
}

# Runs a command in the hub's namespaces, outside all hosts. It ends when its
# caller is killed. If `replace` is "exec", it replaces this script.
in_hub() {
  ${replace} nsenter --target "${init}" --pid --mount --net --wdns="${PWD}" -- \
    setpriv --pdeathsig TERM -- "$@"
}

# Runs a command on a host: on_host HOST COMMAND...
on_host() {
  local host=$1
  shift
  in_hub nsenter --target "$(< "${state}/hosts/${host}")" \
    --mount --net --uts --wdns="${PWD}" -- "$@"
}

# Calls a function on each host, as host1 1 ARGUMENT...
on_each() {
  local function=$1 n
  shift
  for ((n = 1; n <= hosts; ++n)); do "${function}" "host${n}" "${n}" "$@"; done
}

# Waits until a command succeeds.
wait_for() {
  local what=$1 end=$((SECONDS + patience_s))
  shift
  until "$@" > /dev/null 2>&1; do
    [[ ${SECONDS} -lt ${end} ]] ||
      fail "${what} took more than ${patience_s} s; see ${state}/log"
    sleep 0.2
  done
}

# --- The hosts

# Process 1 of the PID namespace, which reaps orphans.
# shellcheck disable=SC2016 # expanded there
readonly init_program='
  # /proc still belongs to the machine.
  read -r pid _ < /proc/self/stat
  echo "${pid}" > "$1/init.pid"
  mount -t proc proc /proc
  trap : HUP INT TERM
  while :; do sleep 3600 & wait $!; done'

start_hub() {
  setsid unshare --pid --fork --mount --propagation private --net -- \
    bash -c "${init_program}" init "${state}" > "${state}/log/init" 2>&1 &
  wait_for "the first process" test -s "${state}/init.pid"
  init=$(< "${state}/init.pid")
  echo "${init} $(start_of "${init}")" > "${state}/init"
  wait_for "the first process's /proc" in_hub test -d /proc/1/fd
  in_hub ip link set lo up
  in_hub ip link add hub type bridge
  in_hub ip address add "${hub}/24" dev hub
  in_hub ip link set hub up
}

# A host exists as long as its sleeping process.
start_host() {
  local host=$1 n=$2 pid
  # shellcheck disable=SC2016 # expanded on the host
  in_hub unshare --net --mount --propagation private --uts -- bash -c '
    setsid sleep infinity &
    echo "$!" > "$1"' host "${state}/hosts/${host}" > "${state}/log/${host}" 2>&1
  pid=$(< "${state}/hosts/${host}")
  in_hub ip link add "${host}" type veth peer name eth0 netns "${pid}"
  in_hub ip link set "${host}" master hub up
  on_host "${host}" hostname "${host}"
  on_host "${host}" ip link set lo up
  on_host "${host}" ip address add "${net}.${n}/24" dev eth0
  on_host "${host}" ip link set eth0 up
  on_host "${host}" mount --bind "${state}/etc-hosts" /etc/hosts
  # Open MPI uses the same names for shared memory in every cluster.
  on_host "${host}" mount -t tmpfs tmpfs /dev/shm
}

write_names() {
  local n
  {
    echo "127.0.0.1 localhost"
    echo "${hub} hub"
    for ((n = 1; n <= hosts; ++n)); do echo "${net}.${n} host${n}"; done
  } > "${state}/etc-hosts"
}

# The launch agent that mpirun uses instead of ssh: AGENT HOST COMMAND...
write_agent() {
  cat > "${state}/agent" << END
#!/bin/bash
host=\$1
shift
exec nsenter --target "\$(< "${state}/hosts/\${host}")" \\
  --mount --net --uts --wdns=/ -- /bin/sh -c "\$*"
END
  chmod +x "${state}/agent"
}

# --- MooseFS: the master in the hub, a chunk server on each host

start_moosefs_master() {
  local folder=${state}/master
  mkdir "${folder}"
  printf 'MFSM NEW' > "${folder}/metadata.mfs"
  echo "${net}.0/24 / rw,alldirs,admin,maproot=0" > "${folder}/exports"
  : > "${folder}/topology"
  # Releases the locks of a host that is cut off after a minute instead of a
  # day.
  cat > "${folder}/config" << END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = ${folder}
EXPORTS_FILENAME = ${folder}/exports
TOPOLOGY_FILENAME = ${folder}/topology
MATOML_LISTEN_HOST = ${hub}
MATOCS_LISTEN_HOST = ${hub}
MATOCL_LISTEN_HOST = ${hub}
SESSION_SUSTAIN_TIME = 60
END
  in_hub mfsmaster -c "${folder}/config" start > "${state}/log/master" 2>&1
}

start_moosefs_chunks() {
  local host=$1 n=$2 folder=${state}/$1
  mkdir -p "${folder}/data" "${folder}/chunks"
  echo "${folder}/chunks" > "${folder}/hdd"
  cat > "${folder}/config" << END
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = ${folder}/data
HDD_CONF_FILENAME = ${folder}/hdd
HDD_LEAVE_SPACE_DEFAULT = 64MiB
MASTER_HOST = ${hub}
CSSERV_LISTEN_HOST = ${net}.${n}
END
  on_host "${host}" mfschunkserver -c "${folder}/config" start \
    > "${state}/log/${host}-chunks" 2>&1
}

mount_moosefs() {
  local host=$1
  options_of "${host}"
  on_host "${host}" mfsmount -H "${hub}" "${shared}" "${options[@]}" \
    > "${state}/log/${host}-mount" 2>&1
}

up_moosefs() {
  start_moosefs_master
  on_each start_moosefs_chunks
  on_each mount_moosefs
}

# --- GlusterFS: a daemon on each host, the files on the first

start_glusterd() {
  local host=$1 n=$2 folder=${state}/$1
  mkdir -p "${folder}/glusterd" "${folder}/log"
  on_host "${host}" mount -t tmpfs tmpfs /run
  on_host "${host}" mkdir /run/gluster
  on_host "${host}" mount --bind "${folder}/glusterd" /var/lib/glusterd
  on_host "${host}" mount --bind "${folder}/log" /var/log/glusterfs
  on_host "${host}" glusterd > "${state}/log/${host}-glusterd" 2>&1
  wait_for "glusterd on ${host}" on_host "${host}" gluster peer status
}

# gluster ARGUMENT...: on the first host, noninteractively.
volume() {
  on_host host1 gluster --mode=script volume "$@" >> "${state}/log/volume" 2>&1
}

probe_peer() {
  [[ $1 == host1 ]] || on_host host1 gluster peer probe "$1" \
    >> "${state}/log/volume" 2>&1
}

# A volume can start once all daemons know each other.
knows_peers() {
  [[ $(on_host "$1" gluster peer status |
    grep -c 'Peer in Cluster (Connected)') -eq $((hosts - 1)) ]]
}

wait_for_peers() { wait_for "the peers of $1" knows_peers "$1"; }

mount_glusterfs() {
  local host=$1
  options_of "${host}"
  on_host "${host}" glusterfs --volfile-server=host1 --volfile-id=shared \
    "${options[@]}" "${shared}" > "${state}/log/${host}-mount" 2>&1
}

up_glusterfs() {
  local option
  on_each start_glusterd
  on_each probe_peer
  on_each wait_for_peers
  mkdir "${state}/brick"
  volume create shared "host1:${state}/brick" force
  if [[ ${coherent} == true ]]; then
    for option in open-behind quick-read stat-prefetch read-ahead io-cache \
      write-behind; do
      volume set shared "performance.${option}" off
    done
    mount_options+=(--attribute-timeout=0 --entry-timeout=0
      --negative-timeout=0)
  fi
  volume start shared
  on_each mount_glusterfs
}

# --- Commands

# Sets `options` to a host's mount options.
options_of() {
  local i
  options=("${mount_options[@]}")
  for ((i = 0; i < ${#host_options[@]}; i += 2)); do
    [[ ${host_options[i]} != "$1" ]] || options+=("${host_options[i + 1]}")
  done
}

# Closes inherited descriptors, because processes that outlive this script would
# otherwise keep the caller's pipes open and its locks held.
close_inherited() {
  local fd
  exec < /dev/null
  for fd in /proc/self/fd/*; do
    fd=${fd##*/}
    [[ ${fd} -le 2 || ${fd} -eq 255 ]] || eval "exec ${fd}>&-"
  done
}

# A file system whose servers have just started has no space at first.
has_space() { [[ $(on_host "$1" stat -f -c %a "${shared}") -gt 0 ]]; }

write_probe() {
  local file=${shared}/.probe-$1
  wait_for "the space that $1 sees" has_space "$1"
  wait_for "the first write of $1" on_host "$1" \
    dd if=/dev/zero of="${file}" bs=4096 count=1 conv=fsync
  on_host "$1" rm "${file}"
}

parse_up() {
  hosts=${1:-}
  [[ ${hosts} =~ ^[1-9][0-9]?$ && ${hosts} -le ${max_hosts} ]] ||
    usage "invalid number of hosts \"${hosts}\"; expected 1 to ${max_hosts}"
  shift
  while [[ $# -gt 0 ]]; do
    case $1 in
      --fs) fs=${2:-} && shift ;;
      --coherent) coherent=true ;;
      --mount-option) mount_options+=("${2:-}") && shift ;;
      --mount-option-of) host_options+=("${2:-}" "${3:-}") && shift 2 ;;
      *) usage "unknown flag \"$1\" of up" ;;
    esac
    shift || usage "the last flag of up has no value"
  done
  [[ ${fs} == moosefs || ${fs} == glusterfs ]] ||
    usage "unknown file system \"${fs}\"; expected moosefs or glusterfs"
}

give_up() {
  local code=$?
  if [[ ${code} -ne 0 ]]; then
    say "it did not come up:"
    find "${state}/log" -type f -size +0 -exec tail -v -n 3 {} + >&2 || true
    down > /dev/null
  fi
  exit "${code}"
}

up() {
  fs=moosefs coherent=false mount_options=() host_options=()
  parse_up "$@"
  check_machine "${fs}"
  if find_init; then fail "$(describe); take it down by: tools/cluster.sh down"; fi
  mkdir -m 0700 "${state}" 2> /dev/null ||
    fail "cannot make ${state}; remove an old cluster with" \
      "tools/cluster.sh down"
  : > "${marker}"
  trap give_up EXIT
  close_inherited
  mkdir "${shared}" "${state}/log" "${state}/hosts" "${state}/tmp"
  echo "${fs}" > "${state}/fs"
  echo "${hosts}" > "${state}/count"
  write_names
  write_agent
  start_hub
  on_each start_host
  "up_${fs}"
  on_each write_probe
  trap - EXIT
  describe
}

describe() {
  local n
  n=$(count_hosts)
  echo "A cluster is up: host1 to host${n} share ${shared} on $(< "${state}/fs")"
}

down() {
  if [[ ! -e ${state} ]]; then
    echo "No cluster is up in ${state}"
    return
  fi
  [[ -e ${marker} ]] ||
    fail "${state} was not made by cluster.sh; it was not removed"
  # Killing the first process kills the whole PID namespace.
  if find_init; then
    kill -KILL "${init}" || true
    wait_for "the end of process ${init}" not_there "${init}"
  elif [[ -s ${state}/init.pid && ! -e ${state}/init ]]; then
    kill -KILL "$(< "${state}/init.pid")" || true
  fi
  rm -rf --one-file-system "${state}"
  echo "The cluster is down"
}

not_there() { [[ ! -e /proc/$1 ]]; }

exec_on() {
  local host=${1:-}
  [[ ${2:-} == -- && $# -gt 2 ]] || usage "expected: exec HOST -- COMMAND..."
  need_cluster
  check_host "${host}"
  shift 2
  replace='exec'
  on_host "${host}" "$@"
}

run() {
  local ranks='' names='' name
  need_cluster
  while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
      -n) ranks=${2:-} ;;
      -H) names=${2:-} ;;
      *) usage "unknown flag \"$1\" of run" ;;
    esac
    shift 2 || usage "the last flag of run has no value"
  done
  [[ $# -gt 1 ]] || usage "expected: run [-n RANKS] [-H HOST,...] -- COMMAND..."
  shift
  command -v mpirun > /dev/null || skip "no mpirun here; install openmpi-bin"
  [[ -n ${names} ]] || names=$(seq -s , -f host%.0f "$(count_hosts)")
  for name in ${names//,/ }; do check_host "${name}"; done
  [[ -n ${ranks} ]] || ranks=$(wc -w <<< "${names//,/ }")
  [[ ${ranks} =~ ^[1-9][0-9]*$ ]] || usage "invalid number of ranks \"${ranks}\""
  replace='exec'
  # Waiting ranks yield, because there are more ranks than cores. mpirun runs in
  # the hub, so that it survives when a host is cut off.
  in_hub mpirun --allow-run-as-root -np "${ranks}" \
    --host "${names//,/:${ranks},}:${ranks}" --map-by node \
    --mca plm_rsh_agent "${state}/agent" \
    --mca orte_tmpdir_base "${state}/tmp" \
    --mca oob_tcp_if_include "${net}.0/24" \
    --mca btl_tcp_if_include "${net}.0/24" --mca btl tcp,vader,self \
    --mca btl_vader_single_copy_mechanism none \
    --mca mpi_yield_when_idle 1 "$@"
}

# set_link HOST up|down
set_link() {
  need_cluster
  check_host "$1"
  in_hub ip link set "$1" "$2"
}

# serve HOST start|stop: its chunk server, or its brick, which is killed.
serve() {
  need_cluster
  check_host "$1"
  if [[ $(< "${state}/fs") == moosefs ]]; then
    on_host "$1" mfschunkserver -c "${state}/$1/config" "$2" \
      >> "${state}/log/$1-chunks" 2>&1
  elif [[ $1 != host1 ]]; then
    fail "$1 has no brick; host1 has the only one"
  elif [[ $2 == start ]]; then
    volume start shared force
  else
    # shellcheck disable=SC2016 # expanded on the host
    on_host host1 sh -c 'kill -KILL $(cat /run/gluster/vols/shared/*.pid)'
  fi
}

case ${1:-} in
  up) up "${@:2}" ;;
  down) down ;;
  exec) exec_on "${@:2}" ;;
  run) run "${@:2}" ;;
  cut) set_link "${2:-}" down ;;
  join) set_link "${2:-}" up ;;
  stop | start) serve "${2:-}" "$1" ;;
  path) need_cluster && echo "${shared}" ;;
  status) need_cluster && describe ;;
  *) usage "unknown command \"${1:-}\"" ;;
esac
