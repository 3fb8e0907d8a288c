// SPDX-License-Identifier: Apache-2.0
// Reads the changes from one step to another; internal to db/.
#ifndef CKPTDB_DB_READ_CHANGE_READER_IMPL_H_
#define CKPTDB_DB_READ_CHANGE_READER_IMPL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "db/meta/lineage.h"
#include "db/read/step_reader_impl.h"
#include "db/reader.h"

namespace ckptdb {

// The records of the two steps and of the versions between them.
struct ChangePlan {
  StepRecord from;
  std::vector<StepRecord> to_chain;  // see internal::ChainOf
  internal::Path path;

  // Returns all versions that must be kept while the path is read.
  std::vector<Version> versions() const;
};
// Returns the errors of internal::FindPath, and NotFound if step `to` does not
// exist.
absl::StatusOr<ChangePlan> PlanChanges(const internal::Catalog& catalog,
                                       const Version& from, int64_t to);

class ChangeReader::Impl {
 public:
  static absl::StatusOr<std::unique_ptr<ChangeReader>> Load(
      const internal::Database* database, ChangePlan plan, ReadHold hold);

  const ChainMember& from() const { return from_; }
  const StepReader& to() const { return *to_; }
  bool forwards() const { return undo_.empty(); }
  const internal::HomeProcess& home() const { return to_impl_->home(); }
  const ReadHold& hold() const { return to_impl_->hold(); }

  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         LiveTable* live) const;
  absl::StatusOr<StepReader::ScanEstimate> EstimateScan(
      absl::string_view table, const SliceRange& slices) const;

 private:
  Impl() = default;

  // Loads `from` and the members of the path; moves their records out of the
  // plan.
  absl::Status LoadPath(const internal::Database& database, ChangePlan* plan);
  absl::Status CheckTable(absl::string_view table) const;
  absl::StatusOr<std::vector<RankItem>> DeltaRuns(
      absl::string_view table) const;
  absl::Status Forwards(const std::vector<RankItem>& runs,
                        const ScanOptions& options, LiveTable* live) const;
  absl::Status LookUp(absl::string_view table,
                      const std::vector<RankItem>& touched,
                      const ScanOptions& options, LiveTable* live) const;

  ChainMember from_;
  std::unique_ptr<StepReader> to_;
  const StepReader::Impl* to_impl_ = nullptr;
  // Members are ordered newest first.
  std::vector<ChainMember> undo_;
  std::vector<ChainMember> redo_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_READ_CHANGE_READER_IMPL_H_
