// SPDX-License-Identifier: Apache-2.0
#include "manager/coordinator.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "manager/ranks/message_codec.h"
#include "manager/ranks/packed_values.h"
#include "manager/ranks/tell_status.h"
#include "schema/bytes/annotate.h"
#include "schema/status.h"

namespace ckptdb {
namespace {

using internal::DecodeStatus;
using internal::EncodeStatus;

class Alone : public Coordinator {
 public:
  uint32_t rank() const override { return kOwnerRank; }
  uint32_t world_size() const override { return 1; }
  absl::Status Barrier(absl::string_view, absl::Duration) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Broadcast(absl::string_view, std::string value,
                                        absl::Duration) override {
    return value;
  }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view,
                                                  std::string value,
                                                  absl::Duration) override {
    return std::vector<std::string>{std::move(value)};
  }
  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view, std::vector<std::string> values,
      absl::Duration) override {
    return values;
  }
  absl::StatusOr<std::unique_ptr<Coordinator>> Duplicate() override {
    return SingleProcess();
  }
};

// Returns the values of all ranks, on each of them.
absl::StatusOr<std::vector<std::string>> GatherToAll(Coordinator* ranks,
                                                     absl::string_view tag,
                                                     std::string value,
                                                     absl::Duration deadline) {
  const auto parts = ranks->Gather(tag, std::move(value), deadline);
  // First the status of the gathering, then the value of each rank.
  std::vector<std::string> all = {EncodeStatus(parts.status())};
  if (parts.ok()) all.insert(all.end(), parts->begin(), parts->end());
  CKPTDB_ASSIGN_OR_RETURN(const std::string packed,
                          ranks->Tell(tag, internal::PackValues(all),
                                      AfterGather(*ranks, deadline)));
  CKPTDB_ASSIGN_OR_RETURN(const std::string status,
                          internal::UnpackValue(packed, 0));
  CKPTDB_RETURN_IF_ERROR(DecodeStatus(status));
  std::vector<std::string> values(ranks->world_size());
  for (size_t rank = 0; rank < values.size(); ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(values[rank],
                            internal::UnpackValue(packed, rank + 1));
  }
  return values;
}

// Exchanges its values in Finish.
class DeferredAllGather : public Coordinator::AllGather {
 public:
  DeferredAllGather(Coordinator* ranks, absl::string_view tag,
                    std::string value)
      : ranks_(ranks), tag_(tag), value_(std::move(value)) {}

  absl::StatusOr<std::vector<std::string>> Finish(
      absl::Duration deadline) override {
    return GatherToAll(ranks_, tag_, std::move(value_), deadline);
  }

 private:
  Coordinator* const ranks_;
  const std::string tag_;
  std::string value_;
};

absl::Status FirstError(const std::vector<std::string>& parts) {
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const absl::Status status = DecodeStatus(parts[rank]);
    if (status.ok()) continue;
    return internal::Annotate(status, absl::StrCat("rank ", rank));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Coordinator::TellEach(
    absl::string_view tag,
    std::vector<std::string> values,  // NOLINT: overrides keep them
    absl::Duration deadline) {
  const bool owner = rank() == kOwnerRank;
  if (owner && values.size() != world_size()) {
    return internal::WrongValueCount("TellEach", values.size(), world_size(),
                                     tag);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::string packed,
      Tell(tag, owner ? internal::PackValues(values) : "", deadline));
  return internal::UnpackValue(packed, rank());
}

absl::StatusOr<std::vector<std::string>> Coordinator::AllToAll(
    absl::string_view tag, std::vector<std::string> values,
    absl::Duration deadline) {
  if (values.size() != world_size()) {
    return internal::WrongValueCount("AllToAll", values.size(), world_size(),
                                     tag);
  }
  CKPTDB_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      GatherToAll(this, tag, internal::PackValues(values), deadline));
  for (uint32_t from = 0; from < world_size(); ++from) {
    CKPTDB_ASSIGN_OR_RETURN(values[from],
                            internal::UnpackValue(all[from], rank()));
  }
  return values;
}

std::unique_ptr<Coordinator::AllGather> Coordinator::StartAllGather(
    absl::string_view tag, std::string value) {
  return std::make_unique<DeferredAllGather>(this, tag, std::move(value));
}

absl::Duration AfterGather(const Coordinator& ranks, absl::Duration deadline) {
  return ranks.rank() == kOwnerRank ? deadline : 3 * deadline;
}

absl::Status Agree(Coordinator* ranks, absl::string_view tag,
                   const absl::Status& status, absl::Duration deadline) {
  if (ranks->world_size() == 1) return status;
  const auto parts = ranks->Gather(tag, EncodeStatus(status), deadline);
  // Only the owner knows the outcome of the gathering; the others learn it
  // here.
  const absl::Status own = parts.ok() ? FirstError(*parts) : parts.status();
  return internal::TellStatus(ranks, tag, own, deadline);
}

std::unique_ptr<Coordinator> SingleProcess() {
  return std::make_unique<Alone>();
}

}  // namespace ckptdb
