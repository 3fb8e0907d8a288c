// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/reader.h"

#include <utility>

#include <ckptdb/schema/status.h>
#include "absl/strings/str_cat.h"
#include "train_ctr/bytes.h"

namespace train_ctr {

absl::StatusOr<std::unique_ptr<Reader>> Reader::Create(std::unique_ptr<Log> log,
                                                       size_t shuffle_examples,
                                                       uint64_t seed) {
  if (shuffle_examples < 1 || shuffle_examples > kMaxShuffleExamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shuffle buffer of ", shuffle_examples,
                     " examples: 1 to ", kMaxShuffleExamples, " are possible"));
  }
  CKPTDB_RETURN_IF_ERROR(log->Seek(log->begin()));
  return std::unique_ptr<Reader>(
      new Reader(std::move(log), shuffle_examples, seed));
}

absl::Status Reader::NextOfLog(Example* example) {
  CKPTDB_ASSIGN_OR_RETURN(bool found, log_->Next(log_->tail(), example));
  if (found) return absl::OkStatus();
  ++epoch_;
  CKPTDB_RETURN_IF_ERROR(log_->Seek(log_->begin()));
  CKPTDB_ASSIGN_OR_RETURN(found, log_->Next(log_->tail(), example));
  if (found) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no training examples in ", log_->identity()));
}

absl::Status Reader::NextExample(Batch* batch) {
  while (buffer_.size() < shuffle_examples_) {
    Example example;
    CKPTDB_RETURN_IF_ERROR(NextOfLog(&example));
    buffer_.push_back(std::move(example));
  }
  Example& chosen = buffer_[random_.NextBelow(buffer_.size())];
  batch->Add(chosen);
  return NextOfLog(&chosen);
}

absl::Status Reader::NextBatch(size_t examples, Batch* batch) {
  batch->Clear();
  while (batch->size() < examples) CKPTDB_RETURN_IF_ERROR(NextExample(batch));
  return absl::OkStatus();
}

absl::Status Reader::NextHeldOut(size_t examples, LogPosition* position,
                                 Batch* batch) {
  const LogPosition training = log_->position();
  CKPTDB_RETURN_IF_ERROR(log_->Seek(*position));
  batch->Clear();
  Example example;
  while (batch->size() < examples) {
    CKPTDB_ASSIGN_OR_RETURN(const bool found,
                            log_->Next(log_->end(), &example));
    if (!found) break;
    batch->Add(example);
  }
  *position = log_->position();
  return log_->Seek(training);
}

std::string Reader::identity() const {
  return absl::StrCat(log_->identity(), ", shuffled through ",
                      shuffle_examples_);
}

std::string Reader::SavePosition() const {
  ByteWriter out;
  out.PutString(identity());
  out.Put(log_->position().offset);
  out.Put(log_->position().line);
  out.Put(epoch_);
  out.Put(random_.state());
  out.Put(static_cast<uint64_t>(buffer_.size()));
  for (const Example& example : buffer_) {
    out.Put(example.label);
    for (const int64_t id : example.ids) out.Put(id);
  }
  return out.Take();
}

absl::Status Reader::RestorePosition(absl::string_view position) {
  ByteReader in(position);
  const std::string saved_identity = in.GetString();
  if (in.ok() && saved_identity != identity()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the saved position is of a ", saved_identity,
                     "; the log is a ", identity()));
  }
  LogPosition log;
  log.offset = in.Get<uint64_t>();
  log.line = in.Get<uint64_t>();
  const auto epoch = in.Get<uint64_t>();
  const auto random_state = in.Get<uint64_t>();
  const auto buffered = in.Get<uint64_t>();
  std::vector<Example> buffer;
  while (in.ok() && buffer.size() < buffered) {
    Example& example = buffer.emplace_back();
    example.label = in.Get<float>();
    for (size_t f = 0; f < layout().fields(); ++f) {
      example.ids.push_back(in.Get<int64_t>());
    }
  }
  if (!in.complete() || buffer.size() > shuffle_examples_) {
    return absl::DataLossError(absl::StrCat(
        "the saved reader position of ", position.size(), " bytes is damaged"));
  }
  CKPTDB_RETURN_IF_ERROR(log_->Seek(log));
  epoch_ = epoch;
  random_.set_state(random_state);
  buffer_ = std::move(buffer);
  return absl::OkStatus();
}

}  // namespace train_ctr
