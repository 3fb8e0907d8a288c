// SPDX-License-Identifier: Apache-2.0
#include "train_ctr/follower.h"

#include <ckptdb/schema/status.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "train_ctr/trainer.h"

namespace train_ctr {

absl::Status Replica::Bytes::Load(absl::string_view loaded) {
  bytes = std::string(loaded);
  return absl::OkStatus();
}

// With several ranks a table is on all of them, and a tensor on one.
absl::StatusOr<std::unique_ptr<Replica>> Replica::Make(
    const ckptdb::StepReader& step) {
  auto replica = std::make_unique<Replica>();
  CKPTDB_RETURN_IF_ERROR(
      replica->model_.AddObject(std::string(kProgress), &replica->progress_));
  for (const ckptdb::StepRecord::Rank& rank : step.ranks()) {
    for (const ckptdb::Item& item : rank.items) {
      CKPTDB_RETURN_IF_ERROR(replica->Add(step, item));
    }
  }
  return replica;
}

absl::Status Replica::Add(const ckptdb::StepReader& step,
                          const ckptdb::Item& item) {
  const std::string& name = item.name;
  if (item.kind == ckptdb::Item::Kind::kRows) {
    if (tables_.contains(name)) return absl::OkStatus();
    CKPTDB_ASSIGN_OR_RETURN(const auto spec, step.FindTable(name));
    const size_t dim = spec.slots.front().elements;
    EmbeddingTable& table =
        tables_.emplace(name, EmbeddingTable({name, dim})).first->second;
    return model_.AddTable(name, table.state());
  }
  if (item.kind == ckptdb::Item::Kind::kTensor) {
    CKPTDB_ASSIGN_OR_RETURN(const auto spec, step.FindTensor(name));
    std::string& bytes = tensors_[name];
    bytes.resize(spec.raw_bytes);
    ckptdb::TensorState tensor;
    tensor.dtype = spec.dtype;
    tensor.shape = spec.shape;
    tensor.data = bytes.data();
    return model_.AddTensor(name, tensor);
  }
  if (name == ckptdb::ExtraBlob(kProgress)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("blob \"", name, "\" is not one of a trainer"));
}

StateView Replica::view() const {
  StateView view;
  for (const auto& [name, table] : tables_) view.tables.push_back(&table);
  view.tensors = tensors_;
  view.progress = progress_.bytes;
  return view;
}

void Follower::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  if (manager_ != nullptr) manager_->SetPreempted();
}

bool Follower::stopped() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

absl::StatusOr<bool> Follower::Open() {
  const auto reader = ckptdb::Reader::Open(store_);
  // Unavailable is a store that is being created.
  if (absl::IsNotFound(reader.status()) ||
      absl::IsUnavailable(reader.status())) {
    if (!waiting_) {
      std::fprintf(stderr, "waiting for a store at %s\n", store_.c_str());
    }
    waiting_ = true;
    return false;
  }
  CKPTDB_RETURN_IF_ERROR(reader.status());
  const auto latest = (*reader)->Latest();
  if (absl::IsNotFound(latest.status())) return false;
  CKPTDB_RETURN_IF_ERROR(latest.status());
  const auto step = (*reader)->OpenStep(latest->version.step);
  // The trainer has retired it since.
  if (absl::IsNotFound(step.status())) return false;
  CKPTDB_RETURN_IF_ERROR(step.status());
  CKPTDB_ASSIGN_OR_RETURN(replica_, Replica::Make(**step));
  ckptdb::ManagerOptions options;
  options.path = store_;
  options.read_only = true;
  options.follow.poll_every = absl::Milliseconds(options_.poll_ms);
  CKPTDB_ASSIGN_OR_RETURN(auto manager, ckptdb::CheckpointManager::Open(
                                            options, replica_->model()));
  const std::lock_guard<std::mutex> lock(mutex_);
  manager_ = std::move(manager);
  if (stopped_) manager_->SetPreempted();
  return true;
}

absl::Status Follower::Follow() {
  while (!stopped() &&
         (!held_ || !options_.until_step || *held_ < *options_.until_step)) {
    const auto reached = manager_->WaitForStep(absl::InfiniteDuration());
    // The trainer saves all the time: the next look may find it at rest.
    if (absl::IsUnavailable(reached.status())) continue;
    if (absl::IsCancelled(reached.status())) break;
    CKPTDB_RETURN_IF_ERROR(reached.status());
    const int64_t step = reached->version.step;
    const double ms = static_cast<double>(reached->total_micros) / 1000;
    std::fprintf(stderr, "step %lld reached from %s: %s, %.1f ms\n",
                 static_cast<long long>(step),
                 held_ ? absl::StrCat(*held_).c_str() : "nothing",
                 reached->incremental ? "by changes" : "whole", ms);
    nlohmann::ordered_json restore = {
        {"from", nullptr},
        {"to", step},
        {"kind", reached->incremental ? "changes" : "full"},
        {"ms", ms}};
    if (held_) restore["from"] = *held_;
    restores_.push_back(std::move(restore));
    held_ = step;
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::ordered_json> Follower::Run() {
  bool open = false;
  while (!open && !stopped()) {
    CKPTDB_ASSIGN_OR_RETURN(open, Open());
    if (!open) absl::SleepFor(absl::Milliseconds(options_.poll_ms));
  }
  if (open) CKPTDB_RETURN_IF_ERROR(Follow());
  nlohmann::ordered_json report = {{"step", nullptr}, {"restores", restores_}};
  if (!held_) return report;
  const StateView view = replica_->view();
  size_t rows = 0;
  for (const EmbeddingTable* table : view.tables) rows += table->rows();
  report["step"] = *held_;
  report["digest"] = StateDigest(view);
  report["rows"] = rows;
  std::fprintf(stderr, "digest %s\n",
               report["digest"].get<std::string>().c_str());
  return report;
}

}  // namespace train_ctr
