// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/cases.h"
#include "bench/disk.h"
#include "bench/payload.h"
#include "bench/store_save.h"
#include "schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr double kMaxDeleteSeconds = 0.005;
constexpr double kMaxSpaceSeconds = 1;
constexpr double kMaxOpenSeconds = 0.3;

// The space below a folder, before files of so many bytes are removed.
struct SpaceWatch {
  static absl::StatusOr<SpaceWatch> Start(const std::string& folder,
                                          uint64_t bytes) {
    CKPTDB_ASSIGN_OR_RETURN(const uint64_t free_bytes, FreeBytes(folder));
    return SpaceWatch{folder, bytes - bytes / 10, AllocatedBytes(folder),
                      free_bytes};
  }

  // Waits for the files to be gone, then for the file system to report the
  // space. Other processes may write to it meanwhile, so the time for that is
  // limited, and all of it counts.
  absl::Status WaitUntilBack() const {
    constexpr std::chrono::milliseconds kDeadline{60'000};
    constexpr std::chrono::milliseconds kSettle{250};
    if (!WaitFor(kDeadline, [&] {
          return AllocatedBytes(folder) + most_bytes <= allocated_bytes;
        })) {
      return absl::DeadlineExceededError(
          absl::StrCat("the space of deleted files is not back after ",
                       kDeadline.count(), " ms"));
    }
    WaitFor(kSettle, [&] {
      const auto now = FreeBytes(folder);
      return now.ok() && *now >= free_bytes + most_bytes;
    });
    return absl::OkStatus();
  }

  // Returns false if it did not become true in time.
  static bool WaitFor(std::chrono::milliseconds time,
                      const std::function<bool()>& condition) {
    constexpr int kPollMs = 1;
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < deadline) {
      if (condition()) return true;
      poll(nullptr, 0, kPollMs);
    }
    return false;
  }

  std::string folder;
  uint64_t most_bytes;  // of the bytes to be removed
  uint64_t allocated_bytes;
  uint64_t free_bytes;
};

// Times of `remove` itself, and of it and the wait until `bytes` are free.
struct Removal {
  Outcome call;
  Outcome space;
};

absl::Status MeasureRemoval(const std::string& folder, uint64_t bytes,
                            const std::function<absl::Status()>& remove,
                            Removal* removal) {
  CKPTDB_RETURN_IF_ERROR(SyncFileSystem(folder));
  CKPTDB_ASSIGN_OR_RETURN(const SpaceWatch watch,
                          SpaceWatch::Start(folder, bytes));
  CKPTDB_ASSIGN_OR_RETURN(const Sample call, Measure(remove));
  CKPTDB_ASSIGN_OR_RETURN(const Sample wait,
                          Measure([&] { return watch.WaitUntilBack(); }));
  removal->call.samples.push_back(call);
  removal->space.samples.push_back(
      {call.seconds + wait.seconds, call.cpu_seconds + wait.cpu_seconds});
  return absl::OkStatus();
}

absl::Status RemoveStep(StoreSave* save, uint64_t bytes, Removal* removal) {
  CKPTDB_RETURN_IF_ERROR(save->Save());
  const int64_t step = save->last_step();
  return MeasureRemoval(
      save->store().path(), bytes, [&] { return save->store().Delete(step); },
      removal);
}

absl::Status RemoveRaw(const Workspace& workspace, const Table& table,
                       Removal* removal) {
  constexpr RawVariant kVariant{false, 2};
  const std::string folder = workspace.Path("raw");
  CKPTDB_RETURN_IF_ERROR(MakeEmptyFolder(folder));
  CKPTDB_RETURN_IF_ERROR(RawWrite(folder, table.payload(), kVariant));
  return MeasureRemoval(
      folder, table.bytes(),
      [&] {
        for (int file = 0; file < kVariant.threads; ++file) {
          CKPTDB_RETURN_IF_ERROR(Remove(absl::StrCat(folder, "/raw.", file)));
        }
        return absl::OkStatus();
      },
      removal);
}

void AddRemovals(uint64_t bytes, const Removal& ours, const Removal& raw,
                 Report* report) {
  CaseResult call =
      Compare("retention/delete_call", bytes, {ours.call, raw.call});
  call.goals = {{"seconds", call.seconds.median, kMaxDeleteSeconds}};
  report->Add(std::move(call));
  CaseResult space =
      Compare("retention/delete_space", bytes, {ours.space, raw.space});
  space.goals = {{"seconds", space.seconds.median, kMaxSpaceSeconds}};
  report->Add(std::move(space));
}

// Deletes a large step next to one that stays, and plain files of the size.
absl::Status RunDelete(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 4;
  const uint64_t rows =
      std::max<uint64_t>(1, options.retention_bytes / Table::kRowBytes);
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.retention_bytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto table, Table::Make(rows, options.seed));
  RankState state;
  table->AddTo(&state);
  CKPTDB_ASSIGN_OR_RETURN(const auto save,
                          StoreSave::Make(*workspace, options, &state));
  CKPTDB_RETURN_IF_ERROR(save->Save());

  Removal ours{{"ours", {}}, {"ours", {}}};
  Removal raw{{"unlink", {}}, {"unlink", {}}};
  for (int i = 0; i < options.repetitions; ++i) {
    CKPTDB_RETURN_IF_ERROR(RemoveStep(save.get(), table->bytes(), &ours));
    CKPTDB_RETURN_IF_ERROR(RemoveRaw(*workspace, *table, &raw));
  }
  AddRemovals(table->bytes(), ours, raw, report);
  return absl::OkStatus();
}

// Opens the store in `path`; closes it outside of the measured time.
Contestant OpenStore(const std::string& path, uint64_t steps) {
  const auto store = std::make_shared<std::unique_ptr<Store>>();
  Contestant ours;
  ours.name = "ours";
  ours.run = [path, store] {
    CKPTDB_ASSIGN_OR_RETURN(*store, Store::Open(path));
    return absl::OkStatus();
  };
  ours.finish = [path, steps, store]() -> absl::Status {
    const uint64_t found = (*store)->Steps().size();
    store->reset();
    if (found == steps) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path, " has ", found, " steps, not ", steps));
  };
  return ours;
}

absl::Status MeasureOpen(const std::string& name, const std::string& path,
                         bool cold, const BenchOptions& options,
                         Report* report) {
  Contestant ours = OpenStore(path, options.steps);
  Contestant raw;
  raw.name = "read of all files";
  raw.run = [path] { return ReadAllFiles(path); };
  ours.prepare = [path, cold] {
    return cold ? MakeCold(path) : ReadAllFiles(path);
  };
  raw.prepare = ours.prepare;
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<Outcome> outcomes,
      TakeTurns(name, {std::move(ours), std::move(raw)}, options.repetitions));
  CaseResult result = Compare(name, FileBytes(path), outcomes);
  result.figures = {{"steps", static_cast<double>(options.steps)}};
  result.goals = {{"seconds", result.seconds.median, kMaxOpenSeconds}};
  report->Add(std::move(result));
  return absl::OkStatus();
}

absl::Status RunOpen(const BenchOptions& options, Report* report) {
  constexpr uint64_t kNeededBytes = uint64_t{1} << 30;
  CKPTDB_ASSIGN_OR_RETURN(const auto workspace,
                          Workspace::Make(options.dir, kNeededBytes));
  const std::string path = workspace->Path("store");
  CKPTDB_RETURN_IF_ERROR(BuildSteps(path, options.steps, options.seed));
  CKPTDB_RETURN_IF_ERROR(
      MeasureOpen("retention/open_cold", path, true, options, report));
  return MeasureOpen("retention/open_warm", path, false, options, report);
}

}  // namespace

absl::Status RunRetention(const BenchOptions& options, Report* report) {
  CKPTDB_RETURN_IF_ERROR(RunDelete(options, report));
  return RunOpen(options, report);
}

}  // namespace ckptdb::bench
