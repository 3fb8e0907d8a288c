// The messages between ranks, as bytes; internal to manager/. All ranks run the
// same build of the library, and the bytes are not stored.
#ifndef CKPTDB_MANAGER_RANKS_MESSAGES_H_
#define CKPTDB_MANAGER_RANKS_MESSAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ckptdb/db/store.h"
#include "ckptdb/manager/policies.h"
#include "ckptdb/manager/state/change_sets.h"
#include "ckptdb/schema/records/staged.h"
#include "ckptdb/schema/types.h"

namespace ckptdb::internal {

// The announcement of the owner at each step of what all ranks do.
struct Announcement {
  // The error that every rank returns instead of doing what follows.
  absl::Status error;
  // The save before has ended, and each rank takes note of that.
  bool finish_save = false;
  bool preempted = false;  // the machine of some rank will be taken away
  // The newest step became permanent instead of a save.
  bool promoted = false;
  int64_t step = 0;
  SavePolicy::Decision decision;
  // The error of beginning the save that was decided on. It has failed then, on
  // all ranks, as if it had failed later.
  absl::Status begin_error;
  // The following are set only if the save has begun.
  Version version;
  bool whole = true;  // the save has no parent
  // The reason why all tables are saved in full; empty if there is none.
  std::string base_reason;
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

// The part that a rank sends when an evaluation is saved.
struct StagedPart {
  absl::Status status;
  std::string staged;  // Encode of EvaluationParts
};

// The step that all ranks restore.
struct RestoreTarget {
  absl::Status error;
  Version version;
};

std::string Encode(const Announcement& message);
std::string Encode(const Outcome& message);
// Entries for the write batch follow the message as they are. The argument is
// taken by value as they can be large, and are copied once.
std::string Encode(SavePart message);
std::string Encode(const StagedPart& message);
std::string Encode(const RestoreTarget& message);
std::string Encode(const BaseReasons& message);
std::string Encode(const AgreedBases& message);
std::string Encode(const StepRecord::Evaluation::Part& message);
std::string Encode(const std::vector<StepRecord::Evaluation::Part>& message);

// Returns Internal for bytes that are not such a message, and DataLoss for a
// SavePart whose entries are not those that were sent.
absl::Status Decode(absl::string_view bytes, Announcement* message);
absl::Status Decode(absl::string_view bytes, Outcome* message);
absl::Status Decode(absl::string_view bytes, SavePart* message);
absl::Status Decode(absl::string_view bytes, StagedPart* message);
absl::Status Decode(absl::string_view bytes, RestoreTarget* message);
absl::Status Decode(absl::string_view bytes, BaseReasons* message);
absl::Status Decode(absl::string_view bytes, AgreedBases* message);
absl::Status Decode(absl::string_view bytes,
                    StepRecord::Evaluation::Part* message);
absl::Status Decode(absl::string_view bytes,
                    std::vector<StepRecord::Evaluation::Part>* message);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGES_H_
