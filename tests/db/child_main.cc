// SPDX-License-Identifier: Apache-2.0
// The other process of a test. Its first line of output is "ok" or a status;
// it goes on until its input ends.
//
//   db_child hold STORE...         opens the store, then the others
//   db_child orphan STORE          opens the store, and forks a process that
//                                  lives until the input ends
//   db_child own STORE             opens the store; for each line of input
//                                  saves, removes, pins and unpins, or sweeps:
//                                  "save 7", "rm 7", "touch 7", "gc"
//   db_child fill tmpfs|ext4 FOLDER
//                                  see full_volume.h
//   db_child stage STORE RANK      input: a ticket; output: the staged rank of
//                                  ChildContent(RANK)
//   db_child lease STORE STEP      opens the step of a reader; for each line
//                                  of input verifies it, answering ok or a
//                                  status
//   db_child crash STORE POINT STEP SEED inline|bulk
//                                  saves (or overwrites) and sweeps, killing
//                                  itself at the point
//   db_child post STORE STEP NAME VALUE
//                                  posts a metric, and a wish for a pin
//   db_child late STORE            opens the store, and ends with an exit
//                                  handler that uses it
//   db_child late-stage STORE      the same of a process that stages; input: a
//                                  ticket
//   db_child steps STORE           a reader; for each line of input refreshes
//                                  it, answering the steps
//
// Before the command: "--nobody" gives up root's rights, "--shared" opens the
// store to all users, where the command is "own", "--grants-locks" has a
// file system that grants every lock, and "--mounts FROM TO FROM TO" binds two
// folders in a name space of its own, Unimplemented where it may not.
#include <grp.h>

#include <csignal>

#include "tests/db/full_volume.h"
#include "tests/db/odd_files.h"
#include "tests/support/name_space.h"

namespace ckptdb::testing {
namespace {

void Answer(absl::string_view line) { std::cout << line << std::endl; }

absl::Status Hold(const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<Store>> stores;
  for (const std::string& path : paths) {
    CKPTDB_ASSIGN_OR_RETURN(stores.emplace_back(), Store::Open(path));
    Answer("ok");
  }
  std::string ignored;
  while (std::getline(std::cin, ignored)) {
  }
  return absl::OkStatus();
}

absl::Status LeaveOrphan(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path));
  if (fork() != 0) return Hold({path + ".other"});
  std::string ignored;
  while (std::getline(std::cin, ignored)) {
  }
  _exit(0);
}

absl::Status Obey(const std::string& command, int64_t step, Store* store) {
  if (command == "gc") return store->Sweep().status();
  if (command == "rm") return store->Delete(step);
  if (command == "touch") {
    CKPTDB_RETURN_IF_ERROR(store->Pin(step));
    return store->Unpin(step);
  }
  const auto seed = static_cast<uint64_t>(step);
  const HeldState held(step % 2 == 0 ? BulkContent(seed) : SmallContent(seed));
  return store->Save({.step = step}, held.state()).status();
}

absl::Status Own(const std::string& path, const StoreOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path, options));
  Answer("ok");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string command;
    int64_t step = 0;
    words >> command >> step;
    const absl::Status status = Obey(command, step, store.get());
    Answer(status.ok() ? "ok" : status.ToString());
  }
  return absl::OkStatus();
}

std::string ReadInput() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

absl::Status StageRank(const std::string& path, uint32_t rank) {
  const std::string bytes = ReadInput();
  CKPTDB_ASSIGN_OR_RETURN(const Ticket ticket, Ticket::Decode(bytes));
  const HeldState held(ChildContent(rank), 100, AnyRank(ticket));
  CKPTDB_ASSIGN_OR_RETURN(const StagedRank staged,
                          Stage(path, ticket, held.state()));
  Answer("ok");
  std::cout << staged.Encode().value() << std::flush;
  return absl::OkStatus();
}

absl::Status HoldLease(const std::string& path, int64_t step,
                       const StoreOptions& options) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(path, options));
  CKPTDB_ASSIGN_OR_RETURN(const auto open, reader->OpenStep(step));
  Answer("ok");
  std::string ignored;
  while (std::getline(std::cin, ignored)) {
    const absl::Status status = open->Verify();
    Answer(status.ok() ? "ok" : status.ToString());
  }
  return absl::OkStatus();
}

absl::Status CrashAt(const std::string& path, const std::string& point,
                     int64_t step, const RankContent& content) {
  StoreOptions options{.background_sweep = false,
                       .on_point = [&](absl::string_view passed) {
                         if (passed == point) raise(SIGKILL);
                       }};
  CKPTDB_ASSIGN_OR_RETURN(const auto store, Store::Open(path, options));
  const HeldState held(content);
  CKPTDB_RETURN_IF_ERROR(
      store->Save({.step = step, .overwrite = true}, held.state()).status());
  CKPTDB_RETURN_IF_ERROR(store->Sweep().status());
  Answer("ok");
  return absl::OkStatus();
}

absl::Status ListSteps(const std::string& path) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(path));
  Answer("ok");
  std::string ignored;
  while (std::getline(std::cin, ignored)) {
    CKPTDB_RETURN_IF_ERROR(reader->Refresh());
    std::string steps;
    for (const StepRecord& record : reader->Steps())
      absl::StrAppend(&steps, record.version.step, " ");
    Answer(steps);
  }
  return absl::OkStatus();
}

absl::Status PostTo(const std::string& path, int64_t step,
                    const Metrics& metrics) {
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, Reader::Open(path));
  CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(step, metrics));
  CKPTDB_RETURN_IF_ERROR(reader->RequestPin(step));
  Answer("ok");
  return absl::OkStatus();
}

struct Left {
  std::string path;
  Ticket ticket;
  std::unique_ptr<Store> store;
  std::unique_ptr<StepReader> own_step;
  std::unique_ptr<Reader> reader;
  std::unique_ptr<StepReader> step;
};
Left* left = nullptr;

void Tell(const char* call, const absl::Status& status) {
  std::cout << call << ' ' << status << std::endl;
}

absl::Status StageTheTicket() {
  const HeldState held(ChildContent(0), 100, AnyRank(left->ticket));
  return Stage(left->path, left->ticket, held.state()).status();
}

void CallAll() {
  const HeldState held(SmallContent(2));
  Tell("open", Store::Open(left->path).status());
  Tell("follow", Reader::Open(left->path).status());
  Tell("stage", StageTheTicket());
  Tell("save", left->store->Save({.step = 2}, held.state()).status());
  Tell("verify own", left->own_step->Verify());
  Tell("refresh", left->reader->Refresh());
  Tell("open step", left->reader->OpenStep(1).status());
  Tell("verify", left->step->Verify());
  Tell("look up", left->step->LookupRow("user", 1).status());
  Tell("close", left->store->Close());
}

// Opens the store at `path` as an owner and as a reader, and leaves both open.
// An exit handler that is older than all that the library has made calls them,
// opens and stages, and prints a line for each call.
absl::Status LeaveForExit(const std::string& path) {
  left = new Left();
  left->path = path;
  std::atexit(CallAll);
  CKPTDB_ASSIGN_OR_RETURN(left->store, Store::Open(path));
  const HeldState held(BulkContent(1));
  CKPTDB_RETURN_IF_ERROR(left->store->Save({.step = 1}, held.state()).status());
  CKPTDB_ASSIGN_OR_RETURN(Store::Attempt save, left->store->Begin({.step = 3}));
  left->ticket = std::move(save.tickets[0]);
  CKPTDB_ASSIGN_OR_RETURN(left->own_step, left->store->OpenStep(1));
  CKPTDB_ASSIGN_OR_RETURN(left->reader, Reader::Open(path));
  CKPTDB_ASSIGN_OR_RETURN(left->step, left->reader->OpenStep(1));
  return absl::OkStatus();
}

// Stages ChildContent(0) by this ticket, in a process that opens no store. The
// handler stages again.
absl::Status StageAndStageAtExit(const std::string& path,
                                 const std::string& ticket) {
  left = new Left();
  left->path = path;
  std::atexit([] { Tell("stage", StageTheTicket()); });
  CKPTDB_ASSIGN_OR_RETURN(left->ticket, Ticket::Decode(ticket));
  return StageTheTicket();
}

absl::Status GiveUpRights() {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) return absl::OkStatus();
  if (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 ||
      setuid(kNobody) != 0) {
    return absl::UnimplementedError("cannot become nobody");
  }
  return absl::OkStatus();
}

absl::Status Run(std::vector<std::string> arguments) {
  StoreOptions options;
  if (!arguments.empty() && arguments[0] == "--grants-locks") {
    options.environment = EnvironmentThatGrantsEveryLock();
    arguments.erase(arguments.begin());
  }
  if (!arguments.empty() && arguments[0] == "--shared") {
    options.directory_mode = 0777;
    options.file_mode = 0666;
    arguments.erase(arguments.begin());
  }
  if (!arguments.empty() && arguments[0] == "--mounts") {
    CKPTDB_RETURN_IF_ERROR(EnterNameSpace());
    CKPTDB_RETURN_IF_ERROR(BindFolder(arguments.at(1), arguments.at(2)));
    CKPTDB_RETURN_IF_ERROR(BindFolder(arguments.at(3), arguments.at(4)));
    arguments.erase(arguments.begin(), arguments.begin() + 5);
  }
  if (!arguments.empty() && arguments[0] == "--nobody") {
    CKPTDB_RETURN_IF_ERROR(GiveUpRights());
    arguments.erase(arguments.begin());
  }
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "hold") return Hold({arguments.begin() + 1, arguments.end()});
  if (command == "orphan") return LeaveOrphan(arguments.at(1));
  if (command == "own") return Own(arguments.at(1), options);
  if (command == "fill") return FillVolume(arguments.at(1), arguments.at(2));
  if (command == "steps") return ListSteps(arguments.at(1));
  if (command == "late") return LeaveForExit(arguments.at(1));
  if (command == "late-stage")
    return StageAndStageAtExit(arguments.at(1), ReadInput());
  if (command == "stage") {
    return StageRank(arguments.at(1),
                     static_cast<uint32_t>(std::stoul(arguments.at(2))));
  }
  if (command == "crash") {
    const uint64_t seed = std::stoull(arguments.at(4));
    return CrashAt(
        arguments.at(1), arguments.at(2), std::stoll(arguments.at(3)),
        arguments.at(5) == "bulk" ? BulkContent(seed) : SmallContent(seed));
  }
  if (command == "post") {
    return PostTo(arguments.at(1), std::stoll(arguments.at(2)),
                  {{arguments.at(3), std::stod(arguments.at(4))}});
  }
  if (command == "lease") {
    StoreOptions required{.leases = StoreOptions::LeaseMode::kRequired};
    return HoldLease(arguments.at(1), std::stoll(arguments.at(2)), required);
  }
  return absl::InvalidArgumentError(absl::StrCat("no command ", command));
}

}  // namespace
}  // namespace ckptdb::testing

int main(int argc, char** argv) {
  const absl::Status status =
      ckptdb::testing::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (!status.ok()) ckptdb::testing::Answer(status.ToString());
  return status.ok() ? 0 : 1;
}
