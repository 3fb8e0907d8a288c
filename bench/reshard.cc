// Restores on another number of ranks: how many bytes all of them read.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ckptdb/bench/cases.h"
#include "ckptdb/bench/disk.h"
#include "ckptdb/bench/payload.h"
#include "ckptdb/bench/store_save.h"
#include "ckptdb/db/state.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::bench {
namespace {

constexpr uint32_t kSavedRanks = 4;
constexpr double kMaxReshardRatio = 1.05;

// Returns the bytes that this process has read by system calls, from the page
// cache or not.
uint64_t BytesRead() {
  std::ifstream lines("/proc/self/io");
  std::string word;
  uint64_t bytes = 0;
  while (lines >> word) {
    if (word == "rchar:" && lines >> bytes) return bytes;
  }
  return 0;
}

// Every rank saves its slices of the table.
absl::Status SaveRanks(const Table& table, const BenchOptions& options,
                       Store* store) {
  SaveSpec spec;
  spec.step = 1;
  spec.world_size = kSavedRanks;
  spec.slice_bounds = EvenSliceBounds(kSavedRanks);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store->Begin(spec));
  std::vector<StagedRank> staged;
  for (const Ticket& ticket : save.tickets) {
    CKPTDB_ASSIGN_OR_RETURN(const auto part, table.Select([&](int64_t id) {
      return ticket.slices()->Contains(SliceOf(id, SliceHash::kModulo));
    }));
    RankState state;
    part->AddTo(&state);
    CKPTDB_ASSIGN_OR_RETURN(
        staged.emplace_back(),
        Stage(store->path(), ticket, state, StageOptionsOf(options)));
  }
  return store->Publish(save.version, staged).status();
}

// The ranks of the new world read one after the other.
class Resharded {
 public:
  Resharded(Store* store, Table* table, uint32_t ranks, ReadOptions read)
      : store_(store),
        table_(table),
        ranks_(ranks),
        digest_(table->Digest()),
        read_(read) {}

  Contestant As(const std::string& name) {
    Contestant restore;
    restore.name = name;
    restore.prepare = [this] {
      table_->Clear();
      return MakeCold(store_->path());
    };
    restore.run = [this] { return Read(); };
    restore.finish = [this] {
      if (table_->Digest() == digest_) return absl::OkStatus();
      return absl::DataLossError("what was restored is not what was saved");
    };
    return restore;
  }
  double bytes_read() const { return static_cast<double>(bytes_read_); }

 private:
  absl::Status Read() {
    const uint64_t before = BytesRead();
    CKPTDB_ASSIGN_OR_RETURN(const auto step, store_->OpenStep(1));
    const std::vector<uint32_t> bounds = EvenSliceBounds(ranks_);
    std::vector<SliceRange> parts;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      parts.push_back({bounds[rank], bounds[rank + size_t{1}]});
    }
    CKPTDB_RETURN_IF_ERROR(table_->ReadParts(*step, parts, read_));
    bytes_read_ = BytesRead() - before;
    return absl::OkStatus();
  }

  Store* const store_;
  Table* const table_;
  const uint32_t ranks_;
  const uint64_t digest_;
  const ReadOptions read_;
  uint64_t bytes_read_ = 0;
};

}  // namespace

absl::Status RunReshard(const BenchOptions& options, Report* report) {
  constexpr uint64_t kCopies = 2;
  CKPTDB_ASSIGN_OR_RETURN(
      const auto workspace,
      Workspace::Make(options.dir, kCopies * options.rows * Table::kRowBytes));
  CKPTDB_ASSIGN_OR_RETURN(const auto table,
                          Table::Make(options.rows, options.seed));
  CKPTDB_ASSIGN_OR_RETURN(const auto store,
                          Store::Open(workspace->Path("store")));
  CKPTDB_RETURN_IF_ERROR(SaveRanks(*table, options, store.get()));
  for (const uint32_t ranks : {3u, 8u}) {
    const ReadOptions read = ReadOptionsOf(options);
    Resharded ours(store.get(), table.get(), ranks, read);
    Resharded whole(store.get(), table.get(), 1, read);
    const std::vector<Contestant> contestants = {ours.As("ours"),
                                                 whole.As("one rank")};
    const std::string name = absl::StrCat("reshard/", kSavedRanks, "_", ranks);
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<Outcome> outcomes,
                            TakeTurns(name, contestants, options.repetitions));
    CaseResult result = Compare(name, table->bytes(), outcomes);
    result.figures = {{"read_bytes", ours.bytes_read()}};
    result.goals = {{"read_bytes_ratio",
                     ours.bytes_read() / static_cast<double>(table->bytes()),
                     kMaxReshardRatio}};
    report->Add(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::bench
