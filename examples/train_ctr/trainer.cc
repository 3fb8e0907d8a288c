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

std::vector<EmbeddingTable> MakeTables(const TrainerOptions& options,
                                       const FieldLayout& layout) {
  std::vector<EmbeddingTable> tables;
  for (const std::string& name : layout.tables) {
    tables.emplace_back(EmbeddingTableOptions{
        .name = name, .dim = options.dim, .seed = options.seed});
  }
  return tables;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const TrainerOptions& options, std::unique_ptr<Reader> reader,
    examples::Ranks* own) {
  CKPTDB_RETURN_IF_ERROR(Check(options));
  return std::unique_ptr<Trainer>(new Trainer(options, std::move(reader), own));
}

Trainer::Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader,
                 examples::Ranks* own)
    : options_(options),
      reader_(std::move(reader)),
      alone_(own == nullptr ? examples::OneRank() : nullptr),
      own_(own == nullptr ? alone_.get() : own),
      tables_(MakeTables(options, reader_->layout())),
      row_exchange_(own_, options.sharding, &reader_->layout(), &tables_),
      mlp_(reader_->layout().fields() * options.dim, options.hidden,
           options.seed) {}

absl::StatusOr<double> Trainer::Step() {
  CKPTDB_RETURN_IF_ERROR(reader_->NextBatch(options_.batch, &batch_));
  ++step_;
  TakeShare();
  CKPTDB_RETURN_IF_ERROR(row_exchange_.Touch(share_.ids, step_, &inputs_));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<float> logits, GatherLogits());
  const double loss = LossGradient(logits);
  mlp_.BackwardExamples(logit_gradient_, &input_gradient_);
  CKPTDB_RETURN_IF_ERROR(row_exchange_.ApplyGradients(
      input_gradient_, options_.sparse_learning_rate));
  CKPTDB_RETURN_IF_ERROR(SumGradients());
  mlp_.ApplyAdam({.learning_rate = options_.dense_learning_rate});
  EraseUnseen();
  return loss;
}

void Trainer::TakeShare() {
  const size_t examples = batch_.size();
  share_begin_ = examples * own_->rank() / own_->size();
  batch_.CopyTo(share_begin_, examples * (own_->rank() + 1) / own_->size(),
                &share_);
}

absl::StatusOr<std::vector<float>> Trainer::GatherLogits() {
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<float> shares,
      examples::AllGather(own_, "logits",
                          mlp_.Forward(inputs_.data(), share_.size())));
  std::vector<float> logits;
  for (const std::vector<float>& share : shares) {
    logits.insert(logits.end(), share.begin(), share.end());
  }
  return logits;
}

double Trainer::LossGradient(const std::vector<float>& logits) {
  const auto examples = static_cast<float>(batch_.size());
  double loss = 0;
  for (size_t e = 0; e < batch_.size(); ++e) {
    loss += LogLoss(logits[e], batch_.labels[e]);
  }
  logit_gradient_.resize(share_.size());
  for (size_t e = 0; e < share_.size(); ++e) {
    const float logit = logits[share_begin_ + e];
    logit_gradient_[e] = (Sigmoid(logit) - share_.labels[e]) / examples;
  }
  return loss / static_cast<double>(batch_.size());
}

absl::Status Trainer::SumGradients() {
  const size_t size = own_->size();
  examples::PerRank<float> factors(size);
  for (size_t r = 0; r < size; ++r) {
    factors[r] = mlp_.Factors(inputs_.data(), {r, size});
  }
  CKPTDB_ASSIGN_OR_RETURN(factors,
                          examples::Exchange(own_, "factors", factors));
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<float> parts,
      examples::AllGather(own_, "gradients",
                          mlp_.SumPart({own_->rank(), size}, factors)));
  mlp_.SetGradients(parts);
  return absl::OkStatus();
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
  TakeShare();
  CKPTDB_RETURN_IF_ERROR(row_exchange_.LookUp(share_.ids, &inputs_));
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<float> logits, GatherLogits());
  for (size_t e = 0; e < batch_.size(); ++e) {
    progress->metrics.Add(logits[e], batch_.labels[e]);
  }
  return true;
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
