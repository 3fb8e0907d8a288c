// What leads from one step to another: for a process that holds the state of
// the first, such as a warm standby or a serving replica, and wants that of the
// second. From Store::OpenChanges or Reader::OpenChanges; what it needs stays
// on disk until it is destroyed.
//
//   CKPTDB_ASSIGN_OR_RETURN(auto changes,
//                           reader->OpenChanges(held, /*to=*/2000));
//   CKPTDB_RETURN_IF_ERROR(changes->ScanTable("user", {}, &live_table));
//   for (const ItemName& item : changes->ChangedItems()) ...
//   held = changes->to().record().version;
//
// Forwards along a lineage only the delta runs between the two are read. In
// other cases, back to an older step or over to another branch, every id that
// was touched on the way is looked up in the second step.
//
// All methods may be called from several threads at once. Errors as in
// db/step_reader.h.
#ifndef CKPTDB_DB_CHANGE_READER_H_
#define CKPTDB_DB_CHANGE_READER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/step_reader.h"
#include "ckptdb/schema/keys.h"

namespace ckptdb {

// A tensor or a blob.
struct ItemName {
  uint32_t rank = 0;
  ItemKind kind = ItemKind::kTensor;
  std::string name;

  bool operator==(const ItemName&) const = default;
};

class ChangeReader {
 public:
  class Impl;
  explicit ChangeReader(std::unique_ptr<Impl> impl);
  ~ChangeReader();
  ChangeReader(const ChangeReader&) = delete;
  ChangeReader& operator=(const ChangeReader&) = delete;

  const StepRecord& from() const;
  const StepReader& to() const;
  // Whether all that is between them is done by reading delta runs.
  bool forwards() const;

  // The rows of a table that are new or others in the second step go to
  // live->Consume, the ids that are gone to live->Erase: each id once, in
  // batches of any order; an id may be erased that the first step did not
  // have. The other slots of a row are as they were when `options.slots` names
  // some. NotFound when the second step has no such table; FailedPrecondition
  // when it was saved whole on the way, or the first step has it not: then all
  // of it is to be read.
  absl::Status ScanTable(absl::string_view table, const ScanOptions& options,
                         LiveTable* live) const;

  // Of the delta runs that such a scan reads. When it does not go forwards it
  // also reads the ids of the second step's runs, and the pages that have rows
  // of what was touched. Errors as ScanTable, before the first row.
  absl::StatusOr<ScanEstimate> EstimateScan(absl::string_view table,
                                            const SliceRange& slices) const;

  // Tensors and blobs of the second step whose bytes the first has not, or has
  // under another shape or dtype.
  std::vector<ItemName> ChangedItems() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_CHANGE_READER_H_
