// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/trainer.h"

#include <algorithm>
#include <utility>

#include <ckptdb/schema/status.h>
#include <xxhash.h>
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "train_ctr/bytes.h"
#include "train_ctr/random.h"

namespace train_ctr {
namespace {

constexpr size_t kMaxBatch = 1 << 20;
constexpr size_t kMaxDim = 4096;
constexpr size_t kMaxHiddenWidth = 1 << 16;
constexpr int64_t kEraseChecks = 8;
// Row numbers on a device are int32_t.
constexpr size_t kMaxDeviceRows = (size_t{1} << 31) - 1;

absl::Status CheckRange(absl::string_view what, size_t value, size_t limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", value, " is not in 1 to ", limit));
}

absl::Status Check(const TrainerOptions& options) {
  CKPTDB_RETURN_IF_ERROR(CheckRange("batch", options.batch, kMaxBatch));
  CKPTDB_RETURN_IF_ERROR(CheckRange("dim", options.dim, kMaxDim));
  CKPTDB_RETURN_IF_ERROR(
      CheckRange("device-rows", options.device_rows, kMaxDeviceRows));
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

uint64_t Hash(const void* bytes, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

uint64_t RowDigest(const EmbeddingTable& table, int64_t id,
                   EmbeddingTable::Row row) {
  const size_t bytes = table.dim() * sizeof(float);
  uint64_t digest = Mix(static_cast<uint64_t>(id));
  digest = Hash(table.embedding(row), bytes, digest);
  digest = Hash(table.adagrad_sum(row), bytes, digest);
  digest = Mix(digest, static_cast<uint64_t>(table.freq(row)));
  return Mix(digest, static_cast<uint64_t>(table.last_step(row)));
}

// The sum of the digests of the rows of each table, and of their number.
std::vector<uint64_t> RowSums(const StateView& state) {
  std::vector<uint64_t> sums;
  for (const EmbeddingTable* table : state.tables) {
    uint64_t& sum = sums.emplace_back(table->rows());
    table->state()->ForEach([&](int64_t id, EmbeddingTable::Row row) {
      sum += RowDigest(*table, id, row);
    });
  }
  return sums;
}

std::string DigestOf(const StateView& state,
                     const std::vector<uint64_t>& row_sums) {
  uint64_t sum = 0;
  for (size_t t = 0; t < row_sums.size(); ++t) {
    const std::string& name = state.tables[t]->name();
    sum += Hash(name.data(), name.size(), row_sums[t]);
  }
  for (const auto& [name, bytes] : state.tensors) {
    sum += Hash(bytes.data(), bytes.size(), Hash(name.data(), name.size(), 0));
  }
  sum = Hash(state.progress.data(), state.progress.size(), sum);
  return absl::StrCat(absl::Hex(sum, absl::kZeroPad16));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(
    const TrainerOptions& options, std::unique_ptr<Reader> reader,
    examples::Ranks* own) {
  CKPTDB_RETURN_IF_ERROR(Check(options));
  std::unique_ptr<Trainer> trainer(
      new Trainer(options, std::move(reader), own));
  CKPTDB_ASSIGN_OR_RETURN(
      trainer->model_,
      Model::Make(options, &trainer->reader_->layout(), trainer->own_));
  return trainer;
}

Trainer::Trainer(const TrainerOptions& options, std::unique_ptr<Reader> reader,
                 examples::Ranks* own)
    : options_(options),
      reader_(std::move(reader)),
      alone_(own == nullptr ? examples::OneRank() : nullptr),
      own_(own == nullptr ? alone_.get() : own) {}

absl::StatusOr<double> Trainer::Step() {
  CKPTDB_RETURN_IF_ERROR(reader_->NextBatch(options_.batch, &batch_));
  ++step_;
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<float> logits,
                          model_->Forward(batch_, step_));
  double loss = 0;
  std::vector<float> gradient;
  for (size_t e = 0; e < batch_.size(); ++e) {
    const float label = batch_.labels[e];
    loss += LogLoss(logits[e], label);
    gradient.push_back((Sigmoid(logits[e]) - label) /
                       static_cast<float>(batch_.size()));
  }
  CKPTDB_RETURN_IF_ERROR(model_->Backward(gradient));
  const int64_t after = options_.erase_after_steps;
  if (after > 0 && step_ % std::max<int64_t>(1, after / kEraseChecks) == 0) {
    CKPTDB_RETURN_IF_ERROR(model_->rows()->EraseUnseenSince(step_ - after));
  }
  return loss / static_cast<double>(batch_.size());
}

EvaluationProgress Trainer::BeginEvaluation() const {
  return {ClickMetrics(), reader_->held_out_begin()};
}

absl::StatusOr<bool> Trainer::EvaluateBatch(EvaluationProgress* progress) {
  CKPTDB_RETURN_IF_ERROR(
      reader_->NextHeldOut(options_.batch, &progress->position, &batch_));
  if (batch_.size() == 0) return false;
  CKPTDB_ASSIGN_OR_RETURN(const std::vector<float> logits,
                          model_->Predict(batch_));
  for (size_t e = 0; e < batch_.size(); ++e) {
    progress->metrics.Add(logits[e], batch_.labels[e]);
  }
  return true;
}

absl::StatusOr<StateView> Trainer::View() {
  CKPTDB_ASSIGN_OR_RETURN(StateView view, model_->View());
  view.progress = progress();
  return view;
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

std::string StateDigest(const StateView& state) {
  return DigestOf(state, RowSums(state));
}

absl::StatusOr<std::string> SharedDigest(Trainer& trainer) {
  CKPTDB_ASSIGN_OR_RETURN(const StateView state, trainer.View());
  std::vector<uint64_t> sums(state.tables.size(), 0);
  CKPTDB_ASSIGN_OR_RETURN(
      const examples::PerRank<uint64_t> of_ranks,
      examples::AllGather(trainer.ranks(), "digests", RowSums(state)));
  for (const std::vector<uint64_t>& of_rank : of_ranks) {
    for (size_t t = 0; t < sums.size(); ++t) sums[t] += of_rank.at(t);
  }
  return DigestOf(state, sums);
}

}  // namespace train_ctr
