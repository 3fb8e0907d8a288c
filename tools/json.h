// Records as JSON, with the field names of docs/json.md. Names are stable: a
// field may come, none goes or changes its meaning.
#ifndef CKPTDB_TOOLS_JSON_H_
#define CKPTDB_TOOLS_JSON_H_

#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "ckptdb/schema/records.h"
#include "ckptdb/tools/step_totals.h"
#include "nlohmann/json.hpp"

namespace ckptdb::tool {

// Fields stay in the order in which they are set.
using Json = nlohmann::ordered_json;

Json ToJson(const Version& version);
Json ToJson(const Totals& totals);
Json ToJson(const Item& item, const Version& version);
// A table's "sharding" and "sharding_name", null where it has none.
void SetSharding(ShardingKind kind, const std::string& name, Json* json);
// An object of strings.
Json MetadataJson(const UserMetadata& metadata);
// All of a step record but its rank digests.
Json ToJson(const StepRecord& record);

// Null for an empty text, which stands for "there is no reason".
Json ReasonJson(const std::string& reason);

// A number, or "nan", "inf", "-inf": JSON has no such numbers.
Json NumberJson(double number);

// One document and a newline. Bytes that are not UTF-8 become U+FFFD.
void PrintJson(const Json& document, std::ostream* out);

inline std::string Str(absl::string_view text) { return std::string(text); }

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_JSON_H_
