// SPDX-License-Identifier: Apache-2.0
// Short names of the types in LoadSummary; internal to manager/.
#ifndef CKPTDB_MANAGER_LOAD_LOADED_ITEMS_H_
#define CKPTDB_MANAGER_LOAD_LOADED_ITEMS_H_

#include "manager/results.h"

namespace ckptdb::internal {

using SlotChange = LoadSummary::SlotChange;
using LoadedItem = LoadSummary::LoadedItem;
using LoadedRule = LoadSummary::LoadedRule;

}  // namespace ckptdb::internal

#endif  // CKPTDB_MANAGER_LOAD_LOADED_ITEMS_H_
