// What ranks tell one another, as bytes; internal to manager/. They are of one
// build of the library, and are not stored.
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
#include "ckptdb/schema/evaluation.h"
#include "ckptdb/schema/staged.h"

namespace ckptdb::internal {

// From the owner, at each step: what all ranks do now.
struct Announcement {
  // What every rank returns instead of all that follows.
  absl::Status error;
  // The save before this one is over, and each rank takes note of its end.
  bool finish_save = false;
  bool preempted = false;  // some rank's machine will be taken away
  // Instead of a save the newest step became permanent.
  bool promoted = false;
  int64_t step = 0;
  SaveDecision decision;
  // When it is saved:
  Version version;
  std::vector<std::string> tickets;  // by rank
  bool whole = true;                 // has no parent, or takes no changes
  std::string base_reason;           // of all tables; empty: none
};

// The end of a save: from the owner to all.
struct Outcome {
  absl::Status status;
  SaveResult result;
  std::vector<int64_t> retired;
};

// What a rank has staged of a save, or why it has not.
struct SavePart {
  absl::Status status;
  StagedRank staged;
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
// Entries for the write batch follow the message as they are, and are copied
// once: what is staged is taken.
std::string Encode(SavePart message);
std::string Encode(const StagedPart& message);
std::string Encode(const RestoreTarget& message);
std::string Encode(const BaseReasons& message);
std::string Encode(const EvaluationPart& message);
std::string Encode(const std::vector<EvaluationPart>& message);

// Internal for what is no such message. DataLoss for a SavePart whose entries
// are not those that were sent.
absl::Status Decode(absl::string_view bytes, Announcement* message);
absl::Status Decode(absl::string_view bytes, Outcome* message);
absl::Status Decode(absl::string_view bytes, SavePart* message);
absl::Status Decode(absl::string_view bytes, StagedPart* message);
absl::Status Decode(absl::string_view bytes, RestoreTarget* message);
absl::Status Decode(absl::string_view bytes, BaseReasons* message);
absl::Status Decode(absl::string_view bytes, EvaluationPart* message);
absl::Status Decode(absl::string_view bytes,
                    std::vector<EvaluationPart>* message);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_RANKS_MESSAGES_H_
