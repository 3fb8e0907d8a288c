// A step open for reading; internal to db/.
#ifndef CKPTDB_DB_STEP_READER_IMPL_H_
#define CKPTDB_DB_STEP_READER_IMPL_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/database.h"
#include "ckptdb/db/step_reader.h"

namespace ckptdb {

// An item as one rank holds it.
struct RankItem {
  uint32_t rank = 0;
  const Item* item = nullptr;
};

class StepReader::Impl {
 public:
  // `hold` keeps the step's data from the sweep while it lives.
  static absl::StatusOr<std::unique_ptr<StepReader>> Load(
      const internal::Database* database, StepRecord record,
      std::shared_ptr<void> hold);

  const internal::Database& database() const { return *database_; }
  const StepRecord& record() const { return record_; }
  const std::vector<RankRecord>& ranks() const { return ranks_; }

  // An item of all ranks that have it, by rank; NotFound when none has.
  absl::StatusOr<std::vector<RankItem>> Find(ItemKind kind,
                                             absl::string_view name) const;

 private:
  Impl() = default;

  const internal::Database* database_ = nullptr;
  StepRecord record_;
  std::vector<RankRecord> ranks_;
  std::map<std::pair<ItemKind, std::string>, std::vector<RankItem>> items_;
  std::shared_ptr<void> hold_;
};

namespace internal {

// "step 7 rank 0 table "user""
std::string PlaceOf(const StepRecord& step, const RankItem& item);

// tensor_reader.cc: the part of a tensor that `box` says, to `out`, which has
// room for it.
absl::Status ReadBox(const StepReader::Impl& step,
                     const std::vector<RankItem>& shards, const Box& box,
                     char* out, const ReadOptions& options);

// chunk_reader.cc: one chunk of a tensor or blob, checked against its header
// and its record, to raw memory for all of it.
absl::Status ReadChunk(const StepReader::Impl& step, const RankItem& item,
                       uint32_t chunk, char* raw);
uint64_t ChunkRawBytes(const Item& item, uint32_t chunk);

// table_scan.cc
absl::Status ScanRows(const StepReader::Impl& step,
                      const std::vector<RankItem>& parts,
                      const ScanOptions& options, RowSink* sink);

// row_lookup.cc: NotFound when the part has no such row.
absl::StatusOr<RowValues> LookupRow(const StepReader::Impl& step,
                                    const RankItem& part, int64_t id);

// verify.cc
absl::Status VerifyStep(const StepReader::Impl& step,
                        const ReadOptions& options, const Progress& progress);

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_STEP_READER_IMPL_H_
