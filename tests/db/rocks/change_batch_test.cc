// SPDX-License-Identifier: Apache-2.0
// A batch of changes when memory runs out.
#include "db/rocks/change_batch.h"

#include <new>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/no_memory.h"

namespace ckptdb::testing {
namespace {

// The default family.
constexpr rocksdb::ColumnFamilyHandle* kFamily = nullptr;

// Calls a function without memory. Returns whether it has thrown
// std::bad_alloc.
template <typename Function>
bool ThrowsWithoutMemory(const Function& function) {
  const NoMemory none(0);
  try {
    function();
    return false;
  } catch (const std::bad_alloc&) {
    return true;
  }
}

TEST(ChangeBatch, IsUnchanged_WhenAnEntryDoesNotFitInMemory) {
  if (!NoMemory::kWorks) GTEST_SKIP() << "the sanitizer replaces operator new";
  const std::string large(size_t{64} << 10, 'x');
  internal::ChangeBatch batch;
  ASSERT_TRUE(batch.Put(kFamily, "key", "value").ok());
  const std::string before = batch.rocks()->Data();
  EXPECT_TRUE(ThrowsWithoutMemory(
      [&] { batch.Put(kFamily, "large", large).PermitUncheckedError(); }));
  EXPECT_TRUE(ThrowsWithoutMemory(
      [&] { batch.Delete(kFamily, large).PermitUncheckedError(); }));
  EXPECT_TRUE(ThrowsWithoutMemory(
      [&] { batch.DeleteRange(kFamily, "a", large).PermitUncheckedError(); }));
  EXPECT_EQ(batch.rocks()->Data(), before);
  EXPECT_EQ(batch.count(), 1U);
  ASSERT_TRUE(batch.Put(kFamily, "large", large).ok());
  EXPECT_EQ(batch.count(), 2U);
}

TEST(ChangeBatch, TakesEntriesThatFitWithoutMemory) {
  if (!NoMemory::kWorks) GTEST_SKIP() << "the sanitizer replaces operator new";
  internal::ChangeBatch batch(1000);
  EXPECT_FALSE(ThrowsWithoutMemory([&] {
    batch.Put(kFamily, "key", "value").PermitUncheckedError();
    batch.Delete(kFamily, "other").PermitUncheckedError();
  }));
  EXPECT_EQ(batch.count(), 2U);
}

}  // namespace
}  // namespace ckptdb::testing
