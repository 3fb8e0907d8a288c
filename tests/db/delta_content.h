// SPDX-License-Identifier: Apache-2.0
// Changes of tables as tests save them, and a live table that takes those of a
// restore.
//
//   const HeldChanges held(after, ChangesBetween(before, after));
//   store->Save({.step = 8, .parent = saved.version}, held.state());
//
//   LiveRows live(table.slots);
//   changes->ScanTable("user", {}, &live);
//   live.rows() == after.tables["user"].rows
#ifndef CKPTDB_TESTS_DB_DELTA_CONTENT_H_
#define CKPTDB_TESTS_DB_DELTA_CONTENT_H_

#include <set>

#include "tests/db/content.h"

namespace ckptdb::testing {

struct TableDelta {
  Rows upserted;
  std::vector<int64_t> erased;
};
using Deltas = std::map<std::string, TableDelta>;  // by table

TableDelta DeltaBetween(const Rows& before, const Rows& after);
Deltas ChangesBetween(const RankContent& before, const RankContent& after);

// A RankState with the memory that it points to. Tables of `deltas` are given
// with their changes, and `whole`: with all their rows as well.
class HeldChanges {
 public:
  HeldChanges(RankContent content, Deltas deltas, bool whole = true,
              size_t rows_per_block = 100, const TableSharding& sharding = {});
  const RankState& state() const { return state_; }

 private:
  const RowSource* Hold(const std::vector<Slot>& slots, const Rows& rows,
                        size_t rows_per_block);
  RankContent content_;
  Deltas deltas_;
  std::vector<std::unique_ptr<BlockRows>> rows_;
  RankState state_;
};

// A table in use. It has all slots; when a scan brings some, the others of a
// row stay as they are, or are zeros. Internal when one scan brings an id
// twice, see NewScan.
class LiveRows : public LiveTable {
 public:
  explicit LiveRows(const std::vector<Slot>& slots, Rows rows = {},
                    const std::vector<std::string>& scanned = {});
  absl::Status Clear() override;
  absl::Status Consume(int worker, const RowSink::Batch& batch) override;
  absl::Status Erase(int worker, absl::Span<const int64_t> ids) override;
  void NewScan();
  const Rows& rows() const { return rows_; }
  const std::set<int64_t>& touched() const { return touched_; }
  bool cleared() const { return cleared_; }

 private:
  absl::Status Touch(int64_t id);
  struct Part {
    uint64_t at;
    uint64_t bytes;
  };
  uint64_t row_bytes_ = 0;
  std::vector<Part> parts_;  // of a row, in the order of the scan
  std::mutex mutex_;
  Rows rows_;
  std::set<int64_t> touched_;
  bool cleared_ = false;
};

// Values of some slots of each row, one after the other, in this order.
Rows Project(const TableContent& table, const std::vector<std::string>& slots);

// Fails the test unless looking up each of `ids` gives what `table` has.
void ExpectLookups(const StepReader& step, const std::string& name,
                   const TableContent& table, const std::set<int64_t>& ids);

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_DELTA_CONTENT_H_
