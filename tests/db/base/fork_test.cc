// SPDX-License-Identifier: Apache-2.0
// A forked child has its parent's objects and none of its threads: it is
// refused, and takes nothing from its parent.

#include <cstdio>

#include "tests/db/child.h"
#include "tests/db/store_fixture.h"
#include "tests/support/forked.h"

namespace ckptdb::testing {
namespace {

using ForkTest = StoreFixture;

// RocksDB's static objects would wait for threads that the child has not.
TEST_F(ForkTest, AChildThatCallsExitEnds) {
  ASSERT_OK(Save(1, SmallContent(1)));
  constexpr int kStatus = 7;
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    std::exit(kStatus);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), kStatus);
  EXPECT_OK(Save(2, SmallContent(2)));
}

// A child has its parent's descriptions until it has closed them.
TEST_F(ForkTest, ACloseBesideAForkLetsGoOfTheStore) {
  for (int i = 0; i < 20; ++i) {
    std::thread forks([] {
      const pid_t child = fork();
      if (child == 0) _exit(0);
      int status = 0;
      EXPECT_EQ(waitpid(child, &status, 0), child);
    });
    EXPECT_OK(store_->Close());
    EXPECT_OK(Store::Open(path()));
    forks.join();
    Reopen();
  }
}

TEST_F(ForkTest, AChildIsRefusedAndDestroysNothing) {
  ASSERT_OK(Save(1, BulkContent(1)));
  ASSERT_OK(Save(2, SmallContent(2)));
  ASSERT_OK_AND_ASSIGN(auto reader, Reader::Open(path()));
  ASSERT_OK_AND_ASSIGN(auto leased, reader->OpenStep(1));
  ASSERT_OK_AND_ASSIGN(auto own, store_->OpenStep(2));
  const Store::Attempt save = Begin({.step = 3});
  const HeldState held(SmallContent(3));
  ExpectInChild([&] {
    std::string wrong;
    const auto check = [&](const std::string& call, const absl::Status& is) {
      wrong += WhyNotRefused(call, is);
    };
    check("Begin", store_->Begin({.step = 4}).status());
    check("Publish", store_->Publish(save.version, {}).status());
    check("Abandon", store_->Abandon(save.version));
    check("Save", store_->Save({.step = 5}, held.state()).status());
    check("FindStep", store_->FindStep(1).status());
    check("Latest", store_->Latest().status());
    check("OpenStep", store_->OpenStep(1).status());
    check("Delete", store_->Delete(1));
    check("Pin", store_->Pin(1));
    check("AddMetrics", store_->AddMetrics(1, {{"loss", 1}}));
    check("SetUserMetadata", store_->SetUserMetadata({}));
    check("Fold", store_->Fold(1).status());
    check("Sweep", store_->Sweep().status());
    check("sweep_status", store_->sweep_status());
    check("GetUsage", store_->GetUsage().status());
    check("Close", store_->Close());
    check("Reader::Refresh", reader->Refresh());
    check("Reader::FindStep", reader->FindStep(1).status());
    check("Reader::Latest", reader->Latest().status());
    check("Reader::OpenStep", reader->OpenStep(1).status());
    check("Reader::GetUsage", reader->GetUsage().status());
    check("Verify", own->Verify());
    check("LookupRow", leased->LookupRow("user", 1).status());
    check("LookupRows", leased->LookupRows("user", {}, {}, {}, nullptr));
    check("ReadTensors", own->ReadTensors({}));
    check("ReadBlob", own->ReadBlob(0, "reader").status());
    check("Stage", Stage(path(), save.tickets[0], held.state()).status());
    check("Store::Open", Store::Open(path()).status());
    check("another Store::Open", Store::Open(path() + ".other").status());
    check("Reader::Open", Reader::Open(path()).status());
    if (!store_->Steps().empty()) wrong += "Steps\n";
    if (!reader->Steps().empty()) wrong += "Reader::Steps\n";
    if (store_->path() != path()) wrong += "path\n";
    own.reset();
    leased.reset();
    reader.reset();
    store_.reset();
    return wrong;
  });
  EXPECT_FALSE(std::filesystem::is_empty(path() + "/leases"));
  EXPECT_OK(leased->Verify());
  EXPECT_OK(own->Verify());
  EXPECT_OK(store_->Publish(save.version, StageAll(save, {SmallContent(3)})));
  EXPECT_THAT(Store::Open(path()), Unavailable("owner"));
  own.reset();
  Reopen();
  ExpectStep(3, {SmallContent(3)});
}

// A data loader that outlives its trainer.
TEST_F(ForkTest, AChildThatOutlivesTheOwnerDoesNotKeepTheStore) {
  ASSERT_OK(Save(1, SmallContent(1)));
  store_.reset();
  Child owner({"orphan", path()});
  ASSERT_EQ(owner.ReadLine(), "ok");
  EXPECT_THAT(Store::Open(path()), Unavailable("owner"));
  owner.Kill();
  Reopen();
  ExpectStep(1, {SmallContent(1)});
}

}  // namespace
}  // namespace ckptdb::testing
