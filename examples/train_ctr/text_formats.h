// SPDX-License-Identifier: Apache-2.0
// The text formats of click logs: a line in, an Example out. No I/O.
//
// Criteo: CSV with the header label,I1..I13,C1..C26. Numeric columns are put
// into logarithmic buckets; an empty column is a value of its own.
// MovieLens: user, item, rating, timestamp, separated by tabs or by "::". A
// rating of 4 or more is a click. The fields are the user, the item and the
// hour of the day.
//
// Errors are InvalidArgument with the column and the value; the caller adds
// the file and the line.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_TEXT_FORMATS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_TEXT_FORMATS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "train_ctr/example.h"

namespace train_ctr {

enum class Format { kCriteo, kMovieLens };

inline constexpr int kCriteoNumericColumns = 13;
inline constexpr int kCriteoCategoricalColumns = 26;
inline constexpr double kClickRating = 4;

absl::StatusOr<Format> ParseFormat(absl::string_view name);
absl::string_view FormatName(Format format);
bool HasHeader(Format format);
FieldLayout LayoutOf(Format format);

absl::Status CheckHeader(Format format, absl::string_view line);
absl::Status ParseLine(Format format, absl::string_view line, Example* example);

// The bucket of a finite number: exact for values under 3, then growing with
// the square of the logarithm.
int64_t LogBucket(double value);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_TEXT_FORMATS_H_
