// SPDX-License-Identifier: Apache-2.0
// Turns loaded files into the state that a step saves.
#ifndef CKPTDB_TOOLS_FILES_IMPORT_STATE_H_
#define CKPTDB_TOOLS_FILES_IMPORT_STATE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/state.h"
#include "tools/files/array.h"
#include "tools/files/loaded_files.h"

namespace ckptdb::tool {

// Rows of a table in the arrays of files: blocks of ids, which are copied
// unless they are aligned int64, and their values.
class FileRows : public RowSource {
 public:
  // Adds rows: ids of any integer dtype of 32 or 64 bits, and as many rows of
  // each slot, as CheckRows requires.
  absl::Status Add(const FileArray& ids, const std::vector<FileArray>& slots);

  uint64_t block_count() const override { return blocks_.size(); }
  absl::StatusOr<RowBlock> Block(uint64_t block) const override;
  uint64_t rows() const { return rows_; }

 private:
  struct Rows {
    std::vector<int64_t> copied_ids;
    absl::Span<const int64_t> ids;
    std::vector<RowBlock::SlotValues> slots;
  };
  std::deque<Rows> blocks_;
  uint64_t rows_ = 0;
};

// A table that arrays named "<table>.ids" and "<table>.<slot>" form.
struct ArrayTable {
  std::string name;
  size_t ids = 0;  // which arrays
  std::vector<size_t> slots;
};

// Finds the tables: arrays "<table>.ids" of int64 [rows] such that every array
// "<table>.<slot>" has as many rows, and there is one. An array belongs to the
// table with the longest name; tensor_only arrays belong to none. Tables in
// `forced` also have ids of other integers; returns InvalidArgument if one of
// these is not a table.
absl::StatusOr<std::vector<ArrayTable>> FindTables(
    const std::vector<FileArray>& arrays, const std::set<std::string>& forced);

// Returns the slot that an array [rows, ...] forms.
absl::StatusOr<Slot> SlotOf(std::string name, const ArraySpec& spec);

struct ImportState {
  RankState state;
  std::vector<std::unique_ptr<FileRows>> rows;
  uint64_t tensor_count = 0;
  uint64_t table_count = 0;
  uint64_t row_count = 0;
};

// Adds all arrays and blobs, whose memory stays that of `files`. Returns
// InvalidArgument for two arrays of the same name.
absl::Status AddArrays(const LoadedFiles& files,
                       const std::vector<ArrayTable>& tables,
                       ImportState* state);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_FILES_IMPORT_STATE_H_
