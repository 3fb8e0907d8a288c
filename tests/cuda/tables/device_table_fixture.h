// SPDX-License-Identifier: Apache-2.0
// A table in device memory, with the stand-in, and a consumer of its changes.
#ifndef CKPTDB_TESTS_CUDA_TABLES_DEVICE_TABLE_FIXTURE_H_
#define CKPTDB_TESTS_CUDA_TABLES_DEVICE_TABLE_FIXTURE_H_

#include <cstdint>
#include <memory>

#include "cuda/device_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda/tables/device_trainer.h"
#include "tests/support/seed.h"

namespace ckptdb::testing {

// Chunks of 1 MiB, so that small tables have several.
inline CudaDevice::Options SmallRing(uint64_t staging_bytes = 64 << 20) {
  CudaDevice::Options options;
  options.staging_bytes = staging_bytes;
  options.chunk_bytes = 1 << 20;
  options.ring_slots = 2;
  options.required = true;
  return options;
}

class DeviceTableTest : public ::testing::TestWithParam<CudaStandin::Order> {
 protected:
  void SetUp() override { Open(SmallRing()); }
  void TearDown() override {
    trainer_.reset();
    device_.reset();
    EXPECT_THAT(CudaStandin::violations(), ::testing::IsEmpty());
    EXPECT_EQ(CudaStandin::allocations(), 0);
  }

  void Open(const CudaDevice::Options& options) {
    trainer_.reset();
    device_.reset();
    CudaStandin::Reset({.order = GetParam(), .seed = TestSeed()});
    auto device = CudaDevice::Open(options);
    ASSERT_OK(device);
    device_ = *std::move(device);
  }
  void Make(const DeviceTrainerOptions& options = {}) {
    trainer_ = std::make_unique<DeviceTrainer>(device_.get(), options);
    table_ = trainer_->table();
    ASSERT_NE(table_, nullptr);
    auto consumer = table_->tracker()->AddConsumer("test");
    ASSERT_OK(consumer);
    consumer_ = *consumer;
    // A consumer's first set is incomplete.
    ASSERT_OK(table_->tracker()->Take(consumer_));
  }
  absl::StatusOr<ChangeTracker::Changes> Take() {
    return table_->tracker()->Take(consumer_);
  }

  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<DeviceTrainer> trainer_;
  DeviceTable* table_ = nullptr;
  ChangeTracker::Consumer consumer_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_CUDA_TABLES_DEVICE_TABLE_FIXTURE_H_
