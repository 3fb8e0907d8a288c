// Converts records to JSON with the field names of docs/json.md. Names are
// stable: a field may be added, and none is removed or changes its meaning.
#ifndef CKPTDB_TOOLS_JSON_H_
#define CKPTDB_TOOLS_JSON_H_

#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "ckptdb/db/reader.h"
#include "ckptdb/schema/types.h"
#include "ckptdb/tools/step_totals.h"
#include "nlohmann/json.hpp"

namespace ckptdb::tool {

// An object whose fields stay in the order in which they are set.
using Json = nlohmann::ordered_json;

Json ToJson(const Version& version);
Json ToJson(const Totals& totals);
Json ToJson(const Item& item, const Version& version);
// Sets "sharding" and "sharding_name" of a table, which is null without a name.
void SetSharding(Item::Sharding kind, const std::string& name, Json* json);
// Returns an object of strings.
Json MetricsJson(const Metrics& metrics);
// Adds what is posted for a step and is not taken in yet.
void SetPosted(const Reader::Posted& posted, Json* json);
Json MetadataJson(const UserMetadata& metadata);
// Returns what every list of steps tells of each.
Json SummaryJson(const StepRecord& record);
// Returns all of a step record but its rank digests.
Json ToJson(const StepRecord& record);

// Returns null for an empty reason, and else the text.
Json ReasonJson(const std::string& reason);

// Returns a number, or "nan", "inf" or "-inf", which JSON has no numbers for.
Json NumberJson(double number);

// Prints one document and a newline. Bytes that are not UTF-8 become U+FFFD.
void PrintJson(const Json& document, std::ostream* out);

inline std::string Str(absl::string_view text) { return std::string(text); }

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_JSON_H_
