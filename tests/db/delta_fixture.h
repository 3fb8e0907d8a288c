// SPDX-License-Identifier: Apache-2.0
#ifndef CKPTDB_TESTS_DB_DELTA_FIXTURE_H_
#define CKPTDB_TESTS_DB_DELTA_FIXTURE_H_

#include "tests/db/delta_content.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {

// Values that tell each id, and each time it was written, from any other.
inline std::string RowOf(int64_t id, int64_t generation, uint64_t bytes = 20) {
  std::mt19937_64 random(static_cast<uint64_t>(id) * 1000 +
                         static_cast<uint64_t>(generation));
  return RandomBytes(&random, bytes);
}

inline TableContent UserTable(const std::vector<int64_t>& ids,
                              SliceHash hash = SliceHash::kModulo) {
  TableContent table{
      {{"embedding", DType::kF32, 4}, {"freq", DType::kI32, 1}}, hash, {}};
  for (const int64_t id : ids) table.rows[id] = RowOf(id, 0);
  return table;
}

inline RankContent UserContent(const std::vector<int64_t>& ids,
                               SliceHash hash = SliceHash::kModulo) {
  RankContent content;
  content.tables["user"] = UserTable(ids, hash);
  return content;
}

// A table that is worth a data file of its own.
inline TableContent BulkTable(uint64_t seed) {
  constexpr uint64_t kRowBytes = 8192;
  std::mt19937_64 random(seed);
  TableContent table;
  table.slots = {{"embedding", DType::kU8, kRowBytes}};
  for (int64_t id = 0; id < 2200; ++id)
    table.rows[id * 31] = RandomBytes(&random, kRowBytes);
  return table;
}

class DeltaFixture : public SweptFixture {
 protected:
  // The tables of `after` as their changes since `before`, and whole as well.
  absl::StatusOr<SaveResult> SaveOver(const SaveSpec& spec,
                                      const RankContent& before,
                                      const RankContent& after) {
    const HeldChanges held(after, ChangesBetween(before, after));
    return store_->Save(spec, held.state());
  }
  // Without the rows of the tables: only changes will do.
  absl::StatusOr<SaveResult> SaveDelta(int64_t step, const Version& parent,
                                       const RankContent& after,
                                       const Deltas& deltas) {
    const HeldChanges held(after, deltas, /*whole=*/false);
    return store_->Save({.step = step, .parent = parent}, held.state());
  }
  // Rank r saves ranks[r], of which the tables in deltas[r] as changes.
  absl::StatusOr<SaveResult> SaveRanks(const SaveSpec& spec,
                                       const std::vector<RankContent>& ranks,
                                       const std::vector<Deltas>& deltas = {}) {
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store_->Begin(spec));
    std::vector<StagedRank> staged;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const HeldChanges held(ranks[rank],
                             rank < deltas.size() ? deltas[rank] : Deltas(),
                             /*whole=*/false, 100, AnyRank(save.tickets[rank]));
      CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                              Stage(path(), save.tickets[rank], held.state()));
    }
    return store_->Publish(save.version, staged);
  }
  // As ExpectStep, and looks rows up as well: those that are there and `gone`.
  void ExpectRows(int64_t step, const RankContent& content,
                  const std::set<int64_t>& gone = {}) {
    ExpectStep(step, {content});
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    for (const auto& [name, table] : content.tables) {
      std::set<int64_t> ids = gone;
      for (const auto& [id, values] : table.rows) ids.insert(id);
      ExpectLookups(*reader, name, table, ids);
    }
  }
  // Saves what the trainer holds as a delta over what it saved last, or whole.
  void SaveNext(int64_t step) {
    const auto result = parent_.has_value()
                            ? SaveDelta(step, *parent_, content_,
                                        ChangesBetween(saved_, content_))
                            : Save(step, content_);
    ASSERT_OK(result.status());
    EXPECT_EQ(result->kind, parent_.has_value() ? StepRecord::Kind::kDelta
                                                : StepRecord::Kind::kFull);
    parent_ = result->version;
    saved_ = content_;
    history_[step] = content_;
  }
  Rows& rows() { return content_.tables["user"].rows; }
  void ExpectHistory(const std::set<int64_t>& ids = {}) {
    for (const auto& [step, content] : history_) {
      SCOPED_TRACE("step " + std::to_string(step));
      ExpectRows(step, content, ids);
    }
  }
  RankContent content_;
  RankContent saved_;
  std::optional<Version> parent_;
  std::map<int64_t, RankContent> history_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_DB_DELTA_FIXTURE_H_
