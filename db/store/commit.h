// SPDX-License-Identifier: Apache-2.0
// The records that a publish or a fold is about to commit; internal to db/.
#ifndef CKPTDB_DB_STORE_COMMIT_H_
#define CKPTDB_DB_STORE_COMMIT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "db/options.h"
#include "schema/records/staged.h"
#include "schema/types.h"

namespace ckptdb::internal {

struct Commit {
  StepRecord step;
  StepRecord parent;  // attempt 0 if there is no parent
  std::vector<StepRecord::Rank> ranks;
  std::vector<std::string> rank_bytes;  // `ranks` encoded
  std::vector<std::string> files;       // absolute paths, of all ranks
  std::vector<const internal::StagedRecord*> staged;
  // Keys and values of SaveSpec::blobs. The items are in ranks[0].
  std::vector<std::pair<std::string, std::string>> blob_entries;
  uint64_t inline_bytes = 0;  // of `blob_entries` and the entries of `staged`
  // Steps that the batch retires, and the numbers of those that `step` does not
  // replace.
  std::vector<StepRecord> retired;
  std::vector<int64_t> removed_steps;
  // Keys and values of the other records: see EncodeRecords.
  std::vector<std::pair<std::string, std::string>> records;
};

// Fills in the digests, counts and references that are sums over the step's
// ranks.
void SumRanks(Commit* commit);

// Encodes the step record, the states of all affected attempts and the records
// that retired steps leave behind. A record that would not decode again is an
// error here, before any file is ingested.
absl::Status EncodeRecords(Commit* commit);

// Returns the approximate size of the write batch's entries in bytes.
uint64_t BatchBytes(const Commit& commit);

// Returns the bytes of the items that the step borrows.
uint64_t ReusedBytes(const Commit& commit);

// Returns why a new base, or a fold, is due; empty if neither is.
std::string BaseDue(const StepRecord& step,
                    const StoreOptions::ChainBounds& bounds);

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_STORE_COMMIT_H_
