// SPDX-License-Identifier: Apache-2.0
// The types of values in a step's user metadata; internal to manager/.
//
// A blob has no type, so a step records those of its values under kValueTypes:
// one line for each, "int64 epoch". Steps of older versions lack it.
#ifndef CKPTDB_MANAGER_STATE_VALUE_TYPES_H_
#define CKPTDB_MANAGER_STATE_VALUE_TYPES_H_

#include <map>
#include <string>

#include "manager/model_state.h"
#include "schema/types.h"

namespace ckptdb::internal {

inline constexpr char kValueTypes[] = "ckptdb.value_types";

// Types by the names of values.
using ValueTypes = std::map<std::string, std::string>;

// Returns the metadata of the registered values; empty without any.
std::string EncodeValueTypes(const ModelState& model);
// Returns the types that a step records. Other lines are ignored.
ValueTypes ValueTypesOf(const StepRecord& record);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_VALUE_TYPES_H_
