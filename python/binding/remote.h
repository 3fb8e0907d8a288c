// SPDX-License-Identifier: Apache-2.0
// Steps in object stores, for ckptdb/remote.py.
#ifndef CKPTDB_PYTHON_BINDING_REMOTE_H_
#define CKPTDB_PYTHON_BINDING_REMOTE_H_

#include <nanobind/nanobind.h>

namespace ckptdb::python {

void BindRemote(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_REMOTE_H_
