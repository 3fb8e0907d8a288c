// SPDX-License-Identifier: Apache-2.0
// Compares the configuration reader with the tables of keys and policies in
// docs/manager.md: it accepts what they list, rejects what they exclude, and
// knows no other keys.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "manager/checkpoint_manager.h"
#include "manager/internal/url_shipping.h"
#include "schema/status.h"
#include "tests/support/source_folder.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"

namespace ckptdb::testing {
namespace {

using ::testing::MatchesRegex;

using Strings = std::vector<std::string>;

// A row of a table; rows of policies have no default.
struct KeyRow {
  std::string name;
  std::string type;
  std::string default_value;
  std::string bounds;
};

std::string ReadTree(const std::string& path) {
  std::ifstream file(SourcePath(path));
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the cells of a table's rows, without backquotes.
std::vector<Strings> Cells(const std::string& header) {
  const std::string text = ReadTree("docs/manager.md");
  const size_t at = text.find("\n" + header + "\n");
  EXPECT_NE(at, std::string::npos) << header;
  if (at == std::string::npos) return {};
  std::vector<Strings> rows;
  std::istringstream lines(text.substr(at + header.size() + 2));
  std::string line;
  std::getline(lines, line);  // below the header
  while (std::getline(lines, line) && absl::StartsWith(line, "|")) {
    Strings cells = absl::StrSplit(absl::StrReplaceAll(line, {{"`", ""}}), '|');
    for (std::string& cell : cells) {
      cell = std::string(absl::StripAsciiWhitespace(cell));
    }
    rows.emplace_back(cells.begin() + 1, cells.end() - 1);
  }
  return rows;
}

std::vector<KeyRow> RowsUnder(const std::string& header) {
  std::vector<KeyRow> rows;
  for (const Strings& cells : Cells(header)) {
    EXPECT_THAT(cells, SizeIs(AnyOf(3, 4)));
    rows.push_back(
        {cells[0], cells[1], cells.size() == 4 ? cells[2] : "", cells.back()});
  }
  return rows;
}

constexpr char kOptions[] = "| key | type | default | bounds |";
constexpr char kBest[] = "| key of `best_n` | type | default | bounds |";
constexpr char kShip[] = "| key of `ship` | type | default | bounds |";
constexpr char kEvolve[] = "| key of `evolve` | type | default | bounds |";
constexpr char kEvolvedTable[] = "| key of a table | type | default | bounds |";
constexpr char kSavePolicies[] = "| policy that saves | value | bounds |";
constexpr char kKeepPolicies[] = "| policy that keeps | value | bounds |";

// Values that a row allows, and others that it excludes.
struct Values {
  Strings allowed;
  Strings refused;
};

Values ValuesWithin(const std::string& bounds) {
  Values values;
  if (absl::StartsWith(bounds, "at least 1")) return {{"1", "7"}, {"0", "-1"}};
  if (absl::StartsWith(bounds, "at least 0")) values = {{"0", "7"}, {"-1"}};
  if (absl::StartsWith(bounds, "above 0")) values = {{"0.001"}, {"0", "-1"}};
  if (absl::StrContains(bounds, "at most 1e11")) {
    values.allowed.emplace_back("1e11");
    values.refused.emplace_back("1.1e11");
  }
  return values;
}

Values EnumeratorsOf(const std::string& type) {
  Values values = {absl::StrSplit(type, ", "), {"\"something\"", "1"}};
  for (const std::string& each : values.allowed) {
    EXPECT_TRUE(absl::EndsWith(each, "\"")) << type;
  }
  return values;
}

Values ValuesOf(const KeyRow& row) {
  if (absl::StartsWith(row.type, "\"")) return EnumeratorsOf(row.type);
  const std::map<std::string, Values> by_type = {
      {"boolean", {{"true", "false"}, {"1", "\"true\""}}},
      {"list of integers", {{"[]", "[0, 7]"}, {"[-1]", "[1.5]", "7"}}},
      {"object like the value of best_n", {{R"({"metric": "m"})"}, {"1"}}},
      {"list of strings", {{"[]", "[\"a\"]"}, {"[1]", "\"a\""}}},
      {"object of numbers", {{R"({"a": 0.5})"}, {R"({"a": "b"})", "1"}}},
      {"object of tables", {{R"({"a": {}})"}, {R"({"a": 1})", "1"}}},
      {"URL", {{"\"s3://a/b\"", "\"file:///a\""}, {"\"a\"", "\"/a\"", "1"}}},
      {"URL or object",
       {{"\"s3://a/b\"", R"({"to": "s3://a/b"})"}, {"\"a\"", "{}", "1"}}},
      {"policy of a restore", {{"{}", R"({"cast": true})"}, {"1"}}},
      {"object of strings", {{R"({"a": "b"})"}, {R"({"a": 1})", "\"a\""}}},
      {"policy that keeps", {{"\"keep_all\""}, {"\"save_initially\""}}},
      {"policy that saves", {{"\"save_initially\""}, {"\"keep_all\""}}},
      {"string", {{"\"a\""}, {"1", "[\"a\"]"}}}};
  const auto found = by_type.find(row.type);
  Values values =
      found != by_type.end() ? found->second : ValuesWithin(row.bounds);
  if (row.type == "integer") values.refused.emplace_back("1.5");
  if (row.bounds == "not empty") values.refused.emplace_back("\"\"");
  values.refused.emplace_back("null");
  EXPECT_FALSE(values.allowed.empty()) << row.name << ": " << row.type;
  return values;
}

// Prints all options that a configuration sets.
std::string Described(const ManagerOptions& options) {
  const auto number = [](auto enumerator) {
    return static_cast<int>(enumerator);
  };
  const auto pairs = absl::PairFormatter("=");
  return absl::StrCat(
             options.path, ";", options.read_only, options.save.enabled,
             options.schedule.permanent.has_value(),
             options.schedule.ephemeral.has_value(), ";",
             options.schedule.ephemeral_cooldown_steps, ";",
             options.retention.keep.has_value(), ";",
             options.retention.keep_ephemeral, ";",
             number(options.retention.removal), ";",
             options.restore.best.has_value() ? options.restore.best->metric
                                              : "-",
             ";", options.save.deltas, options.save.audit_deltas,
             options.save.audit_replicas, ";", options.save.base_every, ";",
             options.save.bounds.max_deltas, ";",
             options.save.bounds.max_delta_ratio, ";",
             number(options.restore.abandoned)) +
         absl::StrCat(
             ";", absl::StrJoin(options.save.user_metadata, ",", pairs), ";",
             absl::StrJoin(options.save.store_metadata, ",", pairs), ";",
             options.save.async, ";", options.save.arena_bytes, ";",
             options.save.copy_threads, ";", number(options.save.busy), ";",
             options.save.tolerated_failures, ";",
             options.save.retry_after_steps, ";",
             absl::FormatDuration(options.observers.warn_waiting), ";",
             number(options.save.first_save), ";",
             absl::FormatDuration(options.save.preemption_grace), ";",
             absl::FormatDuration(options.ranks.deadline), ";",
             absl::FormatDuration(options.ranks.notice_interval), ";",
             absl::FormatDuration(options.follow.poll_every), ";",
             absl::FormatDuration(options.follow.await_store), ";") +
         absl::StrCat(
             number(options.restore.io_state_resize.value_or(
                 static_cast<ManagerOptions::IoStateResize>(-1))),
             ";", number(options.ranks.sharding.kind()), ";",
             number(options.ranks.replicated_saver), ";",
             options.ranks.broadcast_replicated, ";",
             options.observers.statistics_path, ";",
             options.store.background_sweep, options.store.background_fold, ";",
             options.restore.evolve.has_value(), ";",
             options.restore.fetch_from, ";", options.ship.to != nullptr);
}

std::string Member(const std::string& key, const std::string& value) {
  return absl::StrCat("{\"", key, "\": ", value, "}");
}

// A configuration with this key of `ship`.
std::string Shipping(const std::string& key, const std::string& value) {
  const std::string to = key == "to" ? "" : R"("to": "s3://a/b", )";
  return Member("ship", absl::StrCat("{", to, Member(key, value).substr(1)));
}

// Prints all options that the value of `ship` sets.
std::string DescribedShipping(const std::string& json) {
  internal::UrlShipping shipping;
  internal::SetMakeShipping([&](const internal::UrlShipping& made) {
    shipping = made;
    return [](const std::string&, const auto&) {
      return absl::UnavailableError("described");
    };
  });
  ManagerOptions options;
  EXPECT_OK(ReadManagerConfig(json, &options)) << json;
  EXPECT_THAT(options.ship.to("store", {}), Unavailable("described"));
  internal::SetMakeShipping(nullptr);
  std::string described = absl::StrCat(
      shipping.url, ";", shipping.connections, ";", shipping.bytes_per_second,
      ";", shipping.take_over, ";", shipping.retention.has_value(), ";",
      options.ship.keep_unshipped);
  for (const absl::Duration duration :
       {shipping.deadline, shipping.look, shipping.first_retry,
        shipping.most_retry, shipping.grace, shipping.collect_every,
        options.ship.warn_lag, options.ship.close_wait}) {
    absl::StrAppend(&described, ";", absl::FormatDuration(duration));
  }
  return described;
}

class ConfigKeysTest : public ::testing::Test {
 protected:
  // Returns the reader's error for a configuration; it has a place.
  static absl::Status Read(const std::string& json, ManagerOptions* options) {
    absl::Status status = ReadManagerConfig(json, options);
    if (!status.ok()) {
      EXPECT_THAT(status.ToString(),
                  MatchesRegex(".* \\(line 1, column [0-9]+\\)"));
    }
    return status;
  }

  // Returns the reader's error, or else Open's error for the options.
  absl::Status Check(const std::string& json) const {
    ManagerOptions options{.path = dir_.path() + "/store"};
    CKPTDB_RETURN_IF_ERROR(Read(json, &options));
    ModelState model;
    return CheckpointManager::Open(options, &model).status();
  }

  // Reads values of every kind, most of which are wrong: their errors have a
  // place as well.
  template <typename Wrap>
  static void ReadAllKinds(const Wrap& wrap) {
    for (const char* const value :
         {"null", "true", "-1", "1.5", "\"\"", "\"x\"", "[]", "[null]", "[[]]",
          "[{}]", "{}", R"({"x": {}})", R"({"any": 1})", R"({"any": [1]})",
          R"({"not": []})", R"({"latest_n": "1"})", R"({"best_n": "1"})",
          R"({"latest_of": {"count": 1, "policy": []}})"}) {
      ManagerOptions options;
      Read(wrap(value), &options).IgnoreError();
    }
  }

  void ExpectRefused(const std::string& json) const {
    EXPECT_THAT(Check(json), InvalidArgument()) << json;
  }

  // `wrap` makes a configuration from a row's value.
  template <typename Wrap>
  void ExpectAsDocumented(const KeyRow& row, const Wrap& wrap) const {
    SCOPED_TRACE(row.name);
    const Values values = ValuesOf(row);
    for (const std::string& allowed : values.allowed) {
      ManagerOptions options;
      EXPECT_OK(ReadManagerConfig(wrap(allowed), &options));
      EXPECT_OK(options.schedule.permanent.status());
      EXPECT_OK(options.retention.keep.status());
    }
    for (const std::string& refused : values.refused) {
      ExpectRefused(wrap(refused));
    }
    ReadAllKinds(wrap);
  }

  void ExpectPolicies(const std::string& key,
                      const std::vector<KeyRow>& policies) const {
    EXPECT_FALSE(policies.empty());
    for (const KeyRow& row : policies) {
      if (absl::StartsWith(row.type, "object: ")) continue;
      if (row.type.empty()) {
        EXPECT_OK(Check(Member(key, absl::StrCat("\"", row.name, "\""))));
        ExpectRefused(Member(key, Member(row.name, "1")));
        continue;
      }
      ExpectAsDocumented(row, [&](const std::string& value) {
        return Member(key, Member(row.name, value));
      });
    }
  }

  TempDir dir_;
};

TEST_F(ConfigKeysTest, OptionsMatchTheDocument) {
  for (const KeyRow& row : RowsUnder(kOptions)) {
    ExpectAsDocumented(
        row, [&](const std::string& value) { return Member(row.name, value); });
  }
}

TEST_F(ConfigKeysTest, EachOptionChangesSomething) {
  for (const KeyRow& row : RowsUnder(kOptions)) {
    std::set<std::string> described = {Described({})};
    for (const std::string& value : ValuesOf(row).allowed) {
      ManagerOptions options;
      ASSERT_OK(ReadManagerConfig(Member(row.name, value), &options));
      described.insert(Described(options));
    }
    EXPECT_GT(described.size(), 1U) << row.name;
  }
}

TEST_F(ConfigKeysTest, DefaultsMatchTheDocument) {
  const std::string by_default = Described({});
  for (const KeyRow& row : RowsUnder(kOptions)) {
    if (absl::StartsWith(row.default_value, "none")) {
      continue;  // no value sets the default
    }
    const std::string value =
        row.default_value.substr(0, row.default_value.find(", "));
    ManagerOptions options;
    ASSERT_OK(ReadManagerConfig(Member(row.name, value), &options)) << row.name;
    if (row.name == "io_state_resize") options.restore.io_state_resize.reset();
    EXPECT_EQ(Described(options), by_default) << row.name;
  }
}

TEST_F(ConfigKeysTest, ShippingMatchesTheDocument) {
  const std::string by_default = DescribedShipping(R"({"ship": "s3://a/b"})");
  for (const KeyRow& row : RowsUnder(kShip)) {
    const auto wrap = [&](const std::string& value) {
      return Shipping(row.name, value);
    };
    ExpectAsDocumented(row, wrap);
    std::set<std::string> described = {by_default};
    for (const std::string& value : ValuesOf(row).allowed) {
      described.insert(DescribedShipping(wrap(value)));
    }
    EXPECT_GT(described.size(), 1U) << row.name;
    if (absl::StartsWith(row.default_value, "none")) continue;
    EXPECT_EQ(DescribedShipping(wrap(row.default_value)), by_default)
        << row.name;
  }
}

TEST_F(ConfigKeysTest, ShippingNeedsItsLibrary) {
  ManagerOptions options{.path = dir_.path() + "/store"};
  ASSERT_OK(ReadManagerConfig(R"({"ship": "s3://a/b"})", &options));
  ModelState model;
  EXPECT_THAT(CheckpointManager::Open(options, &model),
              FailedPrecondition("ManagerOptions::ship.to", "s3://a/b",
                                 "ckptdb::remote", "EnableUrls()"));
  // A process that only reads ships nothing.
  options.read_only = true;
  EXPECT_OK(CheckpointManager::Open(options, &model).status());
}

TEST_F(ConfigKeysTest, ErrorsOfShippingNameTheKeyAndTheValue) {
  ManagerOptions options;
  EXPECT_THAT(Read(R"({"ship": {"to": "s3://a", "conections": 4}})", &options),
              InvalidArgument("manager.ship", "\"conections\"",
                              "did you mean \"connections\"", "column 41"));
  EXPECT_THAT(Read(R"({"ship": {"to": "s3//a"}})", &options),
              InvalidArgument("manager.ship", "\"s3//a\"", "s3://bucket/prefix",
                              "column"));
  EXPECT_THAT(Read(R"({"ship": {"connections": 4}})", &options),
              InvalidArgument("manager.ship", "\"to\" is missing"));
  EXPECT_THAT(
      Read(R"({"ship": 5})", &options),
      InvalidArgument("manager.ship: the value is 5; expected a URL, or "
                      "an object with one as \"to\"",
                      "column 10"));
  for (const absl::string_view seconds : {"-1", "0", "\"1\""}) {
    EXPECT_THAT(
        Read(absl::Substitute(R"({"ship": {"to": "s3://a", "deadline": $0}})",
                              seconds),
             &options),
        InvalidArgument(absl::StrCat("manager.ship.deadline is ", seconds,
                                     "; expected a number of seconds above 0"),
                        "column"));
  }
  EXPECT_EQ(options.ship.to, nullptr);
  EXPECT_THAT(Check(R"({"fetch_from": "s3//a"})"),
              InvalidArgument("fetch_from", "\"s3//a\"", "s3://bucket"));
  EXPECT_THAT(Check(R"({"fetch_from": "s3://a"})"),
              FailedPrecondition("fetch_from", "s3://a", "EnableUrls()"));
}

TEST_F(ConfigKeysTest, SavePoliciesMatchTheDocument) {
  ExpectPolicies("permanent", RowsUnder(kSavePolicies));
  ExpectPolicies("ephemeral", RowsUnder(kSavePolicies));
}

TEST_F(ConfigKeysTest, KeepPoliciesMatchTheDocument) {
  ExpectPolicies("keep", RowsUnder(kKeepPolicies));
}

TEST_F(ConfigKeysTest, LatestOfMatchesTheDocument) {
  const KeyRow count = {"count", "integer", "", "at least 0"};
  ExpectAsDocumented(count, [](const std::string& value) {
    return Member("keep",
                  Member("latest_of",
                         R"({"policy": "keep_all", "count": )" + value + "}"));
  });
}

TEST_F(ConfigKeysTest, BestMatchesTheDocument) {
  for (const KeyRow& row : RowsUnder(kBest)) {
    const auto best = [&](const std::string& value) {
      const std::string metric =
          row.name == "metric" ? "" : R"("metric": "m", )";
      return absl::StrCat("{", metric, Member(row.name, value).substr(1));
    };
    ExpectAsDocumented(row, [&](const std::string& value) {
      return Member("keep", Member("best_n", best(value)));
    });
    ExpectAsDocumented(row, [&](const std::string& value) {
      return Member("best", best(value));
    });
  }
}

TEST_F(ConfigKeysTest, EvolveMatchesTheDocument) {
  for (const KeyRow& row : RowsUnder(kEvolve)) {
    ExpectAsDocumented(row, [&](const std::string& value) {
      return Member("evolve", Member(row.name, value));
    });
  }
  for (const KeyRow& row : RowsUnder(kEvolvedTable)) {
    ExpectAsDocumented(row, [&](const std::string& value) {
      return Member("evolve",
                    Member("tables", Member("user", Member(row.name, value))));
    });
  }
}

// In the source, keys are string literals that are read, and policies without a
// value precede their constructors.
TEST(ConfigKeys, ReadsOnlyDocumentedKeys) {
  std::set<std::string> documented = {"not", "policy"};
  for (const char* table : {kOptions, kBest, kShip, kEvolve, kEvolvedTable,
                            kSavePolicies, kKeepPolicies}) {
    for (const KeyRow& row : RowsUnder(table)) documented.insert(row.name);
  }
  const std::string source = ReadTree("manager/config/manager_config.cc") +
                             ReadTree("manager/config/load_json.cc");
  const std::regex read(
      R"re((?:Read\w*|Find|Require)(?:<[^(]*>)?\(\s*(?:&?\w+,\s*)?"(\w+)"|\{"(\w+)",\s*\w+\(\)\})re");
  std::set<std::string> found;
  for (std::sregex_iterator at(source.begin(), source.end(), read), end;
       at != end; ++at) {
    found.insert((*at)[1].matched ? (*at)[1] : (*at)[2]);
  }
  EXPECT_EQ(found, documented);
}

}  // namespace
}  // namespace ckptdb::testing
