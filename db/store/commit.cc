// SPDX-License-Identifier: Apache-2.0
#include "db/store/commit.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "db/meta/borrowed.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/page.h"
#include "schema/records/records.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

// Adds the state of a version. Only a save in progress needs the time at which
// it began, which is not known here, so it is 0.
absl::Status AddAttempt(const Version& version, AttemptState state,
                        Commit* commit) {
  CKPTDB_ASSIGN_OR_RETURN(std::string bytes,
                          EncodeAttemptRecord({version, state, 0}));
  commit->records.emplace_back(AttemptKey(version.attempt), std::move(bytes));
  return absl::OkStatus();
}

// Adds a step record under the key of a step or of a retired version.
absl::Status AddStep(std::string key, const StepRecord& step, Commit* commit) {
  CKPTDB_ASSIGN_OR_RETURN(std::string bytes, EncodeStepRecord(step));
  commit->records.emplace_back(std::move(key), std::move(bytes));
  return absl::OkStatus();
}

}  // namespace

void SumRanks(Commit* commit) {
  StepRecord& step = commit->step;
  std::set<Version> references;
  for (const StepRecord::Rank& rank : commit->ranks) {
    step.rank_digests.push_back(HashBytes(commit->rank_bytes[rank.rank]));
    for (const Item& item : rank.items) {
      ++step.items;
      step.rows += item.rows;
      step.raw_bytes += item.raw_bytes;
      if (item.data_version == step.version)
        step.exclusive_bytes += item.stored_bytes;
      // The step counts the rows and raw bytes of a borrowed item, but another
      // version stored it and becomes a reference.
      if (item.data_version != step.version)
        references.insert(item.data_version);
    }
  }
  step.references.assign(references.begin(), references.end());
}

absl::Status EncodeRecords(Commit* commit) {
  // The record of a retired step moves to another key instead of being deleted,
  // because chains may pass through it. Its state and the new version's state
  // are in the same batch as the step records, so that a lost record can be
  // told from a deleted step.
  for (const StepRecord& retired : commit->retired) {
    CKPTDB_RETURN_IF_ERROR(
        AddAttempt(retired.version, AttemptState::kRetired, commit));
    CKPTDB_RETURN_IF_ERROR(
        AddStep(RetiredKey(retired.version), retired, commit));
  }
  const Version& version = commit->step.version;
  CKPTDB_RETURN_IF_ERROR(AddAttempt(version, AttemptState::kCommitted, commit));
  return AddStep(StepKey(version.step), commit->step, commit);
}

// Ignores the keys of records: the caller triples this number and adds a fixed
// overhead.
uint64_t BatchBytes(const Commit& commit) {
  uint64_t bytes = commit.inline_bytes;
  for (const std::string& rank : commit.rank_bytes) bytes += rank.size();
  for (const auto& [key, value] : commit.records) bytes += value.size();
  return bytes;
}

uint64_t ReusedBytes(const Commit& commit) {
  uint64_t bytes = 0;
  for (const StepRecord::Rank& rank : commit.ranks) {
    for (const BorrowedItem& item : BorrowedItems(rank)) {
      bytes += item.stored_bytes;
    }
  }
  return bytes;
}

std::string BaseDue(const StepRecord& step,
                    const StoreOptions::ChainBounds& bounds) {
  const uint64_t deltas = step.chain.size() - 1;
  if (deltas >= bounds.max_deltas) {
    return absl::StrCat(deltas, " deltas over the base; the limit is ",
                        bounds.max_deltas);
  }
  const double limit =
      bounds.max_delta_ratio * static_cast<double>(step.base_bytes);
  // A base of 0 bytes makes the limit 0, so the first delta with bytes makes a
  // new base due.
  if (deltas == 0 || static_cast<double>(step.delta_bytes) <= limit) return "";
  return absl::StrCat("deltas have ", step.delta_bytes,
                      " bytes over a base of ", step.base_bytes,
                      " bytes; the limit is ", bounds.max_delta_ratio,
                      " times the base");
}

}  // namespace ckptdb::internal
