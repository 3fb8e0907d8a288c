// SPDX-License-Identifier: Apache-2.0
// Addresses of arrays, which Python keeps alive during the call.
#ifndef CKPTDB_PYTHON_BINDING_ADDRESS_H_
#define CKPTDB_PYTHON_BINDING_ADDRESS_H_

#include <cstdint>

namespace ckptdb::python {

using Address = uintptr_t;

template <typename T>
T* At(Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_ADDRESS_H_
