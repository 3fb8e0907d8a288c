// SPDX-License-Identifier: Apache-2.0
// The messages between the ranks of a manager; internal to manager/. Encoded by
// message_codec.h.
#ifndef CKPTDB_MANAGER_RANKS_MESSAGES_H_
#define CKPTDB_MANAGER_RANKS_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "db/state.h"
#include "db/store.h"
#include "manager/policies.h"
#include "manager/state/change_sets.h"
#include "schema/types.h"

namespace ckptdb::internal {

// The next calls of Step in which ranks communicate, counted from the call that
// announced them. In all others they return alone.
struct StepPlan {
  // The calls in which an exchange of notices begins and ends, which may be the
  // same; 0 if ranks meet in the next call.
  int64_t begin_in = 0;
  int64_t end_in = 0;
  // Ranks meet in the first call that reaches this step.
  int64_t due_step = 0;
};

// A rank's message to all others in an exchange of notices.
struct Vote {
  // The rank has a notice, or the owner would save the step: all ranks meet.
  bool meet = false;
  // From the owner: the plan if no rank wants to meet.
  StepPlan plan;
};

// The owner's announcement, at a step at which ranks meet, of what all ranks
// do.
struct Announcement {
  // If set, every rank returns this error, and does nothing else.
  absl::Status error;
  // The previous save has ended, and each rank applies its outcome.
  bool finish_save = false;
  bool preempted = false;  // the machine of some rank will be taken away
  // The newest step became permanent instead of a save.
  bool promoted = false;
  int64_t step = 0;
  SavePolicy::Decision decision;
  StepPlan plan;
  // The error of beginning the save that was decided on. That save has failed
  // on all ranks, as if it had failed later.
  absl::Status begin_error;
  // The following are set only if the save has begun.
  Version version;
  bool whole = true;  // the save has no parent
  Version parent;     // of the save, unless it has none
  // The reason why all tables are saved in full; empty if they are not.
  std::string base_reason;
};

// A rank's message to the owner before the announcement.
struct Notice {
  bool preempted = false;
  absl::Status error;  // thrown by a callback, or the model is partly written
};

// The outcome of a save, from the owner to all ranks.
struct Outcome {
  absl::Status status;
  SaveResult result;
  std::vector<int64_t> retired;
};

// The part of a save that a rank has staged, or the error of staging it.
struct SavePart {
  absl::Status status;
  StagedRank staged;
};

// The tables that all ranks save in full, from the owner, or the error of
// asking the ranks.
struct AgreedBases {
  absl::Status status;
  BaseReasons bases;
};

// Digests of a rank's replicas, in the order of their names, which are the same
// on all ranks; or the error of computing them.
struct ReplicaDigests {
  absl::Status status;
  std::vector<uint64_t> digests;
};

// Parts of an evaluation: one from the rank that saves it, all from the owner
// when it is loaded; or the error of getting them.
struct EvaluationParts {
  absl::Status status;
  std::vector<StepRecord::Evaluation> parts;
};

// The step that all ranks restore.
struct RestoreTarget {
  absl::Status error;
  Version version;
};

// Decode returns Internal for bytes that are not such a message. Defined for
// the messages above, and for BaseReasons.
template <typename Message>
std::string Encode(const Message& message);
template <typename Message>
absl::Status Decode(absl::string_view bytes, Message* message);

// A part that Decode would reject is encoded as the error of its rank. Decode
// returns DataLoss for a part that changed in transit.
std::string Encode(const SavePart& message);
absl::Status Decode(absl::string_view bytes, SavePart* message);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGES_H_
