// SPDX-License-Identifier: Apache-2.0
// Events that the writer reports to the driver, one per line, before it
// continues.
#ifndef CKPTDB_BENCH_SOAK_EVENT_H_
#define CKPTDB_BENCH_SOAK_EVENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb::soak {

struct Event {
  enum class Kind {
    kOpened,  // `step` restored, or -1; `steps` that the store lists
    kBegan,   // a save of `step`
    kSaved,   // `step`, durable; `steps` that left with it
    kFolded,  // `step`
    kFailed,  // what began at `began_micros`: of `step`, or -1
  };
  Kind kind = Kind::kOpened;
  int64_t step = -1;
  // Time by SteadyMicros, a clock that all processes share.
  int64_t began_micros = 0;
  std::vector<int64_t> steps = {};
  std::string text = {};  // a code and a message; "full" or "delta" of a save
};

int64_t SteadyMicros();

std::string EncodeEvent(const Event& event);  // with the end of the line
// Returns InvalidArgument naming the line.
absl::StatusOr<Event> DecodeEvent(absl::string_view line);

}  // namespace ckptdb::soak

#endif  // CKPTDB_BENCH_SOAK_EVENT_H_
