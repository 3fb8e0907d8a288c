// SPDX-License-Identifier: Apache-2.0
// Metrics of predictions of clicks.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_METRICS_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_METRICS_H_

#include <ckptdb/manager/model_state.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace train_ctr {

float Sigmoid(float logit);

// The log loss of one example, in nats, exact for logits of any size.
double LogLoss(float logit, float label);

struct Evaluation {
  double loss = 0;
  double auc = 0.5;
  size_t examples = 0;
  uint64_t resumed_after = 0;  // examples of a run before
};

// The mean log loss, and the area under the ROC curve.
class ClickMetrics : public ckptdb::BlobState {
 public:
  void Add(float logit, float label);

  size_t examples() const { return predictions_.size(); }
  // Returns 0 if there are no examples.
  double log_loss() const;
  // The probability that a click has a higher logit than a non-click, equal
  // logits counting half; 0.5 when either is missing.
  double auc() const;
  Evaluation Result() const { return {log_loss(), auc(), examples()}; }

  // Dump returns all of it as bytes. Load takes them back, and returns DataLoss
  // for invalid bytes.
  absl::StatusOr<std::string> Dump() override;
  absl::Status Load(absl::string_view bytes) override;

 private:
  std::vector<std::pair<float, bool>> predictions_;
  double loss_sum_ = 0;
};

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_METRICS_H_
