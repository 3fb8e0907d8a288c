// SPDX-License-Identifier: Apache-2.0
#include <ckptdb/schema/status.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "train_ctr/log.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr uint64_t kMaxIds = 100'000'000;
constexpr uint64_t kDevices = 8;
constexpr uint64_t kHours = 24;
constexpr double kBias = -0.7;
// The range of the planted weights of user, item, device and hour.
constexpr std::array<double, 4> kWeightRange = {2.5, 2.5, 1.0, 0.5};

absl::Status CheckLog(const GeneratedLogOptions& options) {
  for (const auto& [what, ids] :
       {std::pair{"users", options.users}, std::pair{"items", options.items}}) {
    if (ids >= 1 && ids <= kMaxIds) continue;
    return absl::InvalidArgumentError(absl::StrCat("a generated log of ", ids,
                                                   " ", what, ": 1 to ",
                                                   kMaxIds, " are possible"));
  }
  if (options.examples < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a generated log of ", options.examples,
                     " examples: at least 2 are needed"));
  }
  if (options.exponent >= 0 && options.exponent <= 10) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the Zipf exponent ", options.exponent, " is not in 0 to 10"));
}

class GeneratedLog final : public Log {
 public:
  GeneratedLog(const GeneratedLogOptions& options, uint64_t held_out)
      : options_(options),
        users_(options.users, options.exponent),
        items_(options.items, options.exponent) {
    layout_ = {{"user", "item", "context"}, {0, 1, 2, 2}};
    tail_.offset = options.examples - held_out;
    end_.offset = options.examples;
  }

  std::string identity() const override {
    return absl::StrCat("generated log of seed ", options_.seed, ", ",
                        options_.examples, " examples, ", options_.users,
                        " users, ", options_.items, " items, exponent ",
                        options_.exponent, ", holdout ", options_.holdout);
  }
  absl::Status Seek(LogPosition position) override {
    if (position.offset > options_.examples) {
      return absl::OutOfRangeError(absl::StrCat("example ", position.offset,
                                                " of a generated log of ",
                                                options_.examples));
    }
    next_ = position.offset;
    return absl::OkStatus();
  }
  LogPosition position() const override { return {next_, 0}; }
  absl::StatusOr<bool> Next(LogPosition stop, Example* example) override;

 private:
  const GeneratedLogOptions options_;
  const ZipfDistribution users_;
  const ZipfDistribution items_;
  uint64_t next_ = 0;
};

absl::StatusOr<bool> GeneratedLog::Next(LogPosition stop, Example* example) {
  if (next_ >= stop.offset || next_ >= options_.examples) return false;
  Random random(Mix(options_.seed, next_++));
  const std::array<uint64_t, 4> values = {
      users_.RankAt(random.NextUnit()), items_.RankAt(random.NextUnit()),
      random.NextBelow(kDevices), random.NextBelow(kHours)};
  double logit = kBias;
  example->ids.clear();
  for (size_t field = 0; field < values.size(); ++field) {
    const uint64_t planted = Mix(Mix(options_.seed, field), values[field]);
    logit += (2 * ToUnit(planted) - 1) * kWeightRange[field];
    example->ids.push_back(
        HashFeature(field, static_cast<int64_t>(values[field])));
  }
  example->label = random.NextUnit() < 1 / (1 + std::exp(-logit)) ? 1 : 0;
  return true;
}

}  // namespace

int64_t HashFeature(size_t field, absl::string_view value) {
  return static_cast<int64_t>(
      XXH3_64bits_withSeed(value.data(), value.size(), field));
}

int64_t HashFeature(size_t field, int64_t value) {
  return static_cast<int64_t>(Mix(field, static_cast<uint64_t>(value)));
}

absl::StatusOr<uint64_t> HeldOut(uint64_t examples, double holdout) {
  if (!(holdout > 0 && holdout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("holdout ", holdout, " is not between 0 and 1"));
  }
  const double held_out = static_cast<double>(examples) * holdout;
  return std::clamp<uint64_t>(static_cast<uint64_t>(held_out), 1,
                              std::max<uint64_t>(examples, 2) - 1);
}

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

absl::StatusOr<std::unique_ptr<Log>> NewGeneratedLog(
    const GeneratedLogOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckLog(options));
  CKPTDB_ASSIGN_OR_RETURN(const uint64_t held_out,
                          HeldOut(options.examples, options.holdout));
  return std::make_unique<GeneratedLog>(options, held_out);
}

}  // namespace train_ctr
