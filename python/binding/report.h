// SPDX-License-Identifier: Apache-2.0
// The page about a store.
#ifndef CKPTDB_PYTHON_BINDING_REPORT_H_
#define CKPTDB_PYTHON_BINDING_REPORT_H_

#include <nanobind/nanobind.h>

namespace ckptdb::python {

void BindReport(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_REPORT_H_
