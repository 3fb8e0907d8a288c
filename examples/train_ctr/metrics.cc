// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "train_ctr/bytes.h"

namespace train_ctr {

float Sigmoid(float logit) { return 1 / (1 + std::exp(-logit)); }

double LogLoss(float logit, float label) {
  const double x = logit;
  return std::max(x, 0.0) - x * label + std::log1p(std::exp(-std::abs(x)));
}

void ClickMetrics::Add(float logit, float label) {
  predictions_.emplace_back(logit, label > 0.5f);
  loss_sum_ += LogLoss(logit, label);
}

absl::StatusOr<std::string> ClickMetrics::Dump() {
  ByteWriter bytes;
  bytes.Put(loss_sum_);
  bytes.Put(static_cast<uint64_t>(predictions_.size()));
  for (const auto& [logit, click] : predictions_) {
    bytes.Put(logit);
    bytes.Put(static_cast<uint8_t>(click ? 1 : 0));
  }
  return bytes.Take();
}

absl::Status ClickMetrics::Load(absl::string_view bytes) {
  ByteReader reader(bytes);
  loss_sum_ = reader.Get<double>();
  const auto count = reader.Get<uint64_t>();
  predictions_.clear();
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    const auto logit = reader.Get<float>();
    predictions_.emplace_back(logit, reader.Get<uint8_t>() != 0);
  }
  if (reader.complete()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("metrics of ", bytes.size(), " bytes are cut off"));
}

double ClickMetrics::log_loss() const {
  if (predictions_.empty()) return 0;
  return loss_sum_ / static_cast<double>(predictions_.size());
}

double ClickMetrics::auc() const {
  std::vector<std::pair<float, bool>> sorted = predictions_;
  // NaN has no order.
  for (const auto& [logit, click] : sorted) {
    if (std::isnan(logit)) return std::numeric_limits<double>::quiet_NaN();
  }
  std::sort(sorted.begin(), sorted.end());
  double clicks = 0;
  double others = 0;
  double pairs_won = 0;
  for (size_t i = 0; i < sorted.size();) {
    double equal_clicks = 0;
    double equal_others = 0;
    const float logit = sorted[i].first;
    for (; i < sorted.size() && sorted[i].first == logit; ++i) {
      ++(sorted[i].second ? equal_clicks : equal_others);
    }
    pairs_won += equal_clicks * (others + equal_others / 2);
    clicks += equal_clicks;
    others += equal_others;
  }
  if (clicks == 0 || others == 0) return 0.5;
  return pairs_won / (clicks * others);
}

}  // namespace train_ctr
