#include "train_ctr/trainer.h"

#include <algorithm>
#include <utility>

#include <ckptdb/schema/status.h>
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "train_ctr/bytes.h"

namespace train_ctr {
namespace {

constexpr size_t kMaxBatch = 1 << 20;
constexpr size_t kMaxDim = 4096;
constexpr size_t kMaxHiddenWidth = 1 << 16;
constexpr int64_t kEraseChecks = 8;

absl::Status CheckRange(absl::string_view what, size_t value, size_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", value, " is not in 1 to ", limit));
}

absl::Status Check(const TrainerOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckRange("batch", options.batch, kMaxBatch));
  CKPTDB_RETURN_IF_ERROR(CheckRange("dim", options.dim, kMaxDim));
  for (const size_t width : options.hidden) {
    CKPTDB_RETURN_IF_ERROR(
        CheckRange("hidden layer width", width, kMaxHiddenWidth));
  }
  if (!(options.sparse_learning_rate > 0 && options.dense_learning_rate > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("learning rates ", options.sparse_learning_rate, " and ",
                     options.dense_learning_rate, " are not above 0"));
  }
  if (options.erase_after_steps < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "erase-after ", options.erase_after_steps, " is negative"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const TrainerOptions& options, std::unique_ptr<Reader> reader) {
  CKPTDB_RETURN_IF_ERROR(Check(options));
  return std::unique_ptr<Trainer>(new Trainer(options, std::move(reader)));
}

Trainer::Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader)
    : options_(options),
      reader_(std::move(reader)),
      mlp_(reader_->layout().fields() * options.dim, options.hidden,
           options.seed) {
  for (const std::string& name : reader_->layout().tables) {
    tables_.emplace_back(EmbeddingTableOptions{
        .name = name, .dim = options.dim, .seed = options.seed});
  }
  row_gradients_.resize(tables_.size());
}

absl::StatusOr<double> Trainer::Step() {
  CKPTDB_RETURN_IF_ERROR(reader_->NextBatch(options_.batch, &batch_));
  ++step_;
  TouchRows();
  const std::vector<float>& logits =
      mlp_.Forward(inputs_.data(), batch_.size());
  const double loss = LossGradient(logits);
  mlp_.Backward(inputs_.data(), logit_gradient_, &input_gradient_);
  SumRowGradients();
  ApplyRowGradients();
  mlp_.ApplyAdam({.learning_rate = options_.dense_learning_rate});
  EraseUnseen();
  return loss;
}

void Trainer::TouchRows() {
  const size_t dim = options_.dim;
  rows_.resize(batch_.ids.size());
  inputs_.resize(batch_.ids.size() * dim);
  for (size_t i = 0; i < batch_.ids.size(); ++i) {
    EmbeddingTable& table = tables_[table_of(i)];
    rows_[i] = table.Touch(batch_.ids[i], step_);
    std::copy_n(table.embedding(rows_[i]), dim, &inputs_[i * dim]);
  }
}

double Trainer::LossGradient(const std::vector<float>& logits) {
  const auto examples = static_cast<float>(batch_.size());
  double loss = 0;
  logit_gradient_.resize(batch_.size());
  for (size_t e = 0; e < batch_.size(); ++e) {
    loss += LogLoss(logits[e], batch_.labels[e]);
    logit_gradient_[e] = (Sigmoid(logits[e]) - batch_.labels[e]) / examples;
  }
  return loss / static_cast<double>(batch_.size());
}

void Trainer::SumRowGradients() {
  const size_t dim = options_.dim;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const size_t table = table_of(i);
    RowGradients& gradients = row_gradients_[table];
    gradients.place_of_row.resize(
        std::max<size_t>(gradients.place_of_row.size(), rows_[i] + 1),
        kNoPlace);
    uint32_t& place = gradients.place_of_row[rows_[i]];
    if (place == kNoPlace) {
      place = static_cast<uint32_t>(gradients.rows.size());
      gradients.rows.push_back(rows_[i]);
      gradients.sums.resize(gradients.rows.size() * dim, 0.0f);
    }
    float* sum = &gradients.sums[place * dim];
    const float* add = &input_gradient_[i * dim];
    for (size_t d = 0; d < dim; ++d) sum[d] += add[d];
  }
}

void Trainer::ApplyRowGradients() {
  for (size_t t = 0; t < tables_.size(); ++t) {
    RowGradients& gradients = row_gradients_[t];
    for (size_t place = 0; place < gradients.rows.size(); ++place) {
      const EmbeddingTable::Row row = gradients.rows[place];
      tables_[t].ApplyAdagrad(row, &gradients.sums[place * options_.dim],
                              options_.sparse_learning_rate);
      gradients.place_of_row[row] = kNoPlace;
    }
    gradients.rows.clear();
    gradients.sums.clear();
  }
}

void Trainer::EraseUnseen() {
  const int64_t after = options_.erase_after_steps;
  if (after == 0) return;
  if (step_ % std::max<int64_t>(1, after / kEraseChecks) != 0) return;
  for (EmbeddingTable& table : tables_) table.EraseUnseenSince(step_ - after);
}

absl::StatusOr<Evaluation> Trainer::Evaluate() {
  EvaluationProgress progress = BeginEvaluation();
  bool more = true;
  while (more) {
    CKPTDB_ASSIGN_OR_RETURN(more, EvaluateBatch(&progress));
  }
  return progress.metrics.Result();
}

EvaluationProgress Trainer::BeginEvaluation() const {
  return {ClickMetrics(), reader_->held_out_begin()};
}

absl::StatusOr<bool> Trainer::EvaluateBatch(EvaluationProgress* progress) {
  CKPTDB_RETURN_IF_ERROR(
      reader_->NextHeldOut(options_.batch, &progress->position, &batch_));
  if (batch_.size() == 0) return false;
  LookUpHeldOut();
  const std::vector<float>& logits =
      mlp_.Forward(inputs_.data(), batch_.size());
  for (size_t e = 0; e < batch_.size(); ++e) {
    progress->metrics.Add(logits[e], batch_.labels[e]);
  }
  return true;
}

void Trainer::LookUpHeldOut() {
  const size_t dim = options_.dim;
  inputs_.assign(batch_.ids.size() * dim, 0.0f);
  for (size_t i = 0; i < batch_.ids.size(); ++i) {
    const EmbeddingTable& table = tables_[table_of(i)];
    const auto row = table.Find(batch_.ids[i]);
    if (row) std::copy_n(table.embedding(*row), dim, &inputs_[i * dim]);
  }
}

size_t Trainer::rows() const {
  size_t rows = 0;
  for (const EmbeddingTable& table : tables_) rows += table.rows();
  return rows;
}

std::string Trainer::identity() const {
  return absl::StrCat("seed ", options_.seed, ", batch ", options_.batch,
                      ", dim ", options_.dim, ", hidden ",
                      absl::StrJoin(options_.hidden, "/"), ", learning rates ",
                      options_.sparse_learning_rate, " and ",
                      options_.dense_learning_rate, ", erase after ",
                      options_.erase_after_steps);
}

std::string Trainer::progress() const {
  ByteWriter out;
  out.PutString(identity());
  out.Put(step_);
  out.PutString(reader_->SavePosition());
  return out.Take();
}

absl::Status Trainer::RestoreProgress(absl::string_view progress) {
  ByteReader in(progress);
  const std::string saved_identity = in.GetString();
  if (in.ok() && saved_identity != identity()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the checkpoint was trained with ", saved_identity,
                     "; this run has ", identity()));
  }
  const auto step = in.Get<int64_t>();
  const std::string position = in.GetString();
  if (!in.complete() || step < 0) {
    return absl::DataLossError(absl::StrCat(
        "the saved progress of ", progress.size(), " bytes is damaged"));
  }
  CKPTDB_RETURN_IF_ERROR(reader_->RestorePosition(position));
  step_ = step;
  return absl::OkStatus();
}

}  // namespace train_ctr
