// SPDX-License-Identifier: Apache-2.0
#include "db/meta/lineage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/limits.h"
#include "schema/records/branches.h"
#include "schema/records/records.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb::internal {
namespace {

absl::Status BadParent(const Version& parent, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("parent ", ToString(parent), " ", why));
}

// Checks that a save may continue this parent: it is not quarantined, not a
// later step, and is the newest step unless SaveSpec::abandoned decides about
// the steps after it.
absl::Status CheckParent(const Catalog& catalog, const SaveSpec& spec,
                         const StepRecord& parent) {
  if (parent.quarantined) return BadParent(*spec.parent, "is quarantined");
  if (spec.step < parent.version.step) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", spec.step, " is before its parent, ", ToString(*spec.parent)));
  }
  const StepRecord* const newest = catalog.Newest();
  if (spec.abandoned != SaveSpec::Abandoned::kRefuse || newest == nullptr ||
      newest->version == parent.version) {
    return absl::OkStatus();
  }
  return BadParent(
      *spec.parent,
      absl::StrCat("is not the newest: ", ToString(newest->version),
                   " was committed after it; set SaveSpec::abandoned"));
}

absl::Status BadMember(const StepRecord& step, absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("chain of ", ToString(step.version), ": ", why));
}

absl::Status CheckMember(const StepRecord& step, const StepRecord& member,
                         const std::string& uuid) {
  if (member.store_uuid == uuid) return absl::OkStatus();
  return BadMember(step,
                   absl::StrCat(ToString(member.version), " belongs to store ",
                                member.store_uuid, ", expected ", uuid));
}

// Checks that `next` was saved on top of `member`. The digest covers the
// member's whole content, so it detects a version of another store or run with
// the same numbers.
absl::Status CheckLink(const StepRecord& step, const StepRecord& member,
                       const StepRecord& next) {
  if (!next.has_parent || next.parent != member.version) {
    return BadMember(
        step, absl::StrCat(ToString(next.version), " has ",
                           next.has_parent
                               ? absl::StrCat("parent ", ToString(next.parent))
                               : "no parent",
                           ", expected ", ToString(member.version)));
  }
  const uint64_t digest = LineageDigest(member);
  if (next.parent_digest == digest) return absl::OkStatus();
  return BadMember(
      step, absl::StrCat(ToString(member.version), " has lineage digest ",
                         absl::Hex(digest), ", expected ",
                         absl::Hex(next.parent_digest), " of the parent of ",
                         ToString(next.version)));
}

// A state and its ancestors, back to where the path ends: at a record that was
// saved in full, or that no longer exists.
struct Ancestry {
  std::vector<StepRecord> increments;  // newest first; those with delta runs
  std::vector<Version> states;         // increments[i] led to states[i]
  Version end;                         // the version where the path ends
  absl::Status why;                    // why it ends there
};

absl::Status Ends(const Version& version, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(ToString(version), " ", why));
}

// Follows a state's increments back as far as delta runs lead.
Ancestry AncestryOf(const Catalog& catalog, const StepRecord& start) {
  Ancestry ancestry;
  const auto end_at = [&](const Version& version, absl::string_view why) {
    ancestry.end = version;
    ancestry.why = Ends(version, why);
    return std::move(ancestry);
  };
  ancestry.states.push_back(StateOf(start));
  const StepRecord* record = &start;
  while (true) {
    // The delta runs that lead to a folded step belong to the version that it
    // was folded from.
    if (record->folded) {
      const Version folded = record->folded_from;
      record = catalog.FindVersion(folded);
      if (record == nullptr) return end_at(folded, "is gone");
    }
    if (record->kind == StepRecord::Kind::kFull) {
      return end_at(record->version, "was saved in full");
    }
    ancestry.increments.push_back(*record);
    const Version before = record->parent;
    record = catalog.FindVersion(before);
    ancestry.states.push_back(record == nullptr ? before : StateOf(*record));
    if (record == nullptr) return end_at(before, "is gone");
    ancestry.end = before;
    ancestry.why = CheckLink(start, *record, ancestry.increments.back());
    if (!ancestry.why.ok()) return ancestry;
  }
}

// Returns the reason to report: damage first, otherwise the newer end's.
const absl::Status& WhyNoPath(const Ancestry& a, const Ancestry& b) {
  if (absl::IsDataLoss(a.why) != absl::IsDataLoss(b.why)) {
    return absl::IsDataLoss(a.why) ? a.why : b.why;
  }
  return a.end.attempt < b.end.attempt ? b.why : a.why;
}

bool IsStep(const Catalog& catalog, const Version& version) {
  const auto step = catalog.steps.find(version.step);
  return step != catalog.steps.end() && step->second.version == version;
}

// Returns whether nothing of a version is swept while the steps exist.
bool IsWhole(const Catalog& catalog, const Version& version) {
  const auto step = catalog.steps.find(version.step);
  return step != catalog.steps.end() && IsState(step->second, version);
}

// The sweep removes the parts of retired versions that no chain needs. Checks
// that it kept the tables that `head`, the step at the end of the chain, needs.
absl::Status CheckKept(const Catalog& catalog, const StepRecord& head,
                       const std::vector<StepRecord>& members) {
  const bool is_step = IsStep(catalog, head.version);
  for (const StepRecord& member : members) {
    if (IsWhole(catalog, member.version)) continue;
    if (is_step &&
        std::count(head.chain.begin(), head.chain.end(), member.version) > 0) {
      continue;
    }
    return Ends(member.version, "is retired, and its delta runs may be gone");
  }
  return absl::OkStatus();
}

absl::Status NoPath(const Version& from, const Version& to,
                    const absl::Status& why) {
  return absl::Status(
      why.code(), absl::StrCat("no changes lead from ", ToString(from), " to ",
                               ToString(to), ": ", why.message()));
}

// Returns whether a version, step or retired, was already saved on top of this
// one. The next save then begins another branch.
bool HasSuccessor(const Catalog& catalog, const StepRecord& parent) {
  const auto comes_from_it = [&](const auto& entry) {
    return DescendsFrom(entry.second, parent);
  };
  return std::any_of(catalog.steps.begin(), catalog.steps.end(),
                     comes_from_it) ||
         std::any_of(catalog.retired.begin(), catalog.retired.end(),
                     comes_from_it);
}

std::vector<StepRecord> First(const std::vector<StepRecord>& records,
                              size_t count) {
  return {records.begin(),
          records.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace

bool IsState(const StepRecord& step, const Version& parent) {
  return step.version == parent || (step.folded && step.folded_from == parent);
}

absl::StatusOr<StepRecord> FindParent(const Catalog& catalog,
                                      const SaveSpec& spec) {
  if (!spec.parent.has_value()) {
    const StepRecord* const newest = catalog.Newest();
    return newest == nullptr ? StepRecord() : *newest;
  }
  const auto found = catalog.steps.find(spec.parent->step);
  if (found == catalog.steps.end() || !IsState(found->second, *spec.parent)) {
    return BadParent(*spec.parent, "is not a committed step");
  }
  CKPTDB_RETURN_IF_ERROR(CheckParent(catalog, spec, found->second));
  return found->second;
}

std::vector<StepRecord::Branch> BranchesOver(const Catalog& catalog,
                                             const StepRecord& parent,
                                             uint32_t attempt) {
  std::vector<StepRecord::Branch> branches = parent.branches;
  if (branches.empty() || HasSuccessor(catalog, parent)) {
    branches.push_back({attempt, attempt});
  } else {
    branches.back().last = attempt;
  }
  if (branches.size() > kMaxBranches) branches.erase(branches.begin());
  return branches;
}

std::map<uint32_t, uint64_t> OwnersOver(const StepRecord& parent,
                                        uint32_t attempt, uint64_t owner) {
  std::map<uint32_t, uint64_t> owners = parent.owners;
  if (owners.empty() || owners.rbegin()->second != owner) {
    owners.emplace(attempt, owner);
  }
  if (owners.size() > kMaxOwners) owners.erase(owners.begin());
  return owners;
}

std::vector<StepRecord> DescendantsOf(const Catalog& catalog,
                                      const StepRecord& step) {
  std::vector<StepRecord> descendants;
  for (const auto& [number, record] : catalog.steps) {
    if (DescendsFrom(record, step)) descendants.push_back(record);
  }
  return descendants;
}

absl::StatusOr<std::vector<StepRecord>> ChainOf(const Catalog& catalog,
                                                const StepRecord& step) {
  std::vector<StepRecord> chain;
  for (const Version& version : step.chain) {
    const StepRecord* const member =
        version == step.version ? &step : catalog.FindVersion(version);
    if (member == nullptr) {
      return BadMember(step, absl::StrCat(ToString(version), " is missing"));
    }
    CKPTDB_RETURN_IF_ERROR(CheckMember(step, *member, catalog.root.uuid));
    if (!chain.empty()) {
      CKPTDB_RETURN_IF_ERROR(CheckLink(step, chain.back(), *member));
    }
    chain.push_back(*member);
  }
  return chain;
}

const StepRecord* FindState(const Catalog& catalog, const Version& version) {
  const StepRecord* const record = catalog.FindVersion(version);
  if (record != nullptr) return record;
  const auto step = catalog.steps.find(version.step);
  if (step != catalog.steps.end() && IsState(step->second, version)) {
    return &step->second;
  }
  // The version may be the increment of a fold that was since retired.
  for (const auto& [retired, folded] : catalog.retired) {
    if (IsState(folded, version)) return &folded;
  }
  return nullptr;
}

absl::StatusOr<Path> FindPath(const Catalog& catalog, const Version& from,
                              const StepRecord& to) {
  const StepRecord* const start = FindState(catalog, from);
  if (start == nullptr) {
    return NoPath(from, to.version, Ends(from, "is gone"));
  }
  const Ancestry old_states = AncestryOf(catalog, *start);
  const Ancestry new_states = AncestryOf(catalog, to);
  for (size_t i = 0; i < new_states.states.size(); ++i) {
    // The newest common state gives the shortest path.
    const auto common =
        std::find(old_states.states.begin(), old_states.states.end(),
                  new_states.states[i]);
    if (common == old_states.states.end()) continue;
    const auto undone = static_cast<size_t>(common - old_states.states.begin());
    Path path{First(old_states.increments, undone),
              First(new_states.increments, i)};
    absl::Status kept = CheckKept(catalog, *start, path.undo);
    kept.Update(CheckKept(catalog, to, path.redo));
    if (!kept.ok()) return NoPath(from, to.version, kept);
    return path;
  }
  return NoPath(from, to.version, WhyNoPath(old_states, new_states));
}

}  // namespace ckptdb::internal
