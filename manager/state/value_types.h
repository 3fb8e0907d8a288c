// SPDX-License-Identifier: Apache-2.0
// The types of values in a step's user metadata; internal to manager/.
//
// Values are stored as untyped blobs, so a step records their types under
// kValueTypes: one line for each value, such as "int64 epoch". Steps saved by
// older versions lack this metadata.
#ifndef CKPTDB_MANAGER_STATE_VALUE_TYPES_H_
#define CKPTDB_MANAGER_STATE_VALUE_TYPES_H_

#include <map>
#include <string>

#include "manager/model_state.h"
#include "schema/types.h"

namespace ckptdb::internal {

inline constexpr char kValueTypes[] = "ckptdb.value_types";

// Types by value name.
using ValueTypes = std::map<std::string, std::string>;

// Returns the metadata of the registered values; empty without any.
std::string EncodeValueTypes(const ModelState& model);
// Returns the types that a step records. Other lines are ignored.
ValueTypes ValueTypesOf(const StepRecord& record);

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_STATE_VALUE_TYPES_H_
