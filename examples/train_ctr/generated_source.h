// SPDX-License-Identifier: Apache-2.0
// A click log made up as it is read: Zipf-distributed ids and planted weights,
// so that there is something to learn and the AUC means something.
//
// The logit of an example is a bias plus the planted weights of its user,
// item, device and hour; the label is drawn from it. Example i depends on the
// seed and on i only, so a position is a number.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_GENERATED_SOURCE_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_GENERATED_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "train_ctr/source.h"

namespace train_ctr {

struct GeneratedLogOptions {
  uint64_t seed = 1;
  // Examples of one epoch, the held-out tail included. Default: 200,000.
  uint64_t examples = 200'000;
  // Distinct ids; 8 bytes of memory for each. Default: 20,000 and 50,000.
  uint64_t users = 20'000;
  uint64_t items = 50'000;
  // An id of popularity rank r is drawn with weight 1 / r^exponent.
  // Default: 1.05.
  double exponent = 1.05;
  // The part of the log held out, between 0 and 1. Default: 0.1.
  double holdout = 0.1;
};

inline constexpr uint64_t kMaxGeneratedIds = 100'000'000;

// Ranks 0..n-1, rank r with weight 1 / (r + 1)^exponent.
class ZipfDistribution {
 public:
  ZipfDistribution(uint64_t n, double exponent);
  // The rank at `unit` in [0, 1) of the cumulative distribution.
  uint64_t RankAt(double unit) const;

 private:
  std::vector<double> cumulative_;
};

class GeneratedSource : public Source {
 public:
  // Returns InvalidArgument for an option out of its range.
  static absl::StatusOr<std::unique_ptr<GeneratedSource>> Create(
      const GeneratedLogOptions& options);

  const FieldLayout& layout() const override { return layout_; }
  std::string identity() const override;
  LogPosition begin() const override { return {0, 0}; }
  LogPosition tail() const override { return {tail_, 0}; }
  LogPosition end() const override { return {options_.examples, 0}; }
  absl::Status Seek(LogPosition position) override;
  LogPosition position() const override { return {next_, 0}; }
  absl::StatusOr<bool> Next(LogPosition stop, Example* example) override;

 private:
  explicit GeneratedSource(const GeneratedLogOptions& options);
  double PlantedWeight(uint64_t field, uint64_t value) const;

  GeneratedLogOptions options_;
  FieldLayout layout_;
  ZipfDistribution users_;
  ZipfDistribution items_;
  uint64_t tail_;
  uint64_t next_ = 0;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_GENERATED_SOURCE_H_
