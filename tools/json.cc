// SPDX-License-Identifier: Apache-2.0
#include "tools/json.h"

#include <cmath>

#include "schema/types.h"
#include "tools/chain_length.h"
#include "tools/format.h"

namespace ckptdb::tool {
namespace {

// Adds the errors of a lossy codec, or null where no lossy codec was used.
void SetError(const Item& item, size_t index, Json* json) {
  const bool known = index < item.errors.size();
  (*json)["max_error"] = known ? Json(item.errors[index].max) : Json();
  (*json)["error_bound"] = known ? Json(item.errors[index].bound) : Json();
}

Json SlotJson(const Slot& slot) {
  return {{"name", slot.name},
          {"dtype", Str(DTypeName(slot.dtype))},
          {"elements", slot.elements},
          {"row_bytes", slot.row_bytes()},
          {"codec", Str(CodecName(slot.codec))}};
}

void SetTensor(const Item& item, Json* json) {
  (*json)["dtype"] = Str(DTypeName(item.dtype));
  (*json)["shape"] = item.shape;
  (*json)["global_shape"] = item.global_shape;
  (*json)["offset"] = item.offset;
  (*json)["codec"] = Str(CodecName(item.codec));
  SetError(item, 0, json);
}

void SetTable(const Item& item, Json* json) {
  (*json)["rows"] = item.rows;
  (*json)["erased_rows"] = item.erased_rows;
  (*json)["run"] = item.run == Item::Run::kBase ? "base" : "delta";
  (*json)["base_reason"] = ReasonJson(item.base_reason);
  (*json)["slice_hash"] =
      item.slice_hash == SliceHash::kModulo ? "modulo" : "mix";
  SetSharding(item.sharding, item.sharding_name, json);
  (*json)["rows_per_page"] = item.rows_per_page;
  (*json)["slots"] = Json::array();
  for (size_t i = 0; i < item.slots.size(); ++i) {
    Json slot = SlotJson(item.slots[i]);
    SetError(item, i, &slot);
    (*json)["slots"].push_back(std::move(slot));
  }
}

Json VersionsJson(const std::vector<Version>& versions) {
  Json json = Json::array();
  for (const Version& version : versions) json.push_back(ToJson(version));
  return json;
}

}  // namespace

void SetSharding(Item::Sharding kind, const std::string& name, Json* json) {
  (*json)["sharding"] = Str(ShardingKindName(kind));
  (*json)["sharding_name"] = name.empty() ? Json() : Json(name);
}

Json ToJson(const Version& version) {
  return {{"step", version.step}, {"attempt", version.attempt}};
}

Json ToJson(const Totals& totals) {
  return {{"items", totals.items},
          {"rows", totals.rows},
          {"erased_rows", totals.erased},
          {"raw_bytes", totals.raw_bytes},
          {"stored_bytes", totals.stored_bytes},
          {"borrowed_bytes", totals.borrowed_bytes}};
}

// Field names are stable (docs/json.md). An item's fields depend only on its
// kind.
Json ToJson(const Item& item, const Version& version) {
  Json json = {
      {"kind", Str(ItemKindName(item.kind))},
      {"name", item.name},
      {"raw_bytes", item.raw_bytes},
      {"stored_bytes", item.stored_bytes},
      {"digest", FormatHash(item.digest)},
      {"placement",
       item.placement == Item::Placement::kBulk ? "bulk" : "inline"},
      {"data_version", ToJson(item.data_version)},
      {"borrowed", item.data_version != version},
  };
  switch (item.kind) {
    case Item::Kind::kTensor:
      SetTensor(item, &json);
      break;
    case Item::Kind::kRows:
      SetTable(item, &json);
      break;
    case Item::Kind::kBlob:
      json["codec"] = Str(CodecName(item.codec));
      break;
  }
  return json;
}

Json MetricsJson(const Metrics& metrics) {
  Json json = Json::object();
  for (const auto& [name, value] : metrics) json[name] = NumberJson(value);
  return json;
}

void SetPosted(const Reader::Posted& posted, Json* json) {
  (*json)["posted_metrics"] = MetricsJson(posted.metrics);
  (*json)["posted_pin"] =
      posted.pinned.has_value() ? Json(*posted.pinned) : Json();
  (*json)["posted_ephemeral"] =
      posted.ephemeral.has_value() ? Json(*posted.ephemeral) : Json();
}

Json MetadataJson(const UserMetadata& metadata) {
  Json json = Json::object();
  for (const auto& [name, value] : metadata) json[name] = value;
  return json;
}

Json SummaryJson(const StepRecord& record) {
  Json json = ToJson(record.version);
  json["kind"] = Str(StepKindName(record.kind));
  json["pinned"] = record.pinned;
  json["ephemeral"] = record.ephemeral;
  json["quarantined"] = record.quarantined;
  json["committed_at"] = FormatIsoUtc(record.committed_at_micros);
  json["committed_at_micros"] = record.committed_at_micros;
  json["save_micros"] = record.save_micros;
  json["world_size"] = record.world_size;
  SetChainLength(record, &json);
  return json;
}

Json ToJson(const StepRecord& record) {
  Json json = SummaryJson(record);
  json["slice_bounds"] = record.slice_bounds;
  json["parent"] = record.has_parent ? ToJson(record.parent) : Json();
  json["chain"] = VersionsJson(record.chain);
  json["folded_from"] = record.folded ? ToJson(record.folded_from) : Json();
  json["references"] = VersionsJson(record.references);
  json["library_version"] = record.library_version;
  json["metrics"] = MetricsJson(record.metrics);
  json["user_metadata"] = MetadataJson(record.user_metadata);
  return json;
}

// The name is the manager's.
std::string SavedReason(const StepRecord& record) {
  const auto why = record.user_metadata.find("ckptdb.saved_because");
  return why == record.user_metadata.end() ? "" : why->second;
}

Json ReasonJson(const std::string& reason) {
  return reason.empty() ? Json() : Json(reason);
}

// JSON has no NaN or infinity, so these become strings.
Json NumberJson(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return "nan";
  return number > 0 ? "inf" : "-inf";
}

// Paths may contain any bytes, but JSON must be UTF-8: other bytes are
// replaced.
void PrintJson(const Json& document, std::ostream* out) {
  *out << PrintableJson(
              document.dump(2, ' ', false, Json::error_handler_t::replace))
       << '\n';
}

std::string LineOfJson(const Json& document) {
  return PrintableJson(
      document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace ckptdb::tool
