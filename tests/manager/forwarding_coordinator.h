// SPDX-License-Identifier: Apache-2.0
#ifndef CKPTDB_TESTS_MANAGER_FORWARDING_COORDINATOR_H_
#define CKPTDB_TESTS_MANAGER_FORWARDING_COORDINATOR_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "manager/coordinator.h"
#include "schema/status.h"

namespace ckptdb::testing {

// Forwards the calls that a coordinator must implement to another one; hides
// its direct all-to-all and its all-gather.
class ForwardingCoordinator : public Coordinator {
 public:
  explicit ForwardingCoordinator(std::unique_ptr<Coordinator> ranks)
      : ranks_(std::move(ranks)) {}
  uint32_t rank() const override { return ranks_->rank(); }
  uint32_t world_size() const override { return ranks_->world_size(); }
  absl::Status Barrier(absl::string_view tag, absl::Duration wait) override {
    return ranks_->Barrier(tag, wait);
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration wait) override {
    return ranks_->Broadcast(tag, std::move(value), wait);
  }
  absl::StatusOr<std::vector<std::string>> Gather(
      absl::string_view tag, std::string value, absl::Duration wait) override {
    return ranks_->Gather(tag, std::move(value), wait);
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return ranks_->Duplicate();
  }

 private:
  const std::unique_ptr<Coordinator> ranks_;
};

// Fails on this rank the broadcasts with a tag, which the other ranks receive.
class LosesBroadcast : public ForwardingCoordinator {
 public:
  enum class Where { kThis, kDuplicatesToo };

  LosesBroadcast(std::unique_ptr<Coordinator> ranks, std::string tag,
                 Where where = Where::kThis)
      : ForwardingCoordinator(std::move(ranks)),
        tag_(std::move(tag)),
        where_(where) {}
  absl::StatusOr<std::string> Broadcast(absl::string_view tag,
                                        std::string value,
                                        absl::Duration wait) override {
    auto received =
        ForwardingCoordinator::Broadcast(tag, std::move(value), wait);
    if (tag == tag_) return absl::UnavailableError("the message was lost");
    return received;
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    CKPTDB_ASSIGN_OR_RETURN(auto ranks, ForwardingCoordinator::Duplicate());
    if (where_ == Where::kThis) return ranks;
    return std::make_unique<LosesBroadcast>(std::move(ranks), tag_, where_);
  }

 private:
  const std::string tag_;
  const Where where_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_MANAGER_FORWARDING_COORDINATOR_H_
