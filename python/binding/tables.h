// SPDX-License-Identifier: Apache-2.0
// Tables of a model as Python objects: rows kept here, or in the trainer's
// arrays.
#ifndef CKPTDB_PYTHON_BINDING_TABLES_H_
#define CKPTDB_PYTHON_BINDING_TABLES_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <vector>

#include "db/state.h"
#include "manager/model_state.h"
#include "manager/tables.h"

namespace ckptdb::python {

// A table that a manager can register. Calls that change its rows hold `mutex`;
// those that read or write values of existing rows share it, as do saves.
class TableHandle {
 public:
  virtual ~TableHandle() = default;
  virtual TableState* state() = 0;
  std::shared_timed_mutex& mutex() { return mutex_; }

 private:
  std::shared_timed_mutex mutex_;
};

// The sharding of a table: None, "slices", "modulo", "replicated", an integer
// or a list of integers for ranges of ids, or a tuple (name, f) where f(ids,
// world_size) takes and returns bytes, 64-bit ids and 32-bit ranks.
TableSharding ShardingOf(const nanobind::object& sharding);

void BindTables(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_TABLES_H_
