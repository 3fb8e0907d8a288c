// SPDX-License-Identifier: Apache-2.0
// Converts records to JSON with the field names of docs/json.md. Names are
// stable: fields may be added, but none is removed or changes its meaning.
#ifndef CKPTDB_TOOLS_JSON_H_
#define CKPTDB_TOOLS_JSON_H_

#include <ostream>
#include <string>

#include "absl/strings/string_view.h"
#include "db/reader.h"
#include "nlohmann/json.hpp"
#include "schema/types.h"
#include "tools/step_totals.h"

namespace ckptdb::tool {

// An object that keeps its fields in insertion order.
using Json = nlohmann::ordered_json;

Json ToJson(const Version& version);
Json ToJson(const Totals& totals);
Json ToJson(const Item& item, const Version& version);
// Sets a table's "sharding" and "sharding_name", which is null if unnamed.
void SetSharding(Item::Sharding kind, const std::string& name, Json* json);
// Returns an object whose values are strings if they are not finite.
Json MetricsJson(const Metrics& metrics);
// Adds the posts for a step that are not applied yet.
void SetPosted(const Reader::Posted& posted, Json* json);
Json MetadataJson(const UserMetadata& metadata);
// Returns the fields that every list of steps contains.
Json SummaryJson(const StepRecord& record);
// Returns all fields of a step record except its rank digests.
Json ToJson(const StepRecord& record);

// Returns why a manager saved the step; empty if none recorded it.
std::string SavedReason(const StepRecord& record);

// Returns null for an empty reason, otherwise the text.
Json ReasonJson(const std::string& reason);

// Returns a number, or "nan", "inf" or "-inf", which JSON numbers cannot
// express.
Json NumberJson(double number);

// Prints one document and a newline. Bytes that are not UTF-8 become U+FFFD.
void PrintJson(const Json& document, std::ostream* out);

// Returns the same document on one line, without a newline.
std::string LineOfJson(const Json& document);

inline std::string Str(absl::string_view text) { return std::string(text); }

}  // namespace ckptdb::tool

#endif  // CKPTDB_TOOLS_JSON_H_
