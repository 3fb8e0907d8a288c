// SPDX-License-Identifier: Apache-2.0
// Captures and fetches tensors as a manager does, for tests.
#ifndef CKPTDB_TESTS_CUDA_DEVICE_SAVE_H_
#define CKPTDB_TESTS_CUDA_DEVICE_SAVE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "manager/internal/tensor_device.h"
#include "manager/model_state.h"
#include "tests/cuda/device_fixture.h"

namespace ckptdb::testing {

// The memory of a save, pinned or not, and the bytes expected in it.
class DeviceSave {
 public:
  DeviceSave(DeviceFixture* fixture, bool pinned)
      : fixture_(fixture), pinned_(pinned) {}
  ~DeviceSave() { Unpin(); }
  DeviceSave(const DeviceSave&) = delete;
  DeviceSave& operator=(const DeviceSave&) = delete;

  void Add(const OnDevice& tensor, std::string name = "") {
    tensors_.push_back(tensor);
    states_.push_back(std::make_unique<TensorState>(fixture_->StateOf(tensor)));
    names_.push_back(std::make_unique<std::string>(
        name.empty() ? absl::StrCat("t", names_.size()) : std::move(name)));
    items_.push_back(
        {*names_.back(), states_.back().get(), tensor.bytes(), bytes_});
    bytes_ += (tensor.bytes() + 63) / 64 * 64;
  }
  TensorState& state(size_t tensor) { return *states_[tensor]; }

  absl::Status SetAside() {
    memory_.assign(bytes_ + 64, '\x77');
    if (pinned_) {
      EXPECT_OK(fixture_->device()->Pin(memory_.data(), memory_.size()));
    }
    auto capture = fixture_->device()->SetAside(items_, memory_.data());
    if (!capture.ok()) return capture.status();
    capture_ = *std::move(capture);
    return absl::OkStatus();
  }
  absl::Status Fetch() {
    // As the save thread does.
    absl::Status status;
    std::thread([&] { status = capture_->Fetch(); }).join();
    return status;
  }
  void Drop() { capture_.reset(); }
  void Unpin() {
    Drop();
    if (pinned_ && !memory_.empty()) fixture_->device()->Unpin(memory_.data());
    memory_.clear();
  }

  std::string Saved(size_t tensor) const {
    return memory_.substr(items_[tensor].at, items_[tensor].bytes);
  }
  bool AllAfter(int step) const {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (Saved(t) != BytesAfter(step, items_[t].bytes)) return false;
    }
    return true;
  }
  void ExpectAllAfter(int step) const {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      EXPECT_TRUE(Saved(t) == BytesAfter(step, items_[t].bytes))
          << *names_[t] << " of " << items_[t].bytes << " bytes";
    }
  }

 private:
  DeviceFixture* const fixture_;
  const bool pinned_;
  std::vector<OnDevice> tensors_;
  std::vector<std::unique_ptr<TensorState>> states_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<TensorState::Device::Item> items_;
  uint64_t bytes_ = 0;
  std::string memory_;
  std::unique_ptr<TensorState::Device::Capture> capture_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_DEVICE_SAVE_H_
