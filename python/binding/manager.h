// SPDX-License-Identifier: Apache-2.0
// The checkpoint manager as a Python object, which ckptdb/_manager.py wraps.
#ifndef CKPTDB_PYTHON_BINDING_MANAGER_H_
#define CKPTDB_PYTHON_BINDING_MANAGER_H_

#include <nanobind/nanobind.h>

namespace ckptdb::python {

void BindManager(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_MANAGER_H_
