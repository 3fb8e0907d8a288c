// SPDX-License-Identifier: Apache-2.0
#include "tools/step_copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "db/state.h"
#include "schema/status.h"
#include "tools/scratch_file.h"

namespace ckptdb::tool {
namespace {

bool IsLossy(Codec codec) {
  return codec == Codec::kBf16 || codec == Codec::kInt8;
}

// The rows of a scan, in scratch files that have room for all of them.
class CopiedRows : public RowSink {
 public:
  static absl::StatusOr<std::unique_ptr<CopiedRows>> Make(
      const std::string& folder, const std::vector<Slot>& slots,
      uint64_t most_rows) {
    std::unique_ptr<CopiedRows> rows(new CopiedRows(most_rows));
    CKPTDB_ASSIGN_OR_RETURN(
        ScratchFile ids,
        ScratchFile::Make(folder, most_rows * sizeof(int64_t)));
    rows->files_.push_back(std::move(ids));
    for (const Slot& slot : slots) {
      CKPTDB_ASSIGN_OR_RETURN(
          ScratchFile values,
          ScratchFile::Make(folder, most_rows * slot.row_bytes()));
      rows->files_.push_back(std::move(values));
      rows->row_bytes_.push_back(slot.row_bytes());
    }
    return rows;
  }

  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    const size_t count = batch.ids.size();
    const uint64_t at = rows_.fetch_add(count);
    if (at + count > most_rows_) {
      return absl::InternalError(
          absl::StrCat("more than ", most_rows_, " rows"));
    }
    CKPTDB_RETURN_IF_ERROR(
        files_[0].Reserve(at * sizeof(int64_t), count * sizeof(int64_t)));
    std::memcpy(ids() + at, batch.ids.data(), count * sizeof(int64_t));
    for (size_t s = 0; s < row_bytes_.size(); ++s) {
      CKPTDB_RETURN_IF_ERROR(
          files_[s + 1].Reserve(at * row_bytes_[s], count * row_bytes_[s]));
      std::memcpy(files_[s + 1].data() + at * row_bytes_[s], batch.slots[s],
                  count * row_bytes_[s]);
    }
    return absl::OkStatus();
  }

  // Call after the scan.
  const RowSource* Source() {
    for (ScratchFile& file : files_) file.EndReserving();
    std::vector<RowBlock::SlotValues> values;
    for (size_t s = 0; s < row_bytes_.size(); ++s) {
      values.push_back({files_[s + 1].data(), row_bytes_[s]});
    }
    source_ = std::make_unique<RowSource::Arrays>(
        absl::MakeConstSpan(ids(), rows_.load()), std::move(values));
    return source_.get();
  }

 private:
  explicit CopiedRows(uint64_t most_rows) : most_rows_(most_rows) {}
  int64_t* ids() const { return reinterpret_cast<int64_t*>(files_[0].data()); }

  const uint64_t most_rows_;
  std::deque<ScratchFile> files_;  // ids, then each slot's values
  std::vector<uint64_t> row_bytes_;
  std::atomic<uint64_t> rows_ = 0;
  std::unique_ptr<RowSource> source_;
};

// Builds and stages the state of one rank.
class RankCopy {
 public:
  RankCopy(const StepReader& from, const Store& to, uint32_t rank,
           const std::function<bool()>& cancelled)
      : from_(from), to_(to), rank_(rank), cancelled_(cancelled) {}

  absl::StatusOr<StagedRank> Stage(const Ticket& ticket,
                                   const std::set<std::string>& tables) {
    for (const Item& item : from_.ranks()[rank_].items) {
      if (item.kind == Item::Kind::kTensor) {
        CKPTDB_RETURN_IF_ERROR(AddTensor(item));
      } else if (item.kind == Item::Kind::kBlob) {
        CKPTDB_ASSIGN_OR_RETURN(blobs_.emplace_back(),
                                from_.ReadBlob(rank_, item.name, Reading()));
        state_.AddBlob(item.name, blobs_.back(), item.codec);
      }
    }
    for (const std::string& table : tables) {
      CKPTDB_RETURN_IF_ERROR(AddTable(table));
    }
    return ckptdb::Stage(to_.path(), ticket, state_);
  }

 private:
  ReadOptions Reading() const { return {.cancelled = cancelled_}; }
  std::string Scratch() const { return to_.path() + "/staging"; }
  absl::Status AddTensor(const Item& item);
  absl::Status AddTable(const std::string& name);
  bool HoldsRows(const std::string& name, const StepReader::TableSpec& spec,
                 ScanOptions* scan) const;
  std::vector<int64_t> RangesOf(const std::string& name) const;
  TableSharding ShardingOf(const std::string& name,
                           const StepReader::TableSpec& spec) const;

  const StepReader& from_;
  const Store& to_;
  const uint32_t rank_;
  const std::function<bool()>& cancelled_;
  RankState state_;
  std::deque<ScratchFile> tensors_;
  std::deque<std::string> blobs_;
  std::deque<std::unique_ptr<CopiedRows>> rows_;
};

absl::Status RankCopy::AddTensor(const Item& item) {
  CKPTDB_ASSIGN_OR_RETURN(ScratchFile memory,
                          ScratchFile::Make(Scratch(), item.raw_bytes));
  CKPTDB_RETURN_IF_ERROR(memory.Reserve(0, item.raw_bytes));
  memory.EndReserving();
  CKPTDB_RETURN_IF_ERROR(from_.ReadTensorPart(item.name, item.offset,
                                              item.shape, memory.data(),
                                              item.raw_bytes, Reading()));
  TensorView view;
  view.dtype = item.dtype;
  view.shape = item.shape;
  view.data = memory.data();
  view.global_shape = item.global_shape;
  view.offset = item.offset;
  state_.AddTensor(item.name, view,
                   IsLossy(item.codec) ? Codec::kAuto : item.codec);
  tensors_.push_back(std::move(memory));
  return absl::OkStatus();
}

// Sets the part of the table that this rank holds; returns false if it holds
// none.
bool RankCopy::HoldsRows(const std::string& name,
                         const StepReader::TableSpec& spec,
                         ScanOptions* scan) const {
  const StepRecord& record = from_.record();
  if (record.world_size == 1) return true;
  const bool undeclared = spec.sharding == Item::Sharding::kUndeclared;
  const auto& bounds = record.slice_bounds;
  if (spec.sharding == Item::Sharding::kBySlices ||
      (undeclared && !bounds.empty())) {
    scan->slices = {bounds[rank_], bounds[rank_ + 1]};
    return bounds[rank_] < bounds[rank_ + 1];
  }
  if (spec.sharding == Item::Sharding::kByModulo) {
    scan->wanted = [rank = rank_, world = record.world_size](int64_t id) {
      return static_cast<uint64_t>(id) % world == rank;
    };
    return true;
  }
  if (spec.sharding == Item::Sharding::kByRange) {
    const std::vector<int64_t> ranges = RangesOf(name);
    scan->wanted = [first = ranges[rank_], end = ranges[rank_ + 1]](
                       int64_t id) { return id >= first && id < end; };
    return ranges[rank_] < ranges[rank_ + 1];
  }
  return rank_ == 0;
}

// The first id of each rank, and the end of the last one's.
std::vector<int64_t> RankCopy::RangesOf(const std::string& name) const {
  std::vector<int64_t> ranges(from_.record().world_size + size_t{1}, 0);
  for (const StepRecord::Rank& rank : from_.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind != Item::Kind::kRows || item.name != name) continue;
      ranges[rank.rank] = item.first_id;
      ranges[rank.rank + size_t{1}] = item.end_id;
    }
  }
  return ranges;
}

TableSharding RankCopy::ShardingOf(const std::string& name,
                                   const StepReader::TableSpec& spec) const {
  const StepRecord& record = from_.record();
  switch (spec.sharding) {
    case Item::Sharding::kBySlices:
      return TableSharding::BySlices(record.slice_bounds);
    case Item::Sharding::kByModulo:
      return TableSharding::ByModulo();
    case Item::Sharding::kByRange:
      return TableSharding::ByRange(RangesOf(name));
    case Item::Sharding::kCustom:
      // The function is the trainer's. Restores apply it to all rows.
      return TableSharding::ByFunction(
          spec.sharding_name, [](int64_t, uint32_t) { return uint32_t{0}; });
    case Item::Sharding::kReplicated:
      return TableSharding::Replicated();
    case Item::Sharding::kUndeclared:
      break;
  }
  const bool unchecked = record.world_size > 1 && record.slice_bounds.empty();
  return unchecked ? TableSharding::Unchecked() : TableSharding();
}

absl::Status RankCopy::AddTable(const std::string& name) {
  CKPTDB_ASSIGN_OR_RETURN(const StepReader::TableSpec spec,
                          from_.FindTable(name));
  ScanOptions scan;
  scan.read = Reading();
  const bool holds = HoldsRows(name, spec, &scan);
  CKPTDB_ASSIGN_OR_RETURN(
      std::unique_ptr<CopiedRows> rows,
      CopiedRows::Make(Scratch(), spec.slots, holds ? spec.rows : 0));
  if (holds) CKPTDB_RETURN_IF_ERROR(from_.ScanTable(name, scan, rows.get()));
  std::vector<Slot> slots = spec.slots;
  for (Slot& slot : slots) {
    if (IsLossy(slot.codec)) slot.codec = Codec::kAuto;
  }
  state_.AddTable(name, std::move(slots), rows->Source(), spec.slice_hash,
                  ShardingOf(name, spec));
  rows_.push_back(std::move(rows));
  return absl::OkStatus();
}

std::set<std::string> TablesIn(const StepReader& step) {
  std::set<std::string> tables;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      if (item.kind == Item::Kind::kRows) tables.insert(item.name);
    }
  }
  return tables;
}

absl::StatusOr<SaveResult> StageAndPublish(
    const StepReader& from, Store* to, const SaveSpec& spec,
    const Store::Attempt& attempt, const std::function<bool()>& cancelled) {
  const std::set<std::string> tables = TablesIn(from);
  std::vector<StagedRank> staged;
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    RankCopy copy(from, *to, rank, cancelled);
    CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                            copy.Stage(attempt.tickets[rank], tables));
  }
  return to->Publish(attempt.version, staged, spec);
}

// Adds up hashes of rows, so that their order does not matter.
class RowsHash : public RowSink {
 public:
  explicit RowsHash(const std::vector<Slot>& slots) {
    for (const Slot& slot : slots) row_bytes_.push_back(slot.row_bytes());
  }
  absl::Status Consume(int /*worker*/, const Batch& batch) override {
    uint64_t sum = 0;
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      size_t hash = absl::HashOf(batch.ids[i]);
      for (size_t s = 0; s < row_bytes_.size(); ++s) {
        const absl::string_view value(batch.slots[s] + i * row_bytes_[s],
                                      row_bytes_[s]);
        hash = absl::HashOf(hash, value);
      }
      sum += hash;
    }
    sum_ += sum;
    rows_ += batch.ids.size();
    return absl::OkStatus();
  }
  uint64_t Hash() const { return absl::HashOf(sum_.load(), rows_.load()); }

 private:
  std::vector<uint64_t> row_bytes_;
  std::atomic<uint64_t> sum_ = 0;
  std::atomic<uint64_t> rows_ = 0;
};

absl::StatusOr<uint64_t> HashOfTensor(const StepReader& step, const Item& item,
                                      const ReadOptions& reading) {
  const std::unique_ptr<char[]> bytes(new char[item.raw_bytes + 1]);
  CKPTDB_RETURN_IF_ERROR(step.ReadTensorPart(item.name, item.offset, item.shape,
                                             bytes.get(), item.raw_bytes,
                                             reading));
  return absl::HashOf(absl::string_view(bytes.get(), item.raw_bytes),
                      item.shape, item.global_shape,
                      static_cast<int>(item.dtype));
}

absl::StatusOr<uint64_t> HashOfTable(const StepReader& step,
                                     const std::string& name,
                                     const ReadOptions& reading) {
  CKPTDB_ASSIGN_OR_RETURN(const auto spec, step.FindTable(name));
  RowsHash hash(spec.slots);
  ScanOptions scan;
  scan.read = reading;
  CKPTDB_RETURN_IF_ERROR(step.ScanTable(name, scan, &hash));
  uint64_t result = hash.Hash();
  for (const Slot& slot : spec.slots) {
    result = absl::HashOf(result, slot.name, static_cast<int>(slot.dtype),
                          slot.elements);
  }
  return result;
}

// Returns a hash of each item's contents by its description.
absl::StatusOr<std::map<std::string, uint64_t>> HashesOf(
    const StepReader& step, const ReadOptions& reading) {
  std::map<std::string, uint64_t> hashes;
  for (const StepRecord::Rank& rank : step.ranks()) {
    for (const Item& item : rank.items) {
      const std::string place =
          absl::StrCat("rank ", rank.rank, " ", ItemKindName(item.kind), " \"",
                       item.name, "\" ", ToString(item.offset));
      if (item.kind == Item::Kind::kTensor) {
        CKPTDB_ASSIGN_OR_RETURN(hashes[place],
                                HashOfTensor(step, item, reading));
      } else if (item.kind == Item::Kind::kBlob) {
        CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                                step.ReadBlob(rank.rank, item.name, reading));
        hashes[place] = absl::HashOf(bytes);
      }
    }
  }
  for (const std::string& table : TablesIn(step)) {
    CKPTDB_ASSIGN_OR_RETURN(hashes[absl::StrCat("table \"", table, "\"")],
                            HashOfTable(step, table, reading));
  }
  return hashes;
}

}  // namespace

absl::StatusOr<SaveResult> CopyStep(const StepReader& from, Store* to,
                                    const std::function<bool()>& cancelled) {
  const StepRecord& record = from.record();
  SaveSpec spec;
  spec.step = record.version.step;
  spec.world_size = record.world_size;
  spec.slice_bounds = record.slice_bounds;
  spec.metrics = record.metrics;
  spec.user_metadata = record.user_metadata;
  // The target's manager records its own retention policy.
  spec.user_metadata.erase("ckptdb.retention");
  spec.committed_at_micros = record.committed_at_micros;
  spec.begun_at_micros =
      std::max<int64_t>(0, record.committed_at_micros - record.save_micros);
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt attempt, to->Begin(spec));
  auto saved = StageAndPublish(from, to, spec, attempt, cancelled);
  if (!saved.ok()) to->Abandon(attempt.version).IgnoreError();
  return saved;
}

absl::Status CompareContents(const StepReader& a, const StepReader& b,
                             const std::function<bool()>& cancelled) {
  const ReadOptions reading = {.cancelled = cancelled};
  CKPTDB_ASSIGN_OR_RETURN(const auto expected, HashesOf(a, reading));
  CKPTDB_ASSIGN_OR_RETURN(const auto found, HashesOf(b, reading));
  for (const auto& [place, hash] : expected) {
    const auto other = found.find(place);
    if (other != found.end() && other->second == hash) continue;
    return absl::DataLossError(
        absl::StrCat(place, other == found.end() ? " is missing in the copy"
                                                 : " differs in the copy"));
  }
  if (expected.size() == found.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the copy has ", found.size(), " items, expected ", expected.size()));
}

}  // namespace ckptdb::tool
