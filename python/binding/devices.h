// SPDX-License-Identifier: Apache-2.0
// GPUs whose tensors are saved and restored in place.
#ifndef CKPTDB_PYTHON_BINDING_DEVICES_H_
#define CKPTDB_PYTHON_BINDING_DEVICES_H_

#include <nanobind/nanobind.h>

#include "manager/model_state.h"
#include "python/binding/address.h"

namespace ckptdb::python {

// A device that `open_device` returned; null for 0, host memory.
inline TensorState::Device* DeviceAt(Address address) {
  return At<TensorState::Device>(address);
}

void BindDevices(nanobind::module_& module);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_DEVICES_H_
