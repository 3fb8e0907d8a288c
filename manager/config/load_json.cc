// SPDX-License-Identifier: Apache-2.0
#include "manager/config/load_json.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/status.h"

namespace ckptdb::internal {
namespace {

// Reads fill values by slot.
void ReadFill(ObjectReader* reader, const char* key,
              std::map<std::string, double>* fill) {
  const Json* const found = reader->Find(key);
  if (found == nullptr) return;
  ObjectReader numbers(reader->PlaceOf(key), *found);
  if (found->is_object()) {
    for (const auto& [slot, value] : found->items()) {
      numbers.Read(slot.c_str(), &(*fill)[slot]);
    }
  }
  reader->Update(numbers.Finish());
}

EvolvePolicy::Table ReadEvolution(ObjectReader* reader) {
  EvolvePolicy::Table evolution;
  reader->Read("oname", &evolution.oname);
  ReadFill(reader, "fill", &evolution.fill);
  return evolution;
}

}  // namespace

absl::StatusOr<KeepPolicy::BestOptions> ReadBest(const std::string& place,
                                                 const Json& json) {
  KeepPolicy::BestOptions best;
  ObjectReader reader(place, json);
  reader.Require("metric");
  reader.Read("metric", &best.metric);
  reader.Read("count", &best.count);
  reader.Read("lower_is_better", &best.lower_is_better);
  reader.Read("keep_without_metric", &best.keep_without_metric);
  CKPTDB_RETURN_IF_ERROR(reader.Finish());
  return best;
}

void ReadBestOf(ObjectReader* reader, const char* key,
                std::optional<KeepPolicy::BestOptions>* best) {
  const Json* const found = reader->Find(key);
  if (found == nullptr) return;
  absl::StatusOr<KeepPolicy::BestOptions> read =
      ReadBest(reader->PlaceOf(key), *found);
  reader->Update(read.status());
  if (read.ok()) *best = *std::move(read);
}

void ReadEvolutions(ObjectReader* reader, const char* key,
                    std::map<std::string, EvolvePolicy::Table>* tables) {
  const Json* const found = reader->Find(key);
  if (found == nullptr) return;
  ObjectReader all(reader->PlaceOf(key), *found);
  if (found->is_object()) {
    for (const auto& [table, value] : found->items()) {
      ObjectReader each(all.PlaceOf(table), *all.Find(table.c_str()));
      (*tables)[table] = ReadEvolution(&each);
      all.Update(each.Finish());
    }
  }
  reader->Update(all.Finish());
}

void ReadEvolve(ObjectReader* reader, const char* key,
                std::optional<EvolvePolicy>* evolve) {
  const Json* const found = reader->Find(key);
  if (found == nullptr) return;
  EvolvePolicy policy;
  ObjectReader each(reader->PlaceOf(key), *found);
  each.Read("oname", &policy.oname);
  each.Read("exclude", &policy.exclude);
  each.Read("cast", &policy.cast);
  ReadEvolutions(&each, "tables", &policy.tables);
  const absl::Status status = each.Finish();
  reader->Update(status);
  if (status.ok()) *evolve = std::move(policy);
}

}  // namespace ckptdb::internal
