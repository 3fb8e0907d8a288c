// SPDX-License-Identifier: Apache-2.0
// Objects of Python as object stores.
#ifndef CKPTDB_PYTHON_BINDING_OBJECT_STORES_H_
#define CKPTDB_PYTHON_BINDING_OBJECT_STORES_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "remote/object_store.h"

namespace ckptdb::python {

// Opens a target: a URL, or an Adapter of ckptdb/_object_stores.py. The store
// takes the GIL for each call of the adapter, on any thread, and returns what
// it raises as a status. Call this with the GIL.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenTarget(
    const nanobind::object& target, const RemoteOptions& options);

// Opens a URL of OpenObjectStore, or one that url_of in
// ckptdb/_object_stores.py returned for an Adapter. With or without the GIL.
absl::StatusOr<std::unique_ptr<ObjectStore>> OpenUrlTarget(
    absl::string_view url, const RemoteOptions& options);

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_OBJECT_STORES_H_
