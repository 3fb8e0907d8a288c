#include "ckptdb/bench/rank_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/payload.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

absl::Status WriteAll(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = write(fd, at, bytes);
    if (written <= 0) return ErrnoError("write", "a pipe to a rank");
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status ReadAll(int fd, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(fd, at, bytes);
    if (got == 0) return absl::UnavailableError("a rank's process has ended");
    if (got < 0) return ErrnoError("read", "a pipe from a rank");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status WriteSized(int fd, const std::string& value) {
  const uint64_t size = value.size();
  CKPTDB_RETURN_IF_ERROR(WriteAll(fd, &size, sizeof(size)));
  return WriteAll(fd, value.data(), value.size());
}

absl::StatusOr<std::string> ReadSized(int fd) {
  uint64_t size = 0;
  CKPTDB_RETURN_IF_ERROR(ReadAll(fd, &size, sizeof(size)));
  std::string value(size, '\0');
  CKPTDB_RETURN_IF_ERROR(ReadAll(fd, value.data(), size));
  return value;
}

// Answers one ticket after the other. Returns at the end of the input.
absl::Status Serve(uint64_t rows, uint64_t seed) {
  CKPTDB_ASSIGN_OR_RETURN(const auto table, Table::Make(rows, seed));
  RankState state;
  table->AddTo(&state, TableSharding::Unchecked());
  CKPTDB_RETURN_IF_ERROR(WriteSized(STDOUT_FILENO, "ready"));
  while (true) {
    const absl::StatusOr<std::string> store = ReadSized(STDIN_FILENO);
    if (!store.ok()) return absl::OkStatus();
    CKPTDB_ASSIGN_OR_RETURN(const std::string ticket_bytes,
                            ReadSized(STDIN_FILENO));
    CKPTDB_ASSIGN_OR_RETURN(const std::string threads, ReadSized(STDIN_FILENO));
    CKPTDB_ASSIGN_OR_RETURN(const Ticket ticket, Ticket::Decode(ticket_bytes));
    StageOptions stage;
    stage.threads = std::stoi(threads);
    stage.rewrite_unchanged = true;
    CKPTDB_ASSIGN_OR_RETURN(const StagedRank staged,
                            Stage(*store, ticket, state, stage));
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, staged.Encode());
    CKPTDB_RETURN_IF_ERROR(WriteSized(STDOUT_FILENO, bytes));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcess>> RankProcess::Start(uint64_t rows,
                                                                uint64_t seed) {
  std::signal(SIGPIPE, SIG_IGN);  // a rank that ends is an error of write
  int to[2];
  int from[2];
  if (pipe2(to, O_CLOEXEC) != 0) return ErrnoError("pipe2", "a rank");
  if (pipe2(from, O_CLOEXEC) != 0) return ErrnoError("pipe2", "a rank");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<std::string> arguments = {"/proc/self/exe", "rank-process",
                                        "--rows",         absl::StrCat(rows),
                                        "--seed",         absl::StrCat(seed)};
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to[0]);
  close(from[1]);
  if (error != 0) {
    close(to[1]);
    close(from[0]);
    return absl::UnavailableError(
        absl::StrCat("cannot start a rank's process: ", std::strerror(error)));
  }
  std::unique_ptr<RankProcess> process(new RankProcess(pid, to[1], from[0]));
  CKPTDB_RETURN_IF_ERROR(ReadSized(process->from_).status());  // it is ready
  return process;
}

RankProcess::~RankProcess() {
  close(to_);
  close(from_);
  waitpid(pid_, nullptr, 0);
}

absl::Status RankProcess::Send(const std::string& store, const Ticket& ticket,
                               int threads) {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ticket.Encode());
  CKPTDB_RETURN_IF_ERROR(WriteSized(to_, store));
  CKPTDB_RETURN_IF_ERROR(WriteSized(to_, bytes));
  return WriteSized(to_, absl::StrCat(threads));
}

absl::StatusOr<StagedRank> RankProcess::Receive() {
  CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, ReadSized(from_));
  return StagedRank::Decode(bytes);
}

int RunRankProcess(uint64_t rows, uint64_t seed) {
  std::signal(SIGPIPE, SIG_IGN);
  const absl::Status status = Serve(rows, seed);
  if (status.ok()) return 0;
  std::fprintf(stderr, "ckptdb_bench rank-process: %s\n",
               status.ToString().c_str());
  return 1;
}

}  // namespace ckptdb::bench
