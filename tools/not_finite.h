// SPDX-License-Identifier: Apache-2.0
// Finds the tensors and rows of a step that contain NaN or infinite elements,
// and the steps since which they do.
#ifndef CKPTDB_TOOLS_NOT_FINITE_H_
#define CKPTDB_TOOLS_NOT_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "schema/types.h"
#include "tools/onset.h"

namespace ckptdb::tool {

struct NotFiniteTensor {
  Item spec;
  uint64_t nan = 0;
  uint64_t inf = 0;
  Onset onset;
};

struct NotFiniteRow {
  int64_t id = 0;
  uint64_t nan = 0;
  uint64_t inf = 0;
  std::vector<std::string> slots;  // slots that contain them
  Onset onset;
};

struct NotFiniteTable {
  std::string name;
  uint64_t not_finite_rows = 0;
  uint64_t read_rows = 0;
  std::vector<NotFiniteRow> rows;  // the first by id
};

struct NotFinite {
  uint64_t tensors_read = 0;             // tensors of floats
  std::vector<NotFiniteTensor> tensors;  // by name
  std::vector<NotFiniteTable> tables;    // those with slots of floats, by name
};

struct NotFiniteOptions {
  std::string glob = {};    // matches the names of items; empty: all
  size_t limit = 100;       // the limit of NotFiniteTable::rows
  bool find_onsets = true;  // otherwise they are empty
  ReadOptions read = {};
};

// Reads the tensors and the slots of floats of a step, and, to find the onsets,
// the found rows and tensors in some of the steps that it was saved on top of.
// `reader` must be the one that opened it.
absl::StatusOr<NotFinite> FindNotFinite(Reader* reader, const StepReader& step,
                                        const NotFiniteOptions& options);

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_NOT_FINITE_H_
