// SPDX-License-Identifier: Apache-2.0
// The policies of manager/policies.h as Python values.
#ifndef CKPTDB_PYTHON_BINDING_POLICIES_H_
#define CKPTDB_PYTHON_BINDING_POLICIES_H_

#include <nanobind/nanobind.h>

namespace ckptdb::python {

void BindPolicies(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_POLICIES_H_
