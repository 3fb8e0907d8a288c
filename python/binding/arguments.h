// SPDX-License-Identifier: Apache-2.0
// A manager's arguments in Python as those of the library.
#ifndef CKPTDB_PYTHON_BINDING_ARGUMENTS_H_
#define CKPTDB_PYTHON_BINDING_ARGUMENTS_H_

#include <nanobind/nanobind.h>

#include "manager/manager_options.h"

namespace ckptdb::python {

// Sets the options that are not in the configuration: policies, callbacks,
// functions of the evolve policy, "sharding", "shard", "store" and
// "read_threads".
void SetObjects(const nanobind::dict& objects, ManagerOptions* options);

// A request with the fields step, best, best_by, path, merge, verify,
// fall_back, and evolve in the form of the configuration, followed by
// evolve_functions.
RestoreRequest RequestOf(const nanobind::dict& fields);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_ARGUMENTS_H_
