// SPDX-License-Identifier: Apache-2.0
// State that Python code turns into bytes and back.
#ifndef CKPTDB_PYTHON_BINDING_IO_STATE_H_
#define CKPTDB_PYTHON_BINDING_IO_STATE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "manager/model_state.h"
#include "python/binding/errors.h"

namespace ckptdb::python {

// State of which each rank saves its own, by functions of the trainer.
class IoState : public BlobState {
 public:
  IoState(std::string name, nb::object dump, nb::object load)
      : name_(std::move(name)),
        dump_(Hold(std::move(dump))),
        load_(Hold(std::move(load))) {}
  absl::StatusOr<std::string> Dump() override {
    std::string bytes;
    const absl::Status status = WithPython(name_ + ".io_state", [&] {
      const auto dumped = nb::cast<nb::bytes>((*dump_)());
      bytes.assign(dumped.c_str(), dumped.size());
    });
    if (!status.ok()) return status;
    return bytes;
  }
  absl::Status Load(absl::string_view bytes) override {
    return WithPython(name_ + ".load_io_state",
                      [&] { (*load_)(nb::bytes(bytes.data(), bytes.size())); });
  }

 private:
  const std::string name_;
  const PyRef dump_;
  const PyRef load_;
};

}  // namespace ckptdb::python

#endif  // CKPTDB_PYTHON_BINDING_IO_STATE_H_
