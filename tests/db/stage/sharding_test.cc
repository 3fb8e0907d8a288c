// SPDX-License-Identifier: Apache-2.0
// What a table declares of how its rows are divided among ranks: checked when
// it is staged, recorded, and an id on two ranks found by Verify.

#include <atomic>
#include <stdexcept>

#include "schema/records/records.h"
#include "tests/db/delta_fixture.h"

namespace ckptdb::testing {
namespace {

TableSharding ByHash() {
  return TableSharding::ByFunction("hash_v2", [](int64_t id, uint32_t world) {
    return static_cast<uint32_t>(MixId(static_cast<uint64_t>(id)) % world);
  });
}

class ShardingTest : public DeltaFixture {
 protected:
  static constexpr uint32_t kRanks = 3;
  // Rank r saves ids[r], with the sharding that it declares.
  absl::StatusOr<StagedRank> StageIds(const Ticket& ticket,
                                      const std::vector<int64_t>& ids,
                                      const TableSharding& sharding,
                                      const Deltas& deltas = {},
                                      bool whole = false) {
    const HeldChanges held(UserContent(ids), deltas, whole, 100, sharding);
    return Stage(path(), ticket, held.state());
  }
  absl::StatusOr<SaveResult> SaveIds(
      SaveSpec spec, const std::vector<std::vector<int64_t>>& ids,
      const TableSharding& sharding, const std::vector<Deltas>& deltas = {}) {
    spec.world_size = static_cast<uint32_t>(ids.size());
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save, store_->Begin(spec));
    std::vector<StagedRank> staged;
    for (size_t r = 0; r < ids.size(); ++r) {
      CKPTDB_ASSIGN_OR_RETURN(
          staged.emplace_back(),
          StageIds(save.tickets[r], ids[r], sharding,
                   r < deltas.size() ? deltas[r] : Deltas()));
    }
    return store_->Publish(save.version, staged);
  }
  absl::Status StageOnRank1(const std::vector<int64_t>& ids,
                            const TableSharding& sharding,
                            const std::vector<uint32_t>& bounds = {}) {
    const Store::Attempt save =
        Begin({.step = 1, .world_size = kRanks, .slice_bounds = bounds});
    const absl::Status staged =
        StageIds(save.tickets[1], ids, sharding).status();
    EXPECT_OK(store_->Abandon(save.version));
    return staged;
  }
  StagedRank Staged(const Ticket& ticket, const std::vector<int64_t>& ids,
                    const TableSharding& sharding, const Deltas& deltas = {}) {
    return StageIds(ticket, ids, sharding, deltas).value();
  }
  // A part as no stager of a replicated table makes it.
  static StagedRank AsReplicated(StagedRank staged) {
    StepRecord::Rank record =
        DecodeRankRecord(staged.record().rank_record).value();
    record.items[0].sharding = Item::Sharding::kReplicated;
    staged.record().rank_record = EncodeRankRecord(record).value();
    return staged;
  }
  static std::vector<Deltas> NoChanges() {
    return std::vector<Deltas>(kRanks, {{"user", {}}});
  }
  // Before and after folding the step.
  void ExpectRowsAlsoFolded(int64_t number, const Rows& expected) {
    for (const bool folded : {false, true}) {
      if (folded) {
        ASSERT_OK(store_->Fold(number));
      }
      ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(number));
      EXPECT_TRUE(Scan(*step, "user").value() == expected);
      std::set<int64_t> ids;
      for (const auto& [id, values] : expected) ids.insert(id);
      ExpectLookups(*step, "user", {{}, {}, expected}, ids);
      EXPECT_OK(step->Verify());
    }
  }
  absl::Status Verify(int64_t step, std::set<Version>* verified = nullptr) {
    CKPTDB_ASSIGN_OR_RETURN(const auto reader, store_->OpenStep(step));
    return reader->Verify({}, verified);
  }
  static std::vector<std::vector<int64_t>> Divide(
      const std::function<uint32_t(int64_t, uint32_t)>& rank_of,
      int64_t begin = -50, int64_t end = 50) {
    std::vector<std::vector<int64_t>> ids(kRanks);
    for (int64_t id = begin; id < end; ++id)
      ids[rank_of(id, kRanks)].push_back(id);
    return ids;
  }
};

TEST_F(ShardingTest, RequiresADeclarationOfSeveralRanks) {
  EXPECT_THAT(StageOnRank1({1}, {}),
              InvalidArgument("table \"user\": it declares no sharding among 3 "
                              "ranks",
                              "BySlices(), ByModulo(), ByRange(rows), "
                              "ByFunction(name, rank_of) or Replicated()"));
  EXPECT_OK(StageOnRank1({1}, TableSharding::ByModulo()));
  ASSERT_OK(Save(5, UserContent({1, 2})));  // one rank has all
}

TEST_F(ShardingTest, RejectsAnIdOfAnotherRankByModulo) {
  const auto sharding = TableSharding::ByModulo();
  // 2^64 - 5 and 2^64 - 2^63 are 2 modulo 3; -2^63 + 2 is 1.
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_OK(StageOnRank1({1, 4, -3, 1000, kLeast + 2}, sharding));
  EXPECT_THAT(StageOnRank1({1, 5, 4}, sharding),
              InvalidArgument("table \"user\": id 5 belongs to rank 2 of 3 by "
                              "modulo, but rank 1 has it"));
  EXPECT_THAT(StageOnRank1({-1}, sharding),
              InvalidArgument("id -1 belongs to rank 0 of 3 by modulo"));
  EXPECT_THAT(StageOnRank1({kLeast}, sharding),
              InvalidArgument("belongs to rank 2 of 3 by modulo"));
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 200'000; ++i) many.push_back(3 * i + 1);
  many[150'000] -= 1;
  EXPECT_THAT(StageOnRank1(many, sharding),
              InvalidArgument("id 450000 belongs to rank 0 of 3 by modulo"));
}

TEST_F(ShardingTest, RejectsAnIdOfAnotherRankByFunction) {
  const auto ids = Divide(ByHash().rank_of());
  EXPECT_OK(StageOnRank1(ids[1], ByHash()));
  EXPECT_THAT(
      StageOnRank1({ids[2][0]}, ByHash()),
      InvalidArgument(absl::StrCat("id ", ids[2][0],
                                   " belongs to rank 2 of 3 by "
                                   "custom \"hash_v2\", but rank 1 has it")));
  const auto beyond = [](int64_t, uint32_t world) { return world; };
  const std::string long_name(kMaxNameBytes + 1, 'x');
  for (const auto& [sharding, words] :
       {std::pair{TableSharding::ByFunction("beyond", beyond),
                  "table \"user\": sharding \"beyond\" returns rank 3 for "
                  "id 7; expected less than the world size, 3"},
        {TableSharding::ByFunction("none", nullptr),
         "the function of sharding \"none\" is null"},
        {TableSharding::ByFunction("", beyond),
         "table \"user\": sharding name"},
        {TableSharding::ByFunction(long_name, beyond), "sharding name"}}) {
    EXPECT_THAT(StageOnRank1({7}, sharding), InvalidArgument(words));
  }
}

TEST_F(ShardingTest, RejectsAnIdOutsideTheRanksRange) {
  const auto bounds = TableSharding::ByRange({-10, 0, 0, 7});
  EXPECT_OK(StageOnRank1({}, bounds));
  EXPECT_THAT(StageOnRank1({0}, bounds),
              InvalidArgument("table \"user\": id 0 belongs to rank 2 of 3 by "
                              "range (not in [0, 0)), but rank 1 has it"));
  EXPECT_THAT(StageOnRank1({-1}, bounds), InvalidArgument("to rank 0 of 3"));
  for (const int64_t id :
       {int64_t{-11}, int64_t{7}, std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max()}) {
    EXPECT_THAT(StageOnRank1({id}, bounds),
                InvalidArgument(absl::StrCat(
                    "id ", id,
                    " is in no rank's range; TableSharding::ByRange "
                    "gives ids -10 to below 7 to the 3 ranks; give it other "
                    "bounds or more rows")));
  }
  const auto even = TableSharding::ByRange(10);  // 4, 4 and 2 rows
  EXPECT_OK(StageOnRank1({4, 5, 6, 7}, even));
  EXPECT_THAT(StageOnRank1({8}, even), InvalidArgument("to rank 2 of 3"));
  EXPECT_THAT(StageOnRank1({10}, even), InvalidArgument("ids 0 to below 10"));
  EXPECT_THAT(StageOnRank1({-1}, even), InvalidArgument("ids 0 to below 10"));
}

TEST_F(ShardingTest, EvenRangesCoverAllRowsOnce) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{9},
                             int64_t{10}, kMost - 1, kMost}) {
    const auto sharding = TableSharding::ByRange(rows);
    for (const uint32_t world : {1u, 2u, 3u, 7u, kMaxWorldSize}) {
      int64_t next = 0;
      for (uint32_t rank = 0; rank < world; ++rank) {
        const auto [begin, end] = sharding.RangeOf(rank, world);
        ASSERT_EQ(begin, next);
        if (begin < end) {
          ASSERT_EQ(sharding.rank_of()(begin, world), rank);
          ASSERT_EQ(sharding.rank_of()(end - 1, world), rank);
        }
        next = end;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST_F(ShardingTest, RejectsRangesThatDoNotFitTheRanks) {
  for (const auto& [sharding, words] :
       {std::pair{TableSharding::ByRange({0, 5, 9}),
                  "table \"user\": id bounds [0, 5, 9] do not ascend in 3 "
                  "ranges; expected 4 bounds"},
        {TableSharding::ByRange({0, 5, 4, 9}), "do not ascend"},
        {TableSharding::ByRange(-1), "ranges of ids cannot divide -1 rows"}}) {
    EXPECT_THAT(StageOnRank1({}, sharding), InvalidArgument(words));
  }
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  EXPECT_THAT(
      store_->Publish(
          save.version,
          {Staged(save.tickets[0], {0}, TableSharding::ByRange({0, 5, 9})),
           Staged(save.tickets[1], {6}, TableSharding::ByRange({0, 6, 9}))}),
      InvalidArgument("table \"user\" of ranks 0 and 1: ids up to below 5 and "
                      "ids from 6; declare the same TableSharding::ByRange"));
}

TEST_F(ShardingTest, CallsABatchFunctionOnceForManyIds) {
  std::atomic<int> calls = 0;
  const auto sharding = TableSharding::ByBatchFunction(
      "by_hundreds", [&](absl::Span<const int64_t> ids, uint32_t world,
                         absl::Span<uint32_t> ranks) {
        ++calls;
        for (size_t i = 0; i < ids.size(); ++i) {
          ranks[i] = static_cast<uint32_t>(ids[i] / 100 % world);
        }
      });
  EXPECT_EQ(sharding.rank_of()(250, 3), 2U);
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 200'000; ++i)
    many.push_back(i / 100 * 300 + 100 + i % 100);
  calls = 0;
  EXPECT_OK(StageOnRank1(many, sharding));
  EXPECT_LT(calls, 40);
  many[150'000] = 250;
  EXPECT_THAT(
      StageOnRank1(many, sharding),
      InvalidArgument("table \"user\": id 250 belongs to rank 2 of 3 by "
                      "custom \"by_hundreds\", but rank 1 has it"));
  EXPECT_THAT(StageOnRank1({100, 250}, sharding),
              InvalidArgument("id 250 belongs to rank 2 of 3"));
}

TEST_F(ShardingTest, NamesABatchFunctionThatThrows) {
  const auto throws = [](absl::Span<const int64_t>, uint32_t,
                         absl::Span<uint32_t>) {
    throw std::out_of_range("no such country");
  };
  const auto sharding = TableSharding::ByBatchFunction("by_country", throws);
  EXPECT_THAT(
      StageOnRank1({7, 8, 9}, sharding),
      Internal("table \"user\": ", "the function of sharding \"by_country\"",
               "no such country", " and 2 others"));
  EXPECT_THAT(
      StageOnRank1({7}, TableSharding::ByBatchFunction("none", nullptr)),
      InvalidArgument("the function of sharding \"none\" is null"));
}

// With few rows, which one thread orders, and with many.
TEST_F(ShardingTest, NamesAFunctionThatThrows) {
  const std::map<int64_t, uint32_t> ranks = {{1, 1}};
  const auto sharding = TableSharding::ByFunction(
      "by_country", [&](int64_t id, uint32_t) { return ranks.at(id); });
  std::vector<int64_t> many(200'000, 1);
  many[150'000] = 7;
  for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1, 7}, many}) {
    EXPECT_THAT(
        StageOnRank1(ids, sharding),
        Internal("table \"user\": ", "the function of sharding \"by_country\"",
                 "map::at", "for id 7"));
  }
}

TEST_F(ShardingTest, RejectsAnIdOfAnotherRankBySlices) {
  const std::vector<uint32_t> bounds = {0, 10, 20, kSlices};
  const auto sharding = TableSharding::BySlices(bounds);
  EXPECT_OK(StageOnRank1({10, 19}, sharding, bounds));
  EXPECT_THAT(
      StageOnRank1({30}, sharding, bounds),
      InvalidArgument("id 30 belongs to rank 2 of 3 by slices (slice 30, not "
                      "in [10, 20)), but rank 1 has it"));
  EXPECT_THAT(StageOnRank1({30}, {}, bounds),
              InvalidArgument("id 30 belongs to another rank of 3 by slices"));
  EXPECT_THAT(StageOnRank1({10}, sharding),
              InvalidArgument("SaveSpec::slice_bounds is empty"));
  EXPECT_THAT(
      StageOnRank1({10}, TableSharding::BySlices({0, 9, 20, kSlices}), bounds),
      InvalidArgument("its slice bounds [0, 9, 20, 65536] differ from "
                      "SaveSpec::slice_bounds"));
  EXPECT_THAT(StageOnRank1({10}, TableSharding::BySlices({0, kSlices}), bounds),
              InvalidArgument("do not ascend from 0 to 65536 in 3 ranges"));
  EXPECT_THAT(
      StageOnRank1({10}, TableSharding::Unchecked(), bounds),
      InvalidArgument("is TableSharding::Unchecked() in a save that has "
                      "SaveSpec::slice_bounds"));
}

TEST_F(ShardingTest, ChangesAreCheckedToo) {
  const auto sharding = TableSharding::ByModulo();
  ASSERT_OK_AND_ASSIGN(const SaveResult base,
                       SaveIds({.step = 1}, {{0}, {1}, {2}}, sharding));
  const SaveSpec spec{.step = 2, .parent = base.version};
  std::vector<Deltas> deltas = NoChanges();
  deltas[2]["user"].upserted[4] = RowOf(4, 1);
  EXPECT_THAT(
      SaveIds(spec, {{}, {}, {}}, sharding, deltas),
      InvalidArgument("id 4 belongs to rank 1 of 3 by modulo, but rank 2"));
  deltas[2]["user"] = {{}, {1}};
  EXPECT_THAT(
      SaveIds(spec, {{}, {}, {}}, sharding, deltas),
      InvalidArgument("erased ids: table \"user\": id 1 belongs to rank 1"));
  deltas[2]["user"] = {{{5, RowOf(5, 1)}}, {2}};
  ASSERT_OK(SaveIds(spec, {{}, {}, {}}, sharding, deltas));
  ExpectRowsAlsoFolded(2,
                       {{0, RowOf(0, 0)}, {1, RowOf(1, 0)}, {5, RowOf(5, 1)}});
}

TEST_F(ShardingTest, IsRecordedAndComesBack) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(kRanks);
  struct Case {
    TableSharding sharding;
    Item::Sharding kind;
    std::string name;
    std::vector<uint32_t> bounds;
  };
  const std::vector<std::vector<int64_t>> modulo = {{0}, {1}, {2}};
  const std::vector<Case> cases = {
      {TableSharding::ByModulo(), Item::Sharding::kByModulo, "", {}},
      {ByHash(), Item::Sharding::kCustom, "hash_v2", {}},
      {TableSharding::ByRange(3), Item::Sharding::kByRange, "", {}},
      {TableSharding::Replicated(), Item::Sharding::kReplicated, "", {}},
      {TableSharding::Unchecked(), Item::Sharding::kUndeclared, "", {}},
      {{}, Item::Sharding::kBySlices, "", bounds}};
  int64_t step = 0;
  for (const Case& each : cases) {
    SaveSpec spec{.step = ++step, .slice_bounds = each.bounds};
    const auto ids = each.kind == Item::Sharding::kCustom
                         ? Divide(each.sharding.rank_of(), 0, 30)
                     : each.kind == Item::Sharding::kBySlices
                         ? std::vector<std::vector<int64_t>>{{0}, {30000}, {-1}}
                         : modulo;
    ASSERT_OK(SaveIds(spec, ids, each.sharding));
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    ASSERT_OK_AND_ASSIGN(const StepReader::TableSpec table,
                         reader->FindTable("user"));
    EXPECT_EQ(table.sharding, each.kind);
    EXPECT_EQ(table.sharding_name, each.name);
    EXPECT_OK(reader->Verify());
  }
}

TEST_F(ShardingTest, RejectsDifferentDeclarations) {
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  const auto all_on_1 = [](int64_t, uint32_t) { return uint32_t{1}; };
  EXPECT_THAT(
      store_->Publish(
          save.version,
          {Staged(save.tickets[0], {0}, TableSharding::ByModulo()),
           Staged(save.tickets[1], {1}, TableSharding::Replicated())}),
      InvalidArgument("table \"user\" of ranks 0 and 1: shardings modulo and "
                      "replicated"));
  EXPECT_THAT(
      store_->Publish(save.version,
                      {Staged(save.tickets[0], {},
                              TableSharding::ByFunction("b", all_on_1)),
                       Staged(save.tickets[1], {1},
                              TableSharding::ByFunction("a", all_on_1))}),
      InvalidArgument("shardings custom \"b\" and custom \"a\""));
}

// A rank that forgot the table would lose its rows in silence.
TEST_F(ShardingTest, RefusesATableThatIsNotOnEveryRank) {
  int64_t step = 0;
  for (const TableSharding& sharding :
       {TableSharding::ByModulo(), TableSharding::ByRange(2),
        TableSharding::BySlices({0, kSlices / 2, kSlices})}) {
    const Store::Attempt save = Begin(
        {.step = ++step, .world_size = 2, .slice_bounds = sharding.bounds()});
    const StagedRank zero = Staged(save.tickets[0], {0}, sharding);
    ASSERT_OK_AND_ASSIGN(const StagedRank without,
                         Stage(path(), save.tickets[1], {}));
    EXPECT_THAT(
        store_->Publish(save.version, {zero, without}),
        InvalidArgument(absl::StrCat("table \"user\" of rank 0 is sharded by ",
                                     ShardingKindName(sharding.kind()),
                                     ", and rank 1 has no such table")));
    EXPECT_OK(store_->Publish(save.version,
                              {zero, Staged(save.tickets[1], {}, sharding)}));
  }
}

TEST_F(ShardingTest, ReplicatedRowsAreThoseOfRank0) {
  const auto sharding = TableSharding::Replicated();
  const std::vector<int64_t> ids = {1, 2, 3, 40'000};
  // Those of ranks 1 and 2 are not read.
  ASSERT_OK_AND_ASSIGN(const SaveResult base,
                       SaveIds({.step = 1}, {ids, ids, {7}}, sharding));
  std::vector<Deltas> deltas(kRanks, {{"user", {{{2, RowOf(2, 1)}}, {3}}}});
  deltas[2]["user"] = {{{8, RowOf(8, 1)}}, {1}};
  ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                       SaveIds({.step = 2, .parent = base.version},
                               {{}, {}, {}}, sharding, deltas));
  EXPECT_EQ(saved.kind, StepRecord::Kind::kDelta);
  EXPECT_EQ(FindItem(2, "user").sharding, Item::Sharding::kReplicated);
  ExpectRowsAlsoFolded(
      2, {{1, RowOf(1, 0)}, {2, RowOf(2, 1)}, {40'000, RowOf(40'000, 0)}});
  EXPECT_EQ(FindItem(2, "user").sharding, Item::Sharding::kReplicated);
}

TEST_F(ShardingTest, RankZeroAloneSavesAReplicatedTable) {
  const auto replicated = TableSharding::Replicated();
  const Store::Attempt save = Begin({.step = 1, .world_size = 2});
  const StagedRank zero = Staged(save.tickets[0], {1, 2}, replicated);
  ASSERT_OK_AND_ASSIGN(const StagedRank without,
                       Stage(path(), save.tickets[0], RankState()));
  EXPECT_THAT(
      store_->Publish(save.version,
                      {without, Staged(save.tickets[1], {1, 2}, replicated)}),
      InvalidArgument("table \"user\" is replicated, but rank 0, which "
                      "saves its rows, lacks it; rank 1 has it"));
  EXPECT_THAT(
      store_->Publish(save.version,
                      {zero, AsReplicated(Staged(save.tickets[1], {7},
                                                 TableSharding::Unchecked()))}),
      InvalidArgument("but rank 1 saved 1 rows and 0 erased ids"));
  ASSERT_OK_AND_ASSIGN(
      const SaveResult base,
      store_->Publish(save.version,
                      {zero, Staged(save.tickets[1], {}, replicated)}));
  const Store::Attempt next =
      Begin({.step = 2, .world_size = 2, .parent = base.version});
  const Deltas erased = {{"user", {{}, {1}}}};
  EXPECT_THAT(store_->Publish(
                  next.version,
                  {Staged(next.tickets[0], {}, replicated, erased),
                   AsReplicated(Staged(next.tickets[1], {},
                                       TableSharding::Unchecked(), erased))}),
              InvalidArgument("but rank 1 saved 0 rows and 1 erased ids"));
}

// Bounds of the step are those of its other tables.
TEST_F(ShardingTest, ATableNotBySlicesBesideOneThatIs) {
  const std::vector<uint32_t> bounds = EvenSliceBounds(2);
  SaveSpec spec{.step = 1, .world_size = 2, .slice_bounds = bounds};
  const auto stage = [&](const Ticket& ticket,
                         const Deltas& deltas) -> absl::StatusOr<StagedRank> {
    // Ids of both halves of the slices on each rank.
    const int64_t rank = ticket.rank();
    const HeldChanges modulo(UserContent({rank, 40'000 + rank}), deltas,
                             /*whole=*/true, 100, TableSharding::ByModulo());
    RankContent slices;
    slices.tables["item"] = UserTable({rank * 40'000});
    const HeldChanges by_slices(slices, {}, true, 100);
    RankState state = modulo.state();
    for (const RankState::Table& table : by_slices.state().tables())
      state.AddTable(table);
    return Stage(path(), ticket, state);
  };
  const auto save =
      [&](const std::vector<Deltas>& deltas) -> absl::StatusOr<SaveResult> {
    CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt begun, store_->Begin(spec));
    std::vector<StagedRank> staged;
    for (const Ticket& ticket : begun.tickets) {
      CKPTDB_ASSIGN_OR_RETURN(staged.emplace_back(),
                              stage(ticket, deltas[ticket.rank()]));
    }
    return store_->Publish(begun.version, staged);
  };
  ASSERT_OK_AND_ASSIGN(const SaveResult base, save({{}, {}}));
  spec.step = 2;
  spec.parent = base.version;
  std::vector<Deltas> deltas(2);
  deltas[0]["user"] = {{{40'000, RowOf(40'000, 1)}}, {}};
  deltas[1]["user"] = {{{40'003, RowOf(40'003, 1)}}, {1}};
  ASSERT_OK(save(deltas));
  const Rows expected = {{0, RowOf(0, 0)},
                         {40'000, RowOf(40'000, 1)},
                         {40'001, RowOf(40'001, 0)},
                         {40'003, RowOf(40'003, 1)}};
  ExpectRowsAlsoFolded(2, expected);
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(2));
  EXPECT_THAT(step->LookupRow("user", 1), NotFound("1"));
}

TEST_F(ShardingTest, VerifyFindsAnIdOnTwoRanks) {
  const auto unchecked = TableSharding::Unchecked();
  SaveSpec spec{.step = 1};
  spec.parent =
      SaveIds(spec, {{1, 2}, {3, -7}, {-7, 4}}, unchecked).value().version;
  const auto twice =
      DataLoss("step 1 table \"user\": id -7 is on ranks 1 and 2");
  EXPECT_THAT(Verify(1), twice);
  // A chain in which it stays so.
  std::vector<Deltas> deltas = NoChanges();
  deltas[0]["user"].upserted[1] = RowOf(1, 1);
  spec.step = 2;
  spec.parent = SaveIds(spec, {{}, {}, {}}, unchecked, deltas).value().version;
  EXPECT_THAT(Verify(2), twice);
  // A newer version that says which it is: no scan is in doubt.
  deltas[0]["user"].upserted.clear();
  deltas[1]["user"].upserted[-7] = RowOf(-7, 1);
  deltas[2]["user"].erased = {-7};
  spec.step = 3;
  ASSERT_OK(SaveIds(spec, {{}, {}, {}}, unchecked, deltas));
  std::set<Version> verified;
  EXPECT_OK(Verify(3, &verified));
  // And which is no reason to pass over the one before.
  EXPECT_THAT(Verify(1, &verified), twice);
  EXPECT_THAT(Verify(2, &verified), twice);
}

TEST_F(ShardingTest, VerifyFindsAnIdThatTwoRanksHaveChanged) {
  const auto unchecked = TableSharding::Unchecked();
  ASSERT_OK_AND_ASSIGN(const SaveResult base,
                       SaveIds({.step = 1}, {{1}, {2}, {3}}, unchecked));
  std::vector<Deltas> deltas = NoChanges();
  deltas[0]["user"].upserted[9] = RowOf(9, 1);
  deltas[2]["user"].upserted[9] = RowOf(9, 2);
  ASSERT_OK(SaveIds({.step = 2, .parent = base.version}, {{}, {}, {}},
                    unchecked, deltas));
  std::set<Version> verified;
  EXPECT_OK(Verify(1, &verified));
  EXPECT_THAT(Verify(2, &verified),
              DataLoss("step 2 table \"user\": id 9 is on ranks 0 and 2"));
  // One among many.
  std::vector<std::vector<int64_t>> ids(2);
  for (int64_t id = 0; id < 300'000; ++id)
    ids[static_cast<size_t>(id % 2)].push_back(id);
  ASSERT_OK(SaveIds({.step = 3}, ids, unchecked));
  EXPECT_OK(Verify(3));
  ids[0].push_back(177'777);
  ASSERT_OK(SaveIds({.step = 4}, ids, unchecked));
  EXPECT_THAT(Verify(4), DataLoss("id 177777 is on ranks 0 and 1"));
}

}  // namespace
}  // namespace ckptdb::testing
