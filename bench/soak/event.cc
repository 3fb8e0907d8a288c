// SPDX-License-Identifier: Apache-2.0
#include "bench/soak/event.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace ckptdb::soak {
namespace {

constexpr std::array<absl::string_view, 5> kNames = {"opened", "began", "saved",
                                                     "folded", "failed"};

bool ParseSteps(absl::string_view text, std::vector<int64_t>* steps) {
  for (const absl::string_view one :
       absl::StrSplit(text, ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(one, &steps->emplace_back())) return false;
  }
  return true;
}

}  // namespace

int64_t SteadyMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string EncodeEvent(const Event& event) {
  return absl::StrCat(kNames[static_cast<size_t>(event.kind)], "\t", event.step,
                      "\t", event.began_micros, "\t",
                      absl::StrJoin(event.steps, ","), "\t",
                      absl::StrReplaceAll(event.text, {{"\n", " "}}), "\n");
}

absl::StatusOr<Event> DecodeEvent(absl::string_view line) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line, absl::MaxSplits('\t', 4));
  Event event;
  const auto name = std::find(kNames.begin(), kNames.end(), fields[0]);
  const bool ok = name != kNames.end() && fields.size() == 5 &&
                  absl::SimpleAtoi(fields[1], &event.step) &&
                  absl::SimpleAtoi(fields[2], &event.began_micros) &&
                  ParseSteps(fields[3], &event.steps);
  if (!ok) {
    return absl::InvalidArgumentError(
        absl::StrCat("the writer reported \"", line, "\""));
  }
  event.kind = static_cast<Event::Kind>(name - kNames.begin());
  event.text = std::string(fields[4]);
  return event;
}

}  // namespace ckptdb::soak
