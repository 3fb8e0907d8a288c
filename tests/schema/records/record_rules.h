// SPDX-License-Identifier: Apache-2.0
// The rules of a kind of record, as changes of a sample: a valid change is
// encoded and decodes to the same record; an invalid one is rejected by the
// encoder, and by the decoder with an error that names the field. Exactly the
// records that can be encoded can be decoded, also after random mixtures of
// changes.
#ifndef CKPTDB_TESTS_SCHEMA_RECORDS_RECORD_RULES_H_
#define CKPTDB_TESTS_SCHEMA_RECORDS_RECORD_RULES_H_

#include <random>

#include "schema/bytes/limits.h"
#include "schema/records/record_checks.h"
#include "schema/types.h"
#include "tests/schema/samples.h"
#include "tests/support/seed.h"
#include "tests/support/test.h"

namespace ckptdb::testing {

inline Metrics SomeMetrics(uint64_t count) {
  Metrics metrics;
  for (uint64_t i = 0; i < count; ++i) metrics["m" + std::to_string(i)] = 1;
  return metrics;
}

template <typename Record>
class RecordRules {
 public:
  using Change = std::function<void(Record*)>;
  using Number = std::function<void(Record*, uint64_t)>;
  using Text = std::function<void(Record*, std::string)>;

  RecordRules(std::string kind,
              absl::StatusOr<std::string> (*encode)(const Record&),
              absl::StatusOr<Record> (*decode)(absl::string_view),
              std::vector<Record> samples)
      : kind_(std::move(kind)),
        encode_(encode),
        decode_(decode),
        samples_(std::move(samples)) {}

  void Good(Change change, int line = __builtin_LINE()) {
    rules_.push_back({true, "", "", std::move(change), line});
  }
  // `words` are part of the decoder's error, after the kind of the record and
  // `place`; without words, the decoder may return another record instead.
  void Bad(std::string words, Change change, int line = __builtin_LINE()) {
    BadAt("", std::move(words), std::move(change), line);
  }
  void BadAt(const std::string& place, std::string words, Change change,
             int line = __builtin_LINE()) {
    rules_.push_back({false, kind_ + ": " + place, std::move(words),
                      std::move(change), line});
  }
  // Numbers below, at and above a limit.
  void Around(uint64_t limit, const std::string& words, const Number& set,
              int line = __builtin_LINE()) {
    for (const uint64_t number : {limit - 1, limit}) {
      Good([set, number](Record* r) { set(r, number); }, line);
    }
    Bad(
        words, [set, limit](Record* r) { set(r, limit + 1); }, line);
  }
  // Names, which errors call `what`.
  void Names(const std::string& what, const Text& set,
             int line = __builtin_LINE()) {
    Around(
        kMaxNameBytes, "has 513 bytes; the limit is 512",
        [set](Record* r, uint64_t bytes) { set(r, std::string(bytes, 'n')); },
        line);
    Good([set](Record* r) { set(r, "\xc3\xa9"); }, line);
    const std::pair<std::string, std::string> bad[] = {
        {"", " \"\" is empty"},
        {"\xff", " \"\\xff\" is not UTF-8 at byte 0"},
        {std::string("a\0", 2), " \"a\\x00\" has a NUL at byte 1"}};
    for (const auto& [name, words] : bad) {
      Bad(
          what + words, [set, text = name](Record* r) { set(r, text); }, line);
    }
  }
  void Uuids(std::string Record::*uuid) {
    const std::string expected =
        "; expected 1 to 64 letters, digits and hyphens";
    Around(kMaxUuidBytes, "of 65 bytes is invalid" + expected,
           [uuid](Record* r, uint64_t n) { r->*uuid = std::string(n, 'a'); });
    Bad("uuid \"\" of 0 bytes is invalid",
        [uuid](Record* r) { (r->*uuid) = ""; });
    Bad("uuid \"a/b\" of 3 bytes is invalid" + expected,
        [uuid](Record* r) { r->*uuid = "a/b"; });
  }
  void Paths(const std::string& what, const Text& set) {
    Good([set](Record* r) { set(r, "staging/9/1/0.sst"); });
    Good([set](Record* r) { set(r, "a..b/..c/d.."); });
    const std::pair<std::string, std::string> bad[] = {
        {"", what + " \"\" is empty"},
        {"/etc/x", what + " \"/etc/x\" is absolute"},
        {"..", what + " \"..\" contains \"..\""},
        {"a/../../b", what + " \"a/../../b\" contains \"..\""},
        {std::string("a\0b", 3), "contains a NUL byte"}};
    for (const auto& [path, words] : bad) {
      Bad(words, [set, text = path](Record* r) { set(r, text); });
    }
  }
  void Versions() {
    Bad("version has negative step -1",
        [](Record* r) { r->version.step = -1; });
    Bad("version has attempt 0", [](Record* r) { r->version.attempt = 0; });
  }
  void Worlds() {
    Around(kMaxWorldSize,
           "world size 65537 is out of range; expected 1 to 65536",
           [](Record* r, uint64_t size) {
             r->world_size = static_cast<uint32_t>(size);
           });
    Bad("world size 0 is out of range; expected 1 to 65536",
        [](Record* r) { r->world_size = 0; });
    Bad("rank 2 is out of range for world size 2",
        [](Record* r) { r->rank = r->world_size; });
  }
  // Two entries whose names and values have that many bytes together.
  void Metadata() {
    Around(kMaxMetadataBytes,
           "user metadata exceeds the limit of 1048576 bytes",
           [](Record* r, uint64_t bytes) {
             r->user_metadata = {
                 {"abcd", std::string(bytes / 2 - 4, 'x')},
                 {"efgh", std::string(bytes - bytes / 2 - 4, 'y')}};
           });
    Names("name of user metadata", [](Record* r, std::string name) {
      r->user_metadata = {{std::move(name), "x"}};
    });
  }

  void Check() const {
    for (const Record& sample : samples_) EXPECT_TRUE(IsEncoded(sample));
    for (const Rule& rule : rules_) {
      SCOPED_TRACE(absl::StrCat("the rule in line ", rule.line));
      Record record = samples_[0];
      rule.change(&record);
      EXPECT_EQ(IsEncoded(record), rule.good);
      if (rule.words.empty()) continue;
      EXPECT_THAT(decode_(internal::EncodeUnchecked(record)),
                  DataLoss(StartsWith(rule.place), rule.words));
    }
    CheckMixtures();
  }

 private:
  struct Rule {
    bool good;
    std::string place;
    std::string words;
    Change change;
    int line;
  };

  // Returns whether the record is encoded, which it must be if and only if its
  // bytes decode to the same record.
  bool IsEncoded(const Record& record) const {
    const absl::StatusOr<std::string> encoded = encode_(record);
    const std::string bytes = internal::EncodeUnchecked(record);
    const absl::StatusOr<Record> decoded = decode_(bytes);
    EXPECT_EQ(encoded.ok(), decoded.ok() && *decoded == record)
        << encoded.status() << " but " << decoded.status();
    if (encoded.ok()) {
      EXPECT_EQ(*encoded, bytes);
    } else {
      EXPECT_THAT(encoded, InvalidArgument());
    }
    return encoded.ok();
  }
  void CheckMixtures() const {
    constexpr int kMixtures = 100;
    std::mt19937_64 random(TestSeed());
    for (int i = 0; i < kMixtures && !::testing::Test::HasFailure(); ++i) {
      Record record = samples_[random() % samples_.size()];
      std::string lines;
      for (uint64_t n = random() % 4; n > 0; --n) {
        const Rule& rule = rules_[random() % rules_.size()];
        rule.change(&record);
        absl::StrAppend(&lines, rule.line, " ");
      }
      SCOPED_TRACE("the rules in lines " + lines);
      IsEncoded(record);
    }
  }

  const std::string kind_;
  absl::StatusOr<std::string> (*const encode_)(const Record&);
  absl::StatusOr<Record> (*const decode_)(absl::string_view);
  const std::vector<Record> samples_;
  std::vector<Rule> rules_;
};

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_SCHEMA_RECORDS_RECORD_RULES_H_
