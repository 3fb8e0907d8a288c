// SPDX-License-Identifier: Apache-2.0
// The ranks of a training job, over functions in Python.
#ifndef CKPTDB_PYTHON_BINDING_RANKS_H_
#define CKPTDB_PYTHON_BINDING_RANKS_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

#include "manager/coordinator.h"

namespace ckptdb::python {

// Holds a coordinator until a manager takes it.
class PyCoordinator {
 public:
  explicit PyCoordinator(std::unique_ptr<Coordinator> ranks)
      : ranks_(std::move(ranks)) {}
  // Null after the first call.
  std::unique_ptr<Coordinator> Take() { return std::move(ranks_); }

 private:
  std::unique_ptr<Coordinator> ranks_;
};

void BindRanks(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_RANKS_H_
