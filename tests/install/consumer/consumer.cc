// SPDX-License-Identifier: Apache-2.0
// Uses the installed package like a program outside the tree.
#include <ckptdb/ckptdb.h>
#ifdef CONSUMER_HAS_CUDA
#include <ckptdb/cuda/cuda_device.h>
#endif

#include <iostream>
#include <string>
#include <vector>

namespace {

absl::Status SaveAndRestore(const std::string& path) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  ckptdb::RankState state;
  state.AddTensor("w", ckptdb::TensorView::Of(weights.data(), {2, 3}));
  CKPTDB_ASSIGN_OR_RETURN(auto store, ckptdb::Store::Open(path));
  CKPTDB_RETURN_IF_ERROR(
      store->Save({.step = 7, .overwrite = true}, state).status());
  CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(7));
  std::vector<float> restored(weights.size());
  CKPTDB_RETURN_IF_ERROR(
      step->ReadTensor("w", restored.data(), restored.size() * sizeof(float)));
  if (restored == weights) return absl::OkStatus();
  return absl::DataLossError("tensor \"w\" came back changed");
}

#ifdef CONSUMER_HAS_CUDA
// Without a driver, the device works in host memory.
absl::Status OpenDevice() {
  CKPTDB_ASSIGN_OR_RETURN(const auto device, ckptdb::CudaDevice::Open());
  std::cout << "device: " << device->name() << "\n";
  return absl::OkStatus();
}
#else
absl::Status OpenDevice() { return absl::OkStatus(); }
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: consumer STORE\n";
    return 1;
  }
  std::cout << "ckptdb " << ckptdb::LibraryVersion() << "\n";
  absl::Status status = SaveAndRestore(argv[1]);
  if (status.ok()) status = OpenDevice();
  if (!status.ok()) std::cerr << "consumer: " << status << "\n";
  return status.ok() ? 0 : 1;
}
