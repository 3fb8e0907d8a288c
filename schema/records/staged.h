// SPDX-License-Identifier: Apache-2.0
// The messages that the owner and the stagers of a save exchange as bytes: the
// ticket that Begin returns, and the staged rank that Publish receives. They
// have the envelope and the checks of records.h.
#ifndef CKPTDB_SCHEMA_RECORDS_STAGED_H_
#define CKPTDB_SCHEMA_RECORDS_STAGED_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/types.h"

namespace ckptdb {
namespace internal {

// Allows one rank to stage its part of one attempt.
struct TicketRecord {
  std::string uuid;  // of the store
  Version version;
  uint32_t world_size = 1;
  uint32_t rank = 0;
  std::optional<SliceRange> slices;  // this rank's; none: any
  std::string staging;               // this rank's folder, below the store
  bool in_files = false;             // even if the part is small
  // The parent's record of this rank; null if the rank has nothing to borrow.
  std::shared_ptr<const StepRecord::Rank> parent;
  // The tables of all ranks of the parent, without their rows, if the save
  // accepts changes; else null.
  std::shared_ptr<const StepRecord::Rank> parent_tables;

  bool operator==(const TicketRecord& other) const;
};

struct StagedFile {
  std::string path;  // below the store
  uint64_t bytes = 0;
  uint64_t entries = 0;
  // The number of the rank's entries, in key order, in the files before this
  // one.
  uint64_t first_entry = 0;

  bool operator==(const StagedFile&) const = default;
};

// The contribution of one rank: files to ingest or the entries of a small save,
// and its StepRecord::Rank.
struct StagedRecord {
  std::string uuid;
  Version version;
  uint32_t rank = 0;
  uint32_t world_size = 1;
  std::vector<StagedFile> files;
  std::vector<std::pair<std::string, std::string>> inline_entries;
  std::string rank_record;

  bool operator==(const StagedRecord&) const = default;
};

}  // namespace internal

// Return InvalidArgument for a message that would not decode again: see
// records.h.
absl::StatusOr<std::string> EncodeTicket(const internal::TicketRecord& ticket);
absl::StatusOr<std::string> EncodeStagedRank(
    const internal::StagedRecord& staged);
// Return DataLoss for damage, FailedPrecondition for a newer format.
absl::StatusOr<internal::TicketRecord> DecodeTicket(absl::string_view bytes);
absl::StatusOr<internal::StagedRecord> DecodeStagedRank(
    absl::string_view bytes);

}  // namespace ckptdb

#endif  // CKPTDB_SCHEMA_RECORDS_STAGED_H_
