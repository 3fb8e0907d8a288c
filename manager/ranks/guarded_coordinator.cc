// SPDX-License-Identifier: Apache-2.0
#include "manager/ranks/guarded_coordinator.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/base/call_guard.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// An all-gather of the caller's coordinator.
class GuardedAllGather : public Coordinator::AllGather {
 public:
  GuardedAllGather(absl::StatusOr<std::unique_ptr<AllGather>> started,
                   uint32_t world_size)
      : started_(std::move(started)), world_size_(world_size) {
    if (started_.ok() && *started_ == nullptr) {
      started_ = absl::InternalError(
          "Coordinator::StartAllGather returned null, expected an AllGather");
    }
  }

  // Finish returns an error of Poll.
  void Poll() override {
    if (!started_.ok()) return;
    const absl::Status polled = CallGuarded("Coordinator::AllGather::Poll",
                                            [&] { (*started_)->Poll(); });
    if (!polled.ok()) started_ = polled;
  }
  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) override {
    CKPTDB_RETURN_IF_ERROR(started_.status());
    auto values = CallGuarded("Coordinator::AllGather::Finish",
                              [&] { return (*started_)->Finish(deadline); });
    if (!values.ok() || values->size() == world_size_) return values;
    return absl::InternalError(absl::StrCat(
        "Coordinator::AllGather::Finish returned ", values->size(),
        " values, expected one from each of the ", world_size_, " ranks"));
  }

 private:
  absl::StatusOr<std::unique_ptr<AllGather>> started_;
  const uint32_t world_size_;
};

// Returns exceptions of the caller's coordinator as errors, and checks numbers
// of values. Rank and world size are read once, so that they cannot change.
class GuardedCoordinator : public Coordinator {
 public:
  GuardedCoordinator(std::unique_ptr<Coordinator> ranks, uint32_t rank,
                     uint32_t world_size)
      : ranks_(std::move(ranks)), rank_(rank), world_size_(world_size) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }
  absl::Status Barrier(absl::string_view tag,
                       absl::Duration deadline) override {
    return CallGuarded("Coordinator::Barrier",
                       [&] { return ranks_->Barrier(tag, deadline); });
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    return CallGuarded("Coordinator::Broadcast", [&] {
      return ranks_->Broadcast(tag, std::move(value), deadline);
    });
  }
  absl::StatusOr<std::string> Tell(absl::string_view tag, std::string value,
                                   absl::Duration deadline) override {
    return CallGuarded("Coordinator::Tell", [&] {
      return ranks_->Tell(tag, std::move(value), deadline);
    });
  }
  absl::StatusOr<std::string> TellEach(absl::string_view tag,
                                       std::vector<std::string> values,
                                       absl::Duration deadline) override {
    return CallGuarded("Coordinator::TellEach", [&] {
      return ranks_->TellEach(tag, std::move(values), deadline);
    });
  }
  // With another number of values, one rank's value could be taken for
  // another's.
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value,
      absl::Duration deadline) override {
    auto values = CallGuarded("Coordinator::Gather", [&] {
      return ranks_->Gather(tag, std::move(value), deadline);
    });
    if (!values.ok() || rank_ != kOwnerRank || values->size() == world_size_) {
      return values;
    }
    return absl::InternalError(
        absl::StrCat("Coordinator::Gather returned ", values->size(),
                     " values, expected one from each of the ", world_size_,
                     " ranks, at \"", tag, "\""));
  }
  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline) override {
    auto received = CallGuarded("Coordinator::AllToAll", [&] {
      return ranks_->AllToAll(tag, std::move(values), deadline);
    });
    if (!received.ok() || received->size() == world_size_) return received;
    return absl::InternalError(
        absl::StrCat("Coordinator::AllToAll returned ", received->size(),
                     " values, expected one from each of the ", world_size_,
                     " ranks, at \"", tag, "\""));
  }
  bool HasDirectAllToAll() const override {
    const absl::StatusOr<bool> direct = CallGuarded(
        "Coordinator::HasDirectAllToAll",
        [&]() -> absl::StatusOr<bool> { return ranks_->HasDirectAllToAll(); });
    return direct.value_or(false);
  }
  std::unique_ptr<AllGather> StartAllGather(absl::string_view tag,
                                            std::string value) override {
    return std::make_unique<GuardedAllGather>(
        CallGuarded("Coordinator::StartAllGather",
                    [&] { return ranks_->StartAllGather(tag, value); }),
        world_size_);
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    CKPTDB_ASSIGN_OR_RETURN(std::unique_ptr<Coordinator> other,
                            CallGuarded("Coordinator::Duplicate",
                                        [&] { return ranks_->Duplicate(); }));
    return GuardCoordinator(std::move(other));
  }
  void Leave() override {
    CallGuarded("Coordinator::Leave", [&] { ranks_->Leave(); }).IgnoreError();
  }

 private:
  const std::unique_ptr<Coordinator> ranks_;
  const uint32_t rank_;
  const uint32_t world_size_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> GuardCoordinator(
    std::unique_ptr<Coordinator> ranks) {
  if (ranks == nullptr) {
    return absl::InvalidArgumentError(
        "CheckpointManager::Open: the coordinator is null; pass "
        "SingleProcess() "
        "for a single process");
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const uint32_t rank,
      CallGuarded("Coordinator::rank", [&] { return ranks->rank(); }));
  CKPTDB_ASSIGN_OR_RETURN(const uint32_t world_size,
                          CallGuarded("Coordinator::world_size",
                                      [&] { return ranks->world_size(); }));
  if (rank >= world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator has rank ", rank,
                     ", expected one below its world size, ", world_size));
  }
  return std::make_unique<GuardedCoordinator>(std::move(ranks), rank,
                                              world_size);
}

}  // namespace ckptdb::internal
