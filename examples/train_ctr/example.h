// SPDX-License-Identifier: Apache-2.0
// One line of a click log as the trainer sees it, and many of them.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_EXAMPLE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_EXAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace train_ctr {

// The sparse features of a log: field f is looked up in table
// tables[table_of_field[f]].
struct FieldLayout {
  std::vector<std::string> tables;
  std::vector<size_t> table_of_field;

  size_t fields() const { return table_of_field.size(); }
};

struct Example {
  float label = 0;           // 1 a click, 0 none
  std::vector<int64_t> ids;  // one hashed id a field
};

// Examples one after the other; ids[i * fields + f] is field f of example i.
struct Batch {
  std::vector<float> labels;
  std::vector<int64_t> ids;

  size_t size() const { return labels.size(); }
  // Puts the examples [begin, end) into `part`.
  void CopyTo(size_t begin, size_t end, Batch* part) const;
  void Clear() {
    labels.clear();
    ids.clear();
  }
  void Add(const Example& example) {
    labels.push_back(example.label);
    ids.insert(ids.end(), example.ids.begin(), example.ids.end());
  }
};

// The id of a field's value: any int64, negative ones too. Equal values of
// different fields have different ids, so fields can share a table.
int64_t HashFeature(size_t field, absl::string_view value);
int64_t HashFeature(size_t field, int64_t value);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_EXAMPLE_H_
