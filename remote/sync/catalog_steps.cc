// SPDX-License-Identifier: Apache-2.0
#include "remote/sync/catalog_steps.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

bool IsDropped(const RemoteEntry& entry) {
  return entry.use == RemoteEntry::Use::kDropped;
}

auto OrderOf(const RemoteEntry& entry) {
  return std::tie(entry.version, entry.epoch);
}

}  // namespace

const RemoteEntry* FindEntry(const RemoteCatalog& catalog,
                             const Version& version) {
  const auto begin =
      std::lower_bound(catalog.entries.begin(), catalog.entries.end(), version,
                       [](const RemoteEntry& entry, const Version& wanted) {
                         return entry.version < wanted;
                       });
  const RemoteEntry* found = nullptr;
  for (auto it = begin; it != catalog.entries.end() && it->version == version;
       ++it) {
    if (!IsDropped(*it)) return &*it;
    found = &*it;
  }
  return found;
}

const RemoteEntry* FindStepEntry(const RemoteCatalog& catalog, int64_t step) {
  const auto found =
      std::find_if(catalog.entries.begin(), catalog.entries.end(),
                   [&](const RemoteEntry& entry) {
                     return IsStep(entry) && entry.version.step == step;
                   });
  return found == catalog.entries.end() ? nullptr : &*found;
}

std::vector<const RemoteEntry*> StepsByAge(const RemoteCatalog& catalog) {
  std::vector<const RemoteEntry*> steps;
  for (const RemoteEntry& entry : catalog.entries) {
    if (IsStep(entry)) steps.push_back(&entry);
  }
  std::sort(steps.begin(), steps.end(),
            [](const RemoteEntry* a, const RemoteEntry* b) {
              return a->state.attempt > b->state.attempt;
            });
  return steps;
}

const RemoteEntry* NewestStep(const RemoteCatalog& catalog) {
  for (const RemoteEntry* const entry : StepsByAge(catalog)) {
    if (!entry->quarantined) return entry;
  }
  return nullptr;
}

std::vector<const RemoteEntry*> NewestSteps(const RemoteCatalog& catalog,
                                            uint64_t keep) {
  std::vector<const RemoteEntry*> newest;
  uint64_t usable = 0;
  for (const RemoteEntry* const step : StepsByAge(catalog)) {
    if (usable == keep) break;
    if (!step->quarantined) ++usable;
    newest.push_back(step);
  }
  return newest;
}

absl::StatusOr<std::vector<RemoteEntry>> NeededEntries(
    const RemoteCatalog& catalog,
    const std::vector<const RemoteEntry*>& steps) {
  std::map<Version, RemoteEntry> needed;
  for (const RemoteEntry* const step : steps) {
    needed[step->version] = *step;
    for (const Version& version : step->needs) {
      const RemoteEntry* const entry = FindEntry(catalog, version);
      if (entry == nullptr || IsDropped(*entry)) {
        return absl::DataLossError(
            absl::StrCat("remote catalog: ", ToString(version), ", which step ",
                         step->version.step, " needs, is missing"));
      }
      needed.emplace(version, *entry);
    }
  }
  std::vector<RemoteEntry> entries;
  for (const auto& [version, entry] : needed) entries.push_back(entry);
  return entries;
}

void PutEntry(RemoteEntry entry, RemoteCatalog* catalog) {
  auto& entries = catalog->entries;
  const auto place =
      std::lower_bound(entries.begin(), entries.end(), entry,
                       [](const RemoteEntry& a, const RemoteEntry& b) {
                         return OrderOf(a) < OrderOf(b);
                       });
  if (place != entries.end() && OrderOf(*place) == OrderOf(entry)) {
    *place = std::move(entry);
  } else {
    entries.insert(place, std::move(entry));
  }
}

void MarkNeeded(RemoteCatalog* catalog) {
  std::set<std::pair<Version, uint64_t>> needed;
  for (const RemoteEntry& step : catalog->entries) {
    if (!IsStep(step)) continue;
    for (const Version& version : step.needs) {
      const RemoteEntry* const entry = FindEntry(*catalog, version);
      if (entry != nullptr) needed.emplace(entry->version, entry->epoch);
    }
  }
  for (RemoteEntry& entry : catalog->entries) {
    if (IsStep(entry)) continue;
    if (needed.contains({entry.version, entry.epoch})) {
      entry.use = RemoteEntry::Use::kNeeded;
      entry.dropped_at_micros = 0;
    } else {
      entry.use = RemoteEntry::Use::kDropped;
    }
  }
}

bool DescendsFrom(const StepRecord& record, const Version& state) {
  return std::any_of(record.branches.begin(), record.branches.end(),
                     [&](const StepRecord::Branch& branch) {
                       return branch.first <= state.attempt &&
                              state.attempt <= branch.last;
                     });
}

ObjectName NameOfVersionObject(const RemoteEntry& entry) {
  return {entry.epoch, entry.version, entry.revision};
}

NamedObjects::NamedObjects(const RemoteCatalog& catalog) {
  for (const RemoteEntry& entry : catalog.entries) {
    version_objects_.insert(VersionObjectKey(NameOfVersionObject(entry)));
    data_.emplace(entry.epoch, entry.version);
  }
}

bool NamedObjects::HasVersionObject(const ObjectName& name) const {
  return version_objects_.contains(VersionObjectKey(name));
}

bool NamedObjects::HasData(const ObjectName& name) const {
  return data_.contains({name.epoch, name.version});
}

bool IsForgotten(const RemoteCatalog& catalog, const StepRecord& record) {
  const auto& forgotten = catalog.forgotten;
  return std::find(forgotten.begin(), forgotten.end(), StateOf(record)) !=
         forgotten.end();
}

}  // namespace ckptdb::internal
