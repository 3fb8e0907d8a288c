// SPDX-License-Identifier: Apache-2.0
// Reads JSON values that occur in both manager configurations and load
// specifications; internal to manager/.
#ifndef CKPTDB_MANAGER_CONFIG_LOAD_JSON_H_
#define CKPTDB_MANAGER_CONFIG_LOAD_JSON_H_

#include <map>
#include <optional>
#include <string>

#include "manager/config/json_reader.h"
#include "manager/load_rule.h"
#include "manager/policies.h"

namespace ckptdb::internal {

// Reads the value of `best` and `best_n`: {"metric": "auc"}.
absl::StatusOr<KeepPolicy::BestOptions> ReadBest(const std::string& place,
                                                 const Json& json);
// Reads such a value of a key, if present.
void ReadBestOf(ObjectReader* reader, const char* key,
                std::optional<KeepPolicy::BestOptions>* best);

// Reads the tables of a rule or a policy: {"user": {"oname": {"embedding":
// "weight"}, "fill": {"adagrad_sum": 0.1}}}. Functions have no JSON.
void ReadEvolutions(ObjectReader* reader, const char* key,
                    std::map<std::string, EvolvePolicy::Table>* tables);

// Reads an EvolvePolicy.
void ReadEvolve(ObjectReader* reader, const char* key,
                std::optional<EvolvePolicy>* evolve);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_CONFIG_LOAD_JSON_H_
