// SPDX-License-Identifier: Apache-2.0
// The objects of a remote: what is encoded decodes, and each rule is checked.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "schema/bytes/limits.h"
#include "schema/records/envelope.h"
#include "schema/records/remote.h"
#include "tests/schema/samples.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

using internal::DecodeRemoteCatalog;
using internal::DecodeRemoteFormat;
using internal::DecodeRemoteVersion;
using internal::EncodeRemoteCatalog;
using internal::EncodeRemoteFormat;
using internal::EncodeRemoteVersion;
using internal::RemoteCatalog;
using internal::RemoteEntry;
using internal::RemoteFormat;
using internal::RemoteVersion;

TEST(RemoteRecords, DecodeToWhatWasEncoded) {
  const RemoteFormat format = SampleRemoteFormat();
  ASSERT_OK_AND_ASSIGN(std::string bytes, EncodeRemoteFormat(format));
  ASSERT_OK_AND_ASSIGN(const RemoteFormat format_again,
                       DecodeRemoteFormat(bytes));
  EXPECT_EQ(format_again, format);
  ASSERT_OK_AND_ASSIGN(bytes, EncodeRemoteVersion(SampleRemoteVersion()));
  ASSERT_OK_AND_ASSIGN(const RemoteVersion version, DecodeRemoteVersion(bytes));
  EXPECT_EQ(version, SampleRemoteVersion());
  ASSERT_OK_AND_ASSIGN(bytes, EncodeRemoteCatalog(SampleRemoteCatalog()));
  ASSERT_OK_AND_ASSIGN(const RemoteCatalog catalog, DecodeRemoteCatalog(bytes));
  EXPECT_EQ(catalog, SampleRemoteCatalog());
}

TEST(RemoteRecords, EachFlippedBitIsFound) {
  ASSERT_OK_AND_ASSIGN(const std::string bytes,
                       EncodeRemoteCatalog(SampleRemoteCatalog()));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_THAT(DecodeRemoteCatalog(damaged), DataLoss("remote catalog: "))
        << i;
    EXPECT_THAT(DecodeRemoteCatalog(bytes.substr(0, i)), DataLoss()) << i;
  }
}

TEST(RemoteRecords, NewerFormatsAndOtherKindsAreRefused) {
  const std::string newer = internal::Seal(internal::RecordKind::kRemoteCatalog,
                                           "body", kFormatVersion + 1);
  EXPECT_THAT(DecodeRemoteCatalog(newer),
              FailedPrecondition("remote catalog", "newer"));
  ASSERT_OK_AND_ASSIGN(const std::string version,
                       EncodeRemoteVersion(SampleRemoteVersion()));
  EXPECT_THAT(DecodeRemoteCatalog(version), DataLoss("kind"));
}

struct CatalogRule {
  std::string field;
  std::function<void(RemoteCatalog*)> breaks;
};

TEST(RemoteRecords, EachRuleOfACatalogIsChecked) {
  const std::vector<CatalogRule> rules = {
      {"number", [](auto* c) { c->number = 0; }},
      {"epoch", [](auto* c) { c->epoch = 0; }},
      {"uuid", [](auto* c) { c->owner = "a/b"; }},
      {"uuid", [](auto* c) { c->token = ""; }},
      {"uuid", [](auto* c) { c->root.uuid = ""; }},
      {"version", [](auto* c) { c->entries[0].version.attempt = 0; }},
      {"state", [](auto* c) { c->entries[0].state.step = -1; }},
      {"epoch", [](auto* c) { c->entries[0].epoch = 0; }},
      {"use",
       [](auto* c) { c->entries[0].use = static_cast<RemoteEntry::Use>(3); }},
      {"kind",
       [](auto* c) { c->entries[0].kind = static_cast<StepRecord::Kind>(2); }},
      {"needs", [](auto* c) { c->entries[2].needs[0].attempt = 0; }},
      {"entries", [](auto* c) { c->entries[1] = c->entries[0]; }},
      {"entries", [](auto* c) { std::swap(c->entries[1], c->entries[2]); }},
      {"forgotten", [](auto* c) { c->forgotten[0].attempt = 0; }}};
  for (const CatalogRule& rule : rules) {
    RemoteCatalog catalog = SampleRemoteCatalog();
    rule.breaks(&catalog);
    EXPECT_THAT(EncodeRemoteCatalog(catalog), InvalidArgument(rule.field))
        << rule.field;
  }
}

TEST(RemoteRecords, EachRuleOfAVersionIsChecked) {
  RemoteVersion version = SampleRemoteVersion();
  version.step_record.clear();
  EXPECT_THAT(EncodeRemoteVersion(version), InvalidArgument("step record"));
  version = SampleRemoteVersion();
  version.rank_records.clear();
  EXPECT_THAT(EncodeRemoteVersion(version), InvalidArgument("world size"));
  version = SampleRemoteVersion();
  version.files[1].number = 0;
  EXPECT_THAT(EncodeRemoteVersion(version), InvalidArgument("number 0"));
  version = SampleRemoteVersion();
  version.files[1].last_key = "b";
  EXPECT_THAT(EncodeRemoteVersion(version), InvalidArgument("bounds"));
  version = SampleRemoteVersion();
  version.step_record.resize(kMaxTransferBytes + 1);
  EXPECT_THAT(EncodeRemoteVersion(version), InvalidArgument("size"));
}

}  // namespace
}  // namespace ckptdb::testing
