// SPDX-License-Identifier: Apache-2.0
// A step open for reading; internal to db/.
#ifndef CKPTDB_DB_READ_STEP_READER_IMPL_H_
#define CKPTDB_DB_READ_STEP_READER_IMPL_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/base/home_process.h"
#include "db/reader.h"
#include "db/rocks/database.h"
#include "schema/bytes/shape.h"
#include "schema/records/records.h"

namespace ckptdb {

// An item on one rank of a version, which is the step or a member of its chain.
struct RankItem {
  uint32_t rank = 0;
  const Item* item = nullptr;
  const StepRecord* step = nullptr;

  // Returns whether the ranks divided the table by the step's slice bounds.
  // Steps from before shardings were declared did so whenever they have bounds.
  bool by_slices() const {
    return !step->slice_bounds.empty() &&
           (item->sharding == Item::Sharding::kUndeclared ||
            item->sharding == Item::Sharding::kBySlices);
  }
  // Returns the slices whose rows the rank saved; all slices if unknown.
  SliceRange slices() const {
    if (!by_slices()) return {};
    const std::vector<uint32_t>& bounds = step->slice_bounds;
    return {bounds[rank], bounds[rank + size_t{1}]};
  }
};

// A member of a chain, with all its items.
struct ChainMember {
  StepRecord record;
  std::vector<StepRecord::Rank> ranks;
};

// Protects an open step's data from the sweep while it exists.
class ReadHold {
 public:
  using ExplainFunction = std::function<absl::Status(const absl::Status&)>;

  // `explain`, if set, adds the cause to a read error.
  // NOLINTNEXTLINE(google-explicit-constructor): most holds have no `explain`
  ReadHold(std::shared_ptr<void> hold, ExplainFunction explain = nullptr)
      : hold_(std::move(hold)), explain_(std::move(explain)) {}

  absl::Status Explain(const absl::Status& status) const {
    return status.ok() || !explain_ ? status : explain_(status);
  }
  template <typename T>
  absl::StatusOr<T> Explain(absl::StatusOr<T> result) const {
    if (result.ok()) return result;
    return Explain(result.status());
  }

 private:
  std::shared_ptr<void> hold_;
  ExplainFunction explain_;
};

class StepReader::Impl {
 public:
  // `chain`: see internal::ChainOf.
  static absl::StatusOr<std::unique_ptr<StepReader>> Load(
      const internal::Database* database, std::vector<StepRecord> chain,
      ReadHold hold, const Impl** loaded = nullptr);

  const internal::Database& database() const { return *database_; }
  const StepRecord& record() const { return chain_.back().record; }
  const std::vector<StepRecord::Rank>& ranks() const {
    return chain_.back().ranks;
  }
  // Members are ordered base first, the step itself last.
  const std::vector<ChainMember>& chain() const { return chain_; }

  const internal::HomeProcess& home() const { return home_; }
  const ReadHold& hold() const { return hold_; }

  // Returns the item on each rank that has it, by rank, or NotFound if none has
  // it.
  absl::StatusOr<std::vector<RankItem>> Find(Item::Kind kind,
                                             absl::string_view name) const;
  // The same without a copy; null if none has it.
  const std::vector<RankItem>* FindOrNull(Item::Kind kind,
                                          absl::string_view name) const;

  // Return FailedPrecondition for what the store was fetched without: an item,
  // rows of a table, or anything at all.
  absl::Status CheckFetched(Item::Kind kind, absl::string_view name) const;
  absl::Status CheckFetched(absl::string_view table,
                            absl::Span<const Slot> slots,
                            const SliceRange& slices) const;
  absl::Status CheckWhole(absl::string_view doing) const;

 private:
  explicit Impl(ReadHold hold) : hold_(std::move(hold)) {}
  absl::Status LoadAll(std::vector<StepRecord> chain);
  absl::Status NotFetched(absl::string_view what) const;

  const internal::Database* database_ = nullptr;
  std::optional<StoreParts> parts_;  // of the store, unless it is whole
  std::vector<ChainMember> chain_;
  std::map<std::pair<Item::Kind, std::string>, std::vector<RankItem>> items_;
  const internal::HomeProcess home_;
  const ReadHold hold_;
};

namespace internal {

// Returns whether sequential reads of the item use readahead and bypass the
// page cache. Inline items do not, because they are mostly in memory, nor do
// small ones: a step may have thousands of small items side by side, several of
// which one kernel read covers.
bool IsReadAhead(const Item& item);

// Returns "step 7 rank 0 table "user"", for errors.
std::string PlaceOf(const RankItem& item);

// A part of a tensor to read to `out`, which has room for it.
struct BoxRead {
  const std::vector<RankItem>* shards = nullptr;
  Box box;
  char* out = nullptr;
};
// Defined in tensor_reader.cc. Returns the error of the first box that cannot
// be read.
absl::Status ReadBoxes(const StepReader::Impl& step,
                       absl::Span<const BoxRead> reads,
                       const ReadOptions& options);

// Returns InvalidArgument if `target`, the destination of `name` (such as
// "table "user""), is null.
absl::Status CheckTarget(const void* target, absl::string_view name);

// Defined in table_scan.cc.
// Returns the errors of a scan that are detected before it begins.
absl::Status CheckScan(const StepReader::Impl& step, absl::string_view table,
                       const ScanOptions& options);
absl::Status ScanTable(const StepReader::Impl& step, absl::string_view table,
                       const ScanOptions& options, RowSink* sink);

// Defined in row_lookup.cc. Returns NotFound if the table has no such row.
absl::StatusOr<std::vector<std::string>> LookupRow(const StepReader::Impl& step,
                                                   absl::string_view table,
                                                   int64_t id);
// See StepReader::LookupRows.
absl::Status LookupRows(const StepReader::Impl& step, absl::string_view table,
                        absl::Span<const int64_t> ids,
                        absl::Span<const std::string> slots,
                        absl::Span<char* const> out, bool* found,
                        const ReadOptions& options);

// Defined in verify.cc.
absl::Status VerifyStep(const StepReader::Impl& step,
                        const ReadOptions& options,
                        std::set<Version>* verified);

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_READ_STEP_READER_IMPL_H_
