// SPDX-License-Identifier: Apache-2.0
// The small language of --where and --sort, about the rows of a table.
//
//   CKPTDB_ASSIGN_OR_RETURN(
//       const RowFilter filter,
//       RowFilter::Parse("nan(embedding) | freq < 3", table.slots));
//   ScanOptions options;
//   options.slots = filter.slots();
//   ...                               // in RowSink::Consume:
//   filter.Evaluate(batch, &values);  // values[r] != 0: row r matches
//
// Grammar, with spaces anywhere between words:
//
//   or       = and { "|" and }              also "||"
//   and      = compare { "&" compare }      also "&&"
//   compare  = value [ ("<" "<=" ">" ">=" "=" "==" "!=") value ]
//   value    = "!" value | "(" or ")" | number | "id" | slot
//            | slot "[" index "]" | function "(" slot ")" | "abs" "(" or ")"
//   function = "nan" | "inf" | "norm" | "min" | "max" | "absmax" | "sum"
//            | "mean"
//   number   = 3, -0.5, 1e-9, nan, inf, -inf, true, false
//
// "nan" and "inf" count elements. A name of a slot is a letter or _ followed by
// letters, digits and . _ / : - or any text in double quotes, with \" and \\.
// Every value is a number; a comparison is 1 or 0, and a value alone holds
// unless it is 0. The norm, min, max, absmax, sum and mean of elements that
// include NaN are NaN, and no comparison with NaN holds but "!=". Integers of
// 64 bits are compared exactly.
#ifndef CKPTDB_TOOLS_ROW_FILTER_H_
#define CKPTDB_TOOLS_ROW_FILTER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "db/reader.h"
#include "schema/types.h"

namespace ckptdb::tool {

inline constexpr size_t kMaxFilterBytes = 16384;
// The deepest nesting of parentheses, "!" and "abs".
inline constexpr int kMaxFilterDepth = 64;

// The grammar in a few lines, for --help.
inline constexpr char kFilterHelp[] =
    "A filter compares numbers with < <= > >= = != and combines\n"
    "comparisons with & | ! and parentheses. Numbers are id, a slot of\n"
    "one element (freq), an element (embedding[0]), the functions of a\n"
    "slot nan, inf (how many elements are), norm, min, max, absmax,\n"
    "sum, mean, and abs of a number. A number alone holds unless it is\n"
    "0. Names with other characters are written in double quotes.\n";

class RowFilter {
 public:
  // Holds every integer of 64 bits.
  using Number = long double;
  class Node;

  // Parses a filter or a value for a table with these slots. Returns
  // InvalidArgument with the column, counted from 1, of the first error; for an
  // unknown slot also with the names of all slots.
  static absl::StatusOr<RowFilter> Parse(absl::string_view text,
                                         absl::Span<const Slot> slots);

  // The number of elements of a row that are NaN or infinite, in the slots of
  // floats.
  static RowFilter NotFinite(absl::Span<const Slot> slots);

  // The slots that it names, each once: all that has to be read.
  const std::vector<std::string>& slots() const { return slots_; }

  // Sets (*values)[r] to the value of row r of the batch, whose first slots
  // must be slots(), in this order. Any thread may call it.
  void Evaluate(const RowSink::Batch& batch, std::vector<Number>* values) const;

 private:
  RowFilter(std::shared_ptr<const Node> root, std::vector<std::string> slots);

  std::shared_ptr<const Node> root_;
  std::vector<std::string> slots_;
};

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_ROW_FILTER_H_
