// SPDX-License-Identifier: Apache-2.0
// The owner's handle of a store, and staging, as Python objects: what saves
// without a manager need.
#ifndef CKPTDB_PYTHON_BINDING_STORE_H_
#define CKPTDB_PYTHON_BINDING_STORE_H_

#include <nanobind/nanobind.h>

namespace ckptdb::python {

void BindStore(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_STORE_H_
