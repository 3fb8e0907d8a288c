// SPDX-License-Identifier: Apache-2.0
// A coordinator over messages: one channel of a hub.
#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/coordinator.h"
#include "manager/ranks/all_gathers.h"
#include "manager/ranks/message_hub.h"
#include "manager/ranks/packed_values.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::CallKind;
using internal::CallResult;
using internal::MessageHub;

// An all-gather over the messages of a channel.
class MessageAllGather : public Coordinator::AllGather {
 public:
  MessageAllGather(std::shared_ptr<MessageHub> hub, std::string channel)
      : hub_(std::move(hub)), channel_(std::move(channel)) {}

  void Poll() override { hub_->Poll(); }

  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) override {
    const CallResult result = hub_->Await(channel_, deadline);
    CKPTDB_RETURN_IF_ERROR(result.status);
    std::vector<std::string> values(hub_->world_size());
    for (size_t rank = 0; rank < values.size(); ++rank) {
      CKPTDB_ASSIGN_OR_RETURN(values[rank],
                              internal::UnpackValue(result.value, rank));
    }
    return values;
  }

 private:
  const std::shared_ptr<MessageHub> hub_;
  const std::string channel_;
};

// One channel of the hub; all duplicates of a coordinator share the hub.
class OverMessages : public Coordinator {
 public:
  OverMessages(std::shared_ptr<MessageHub> hub, std::string channel,
               std::shared_ptr<internal::AllGathers> all_gathers)
      : hub_(std::move(hub)),
        channel_(std::move(channel)),
        all_gathers_(std::move(all_gathers)) {}

  uint32_t rank() const override { return hub_->rank(); }
  uint32_t world_size() const override { return hub_->world_size(); }

  absl::Status Barrier(absl::string_view tag,
                       absl::Duration deadline) override {
    return Call(CallKind::kBarrier, tag, "", deadline).status;
  }

  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration deadline) override {
    return OwnersValue(CallKind::kBroadcast, tag, std::move(value), deadline);
  }

  absl::StatusOr<std::string> Tell(absl::string_view tag, std::string value,
                                   absl::Duration deadline) override {
    return OwnersValue(CallKind::kTell, tag, std::move(value), deadline);
  }

  absl::StatusOr<std::string> TellEach(absl::string_view tag,
                                       std::vector<std::string> values,
                                       absl::Duration deadline) override {
    if (rank() == kOwnerRank && values.size() != world_size()) {
      return internal::WrongValueCount("TellEach", values.size(), world_size(),
                                       tag);
    }
    CallResult result =
        Call(CallKind::kTellEach, tag, "", deadline, std::move(values));
    CKPTDB_RETURN_IF_ERROR(result.status);
    return std::move(result.value);
  }

  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value,
      absl::Duration deadline) override {
    CallResult result =
        Call(CallKind::kGather, tag, std::move(value), deadline);
    CKPTDB_RETURN_IF_ERROR(result.status);
    return std::move(result.values);
  }

  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline) override {
    if (values.size() != world_size()) {
      return internal::WrongValueCount("AllToAll", values.size(), world_size(),
                                       tag);
    }
    CallResult result =
        Call(CallKind::kAllToAll, tag, "", deadline, std::move(values));
    CKPTDB_RETURN_IF_ERROR(result.status);
    return std::move(result.values);
  }
  bool HasDirectAllToAll() const override { return true; }

  std::unique_ptr<AllGather> StartAllGather(absl::string_view tag,
                                            std::string value) override {
    if (all_gathers_ != nullptr) {
      return all_gathers_->Start(this, tag, std::move(value));
    }
    internal::CallRequest request;
    request.kind = CallKind::kAllGather;
    request.call = internal::DescribeCall(request.kind, tag);
    request.value = std::move(value);
    hub_->Begin(channel_, std::move(request));
    return std::make_unique<MessageAllGather>(hub_, channel_);
  }

  // All ranks make the same duplicates in the same order, so a number names the
  // same channel on each without a message.
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return std::make_unique<OverMessages>(
        hub_, absl::StrCat(channel_, "/", duplicates_++), all_gathers_);
  }

  void Leave() override { hub_->Leave(); }

 private:
  CallResult Call(CallKind kind, absl::string_view tag, std::string value,
                  absl::Duration deadline,
                  std::vector<std::string> values = {}) {
    internal::CallRequest request;
    request.kind = kind;
    request.call = internal::DescribeCall(kind, tag);
    request.value = std::move(value);
    request.values = std::move(values);
    request.deadline = deadline;
    return hub_->Call(channel_, std::move(request));
  }

  // The values of other ranks are not sent.
  absl::StatusOr<std::string> OwnersValue(CallKind kind, absl::string_view tag,
                                          std::string value,
                                          absl::Duration deadline) {
    if (rank() != kOwnerRank) value.clear();
    CallResult result = Call(kind, tag, std::move(value), deadline);
    CKPTDB_RETURN_IF_ERROR(result.status);
    return std::move(result.value);
  }

  const std::shared_ptr<MessageHub> hub_;
  const std::string channel_;
  const std::shared_ptr<internal::AllGathers> all_gathers_;
  uint64_t duplicates_ = 0;
};

}  // namespace

std::unique_ptr<Coordinator> internal::MessageCoordinatorWith(
    std::unique_ptr<Coordinator::Transport> transport,
    std::shared_ptr<AllGathers> all_gathers) {
  return std::make_unique<OverMessages>(
      std::make_shared<MessageHub>(std::move(transport)), "",
      std::move(all_gathers));
}

std::unique_ptr<Coordinator> MessageCoordinator(
    std::unique_ptr<Coordinator::Transport> transport) {
  return internal::MessageCoordinatorWith(std::move(transport), nullptr);
}

}  // namespace ckptdb
