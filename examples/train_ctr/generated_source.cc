// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/generated_source.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <ckptdb/schema/status.h>
#include "absl/strings/str_cat.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr uint64_t kDevices = 8;
constexpr uint64_t kHours = 24;
constexpr double kBias = -0.7;
// The range of the planted weights of user, item, device and hour.
constexpr std::array<double, 4> kWeightRange = {2.5, 2.5, 1.0, 0.5};

absl::Status CheckIds(absl::string_view what, uint64_t ids) {
  if (ids >= 1 && ids <= kMaxGeneratedIds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a generated log of ", ids, " ", what, ": 1 to ",
                   kMaxGeneratedIds, " are possible"));
}

absl::Status Check(const GeneratedLogOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckIds("users", options.users));
  CKPTDB_RETURN_IF_ERROR(CheckIds("items", options.items));
  if (options.examples < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a generated log of ", options.examples,
                     " examples: at least 2 are needed"));
  }
  if (!(options.exponent >= 0 && options.exponent <= 10)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the Zipf exponent ", options.exponent, " is not in 0 to 10"));
  }
  if (!(options.holdout > 0 && options.holdout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("holdout ", options.holdout, " is not between 0 and 1"));
  }
  return absl::OkStatus();
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

ZipfDistribution::ZipfDistribution(uint64_t n, double exponent)
    : cumulative_(n) {
  double sum = 0;
  for (uint64_t rank = 0; rank < n; ++rank) {
    sum += std::pow(static_cast<double>(rank + 1), -exponent);
    cumulative_[rank] = sum;
  }
}

uint64_t ZipfDistribution::RankAt(double unit) const {
  const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(),
                                   unit * cumulative_.back());
  return std::min<uint64_t>(at - cumulative_.begin(), cumulative_.size() - 1);
}

absl::StatusOr<std::unique_ptr<GeneratedSource>> GeneratedSource::Create(
    const GeneratedLogOptions& options) {
  CKPTDB_RETURN_IF_ERROR(Check(options));
  return std::unique_ptr<GeneratedSource>(new GeneratedSource(options));
}

GeneratedSource::GeneratedSource(const GeneratedLogOptions& options)
    : options_(options),
      layout_{{"user", "item", "context"}, {0, 1, 2, 2}},
      users_(options.users, options.exponent),
      items_(options.items, options.exponent) {
  const auto held_out = static_cast<uint64_t>(
      static_cast<double>(options.examples) * options.holdout);
  tail_ = options.examples -
          std::clamp<uint64_t>(held_out, 1, options.examples - 1);
}

std::string GeneratedSource::identity() const {
  return absl::StrCat("generated log of seed ", options_.seed, ", ",
                      options_.examples, " examples, ", options_.users,
                      " users, ", options_.items, " items, exponent ",
                      options_.exponent, ", holdout ", options_.holdout);
}

absl::Status GeneratedSource::Seek(LogPosition position) {
  if (position.offset > options_.examples) {
    return absl::OutOfRangeError(absl::StrCat("example ", position.offset,
                                              " of a generated log of ",
                                              options_.examples));
  }
  next_ = position.offset;
  return absl::OkStatus();
}

double GeneratedSource::PlantedWeight(uint64_t field, uint64_t value) const {
  const uint64_t bits = Mix(Mix(options_.seed, field), value);
  return (2 * ToUnit(bits) - 1) * kWeightRange[field];
}

absl::StatusOr<bool> GeneratedSource::Next(LogPosition stop, Example* example) {
  if (next_ >= stop.offset || next_ >= options_.examples) return false;
  Random random(Mix(options_.seed, next_++));
  const std::array<uint64_t, 4> values = {
      users_.RankAt(random.NextUnit()), items_.RankAt(random.NextUnit()),
      random.NextBelow(kDevices), random.NextBelow(kHours)};
  double logit = kBias;
  example->ids.clear();
  for (size_t field = 0; field < values.size(); ++field) {
    logit += PlantedWeight(field, values[field]);
    example->ids.push_back(
        HashFeature(field, static_cast<int64_t>(values[field])));
  }
  example->label = random.NextUnit() < Sigmoid(logit) ? 1 : 0;
  return true;
}

}  // namespace train_ctr
