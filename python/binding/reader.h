// SPDX-License-Identifier: Apache-2.0
// Readers of a store as Python objects.
#ifndef CKPTDB_PYTHON_BINDING_READER_H_
#define CKPTDB_PYTHON_BINDING_READER_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "db/options.h"
#include "db/reader.h"

namespace ckptdb::python {

// Sets the fields that a dictionary names. Throws for an unknown one.
StoreOptions StoreOptionsOf(const nanobind::dict& fields);

// A step that a manager has open, for the time of a call.
nanobind::object BorrowStep(const StepReader* step);

void BindReader(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_READER_H_
