// SPDX-License-Identifier: Apache-2.0
// Tables of which ranks have different columns: saved as whole rows, and
// restored by any other division.
#include "manager/save/column_exchange.h"

#include <atomic>
#include <numeric>
#include <random>

#include "manager/tables.h"
#include "tests/manager/forwarding_coordinator.h"
#include "tests/manager/raw_table.h"
#include "tests/manager/run_ranks.h"
#include "tests/manager/test_options.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace ckptdb::testing {
namespace {

using Columns = TableState::Columns;

constexpr int64_t kColumnIds = 60;
const std::vector<Slot> kWholeSlots = {{"v", DType::kF32, 8},
                                       {"n", DType::kI64, 2}};

// The step that wrote each row.
using Written = std::map<int64_t, int64_t>;

// The rows after the steps up to `last`; step 1 writes all.
Written WrittenUpTo(int64_t last) {
  Written written;
  for (int64_t step = 1; step <= last; ++step) {
    for (int64_t id = 0; id < kColumnIds; ++id) {
      if (step == 1 || (7 * id + step) % 3 == 0) written[id] = step;
      if (step > 1 && (id + step) % 7 == 0) written.erase(id);
    }
  }
  return written;
}

// The elements of a row that a step writes.
std::string ElementsOf(const Columns& columns, int64_t id, int64_t step) {
  std::string bytes;
  for (uint32_t c = columns.first; c < columns.first + columns.elements; ++c) {
    const int64_t value = 1000 * id + 10 * step + c;
    bytes += columns.slot == 0 ? RawBytes<float>({static_cast<float>(value)})
                               : RawBytes<int64_t>({value});
  }
  return bytes;
}

// A division of the table among ranks.
struct Division {
  std::vector<std::vector<Columns>> columns;  // by rank
  // Each rank has whole rows, a range of them.
  bool by_rows = false;
  // Ranks 0 and 1 have the even rows, 2 and 3 the odd ones.
  bool grid = false;

  uint32_t world() const { return static_cast<uint32_t>(columns.size()); }
  bool Has(uint32_t rank, int64_t id) const {
    const auto [begin, end] =
        TableSharding::ByRange(kColumnIds).RangeOf(rank, world());
    if (by_rows) return begin <= id && id < end;
    return !columns[rank].empty() && (!grid || id % 2 == rank / 2);
  }
};

std::vector<Slot> SlotsOfColumns(const std::vector<Columns>& columns) {
  std::vector<Slot> slots;
  for (const Columns& each : columns) {
    slots.push_back(kWholeSlots[each.slot]);
    slots.back().elements = each.elements;
  }
  return slots;
}

// One rank's columns; a RawTable whose values are those of its columns.
class ColumnPart : public RawTable {
 public:
  ColumnPart(Division division, uint32_t rank)
      : RawTable(SlotsOfColumns(division.columns[rank])),
        division_(std::move(division)),
        rank_(rank) {}

  void Write(int64_t id, int64_t step) {
    Row row;
    for (const Columns& each : own()) row.push_back(ElementsOf(each, id, step));
    Set(id, std::move(row));
  }
  // Marks the row on one of the ranks that have a part of it.
  void Mark(int64_t id, bool erased) {
    uint32_t marks = static_cast<uint32_t>(id) % division_.world();
    while (!division_.Has(marks, id)) marks = (marks + 1) % division_.world();
    if (marks != rank_) return;
    erased ? tracker_.MarkErased({id}) : tracker_.MarkUpserted({id});
  }
  void Train(int64_t step) {
    const Written before = WrittenUpTo(step - 1);
    const Written after = WrittenUpTo(step);
    for (int64_t id = 0; id < kColumnIds; ++id) {
      if (!division_.Has(rank_, id)) continue;
      const auto now = after.find(id);
      if (now != after.end() && now->second == step) {
        Write(id, step);
        Mark(id, /*erased=*/false);
      } else if (now == after.end() && before.contains(id)) {
        EXPECT_OK(Erase(0, {id}));
        Mark(id, /*erased=*/true);
      }
    }
  }
  void ExpectTrained(int64_t step) const {
    std::map<int64_t, Row> expected;
    for (const auto& [id, written] : WrittenUpTo(step)) {
      if (!division_.Has(rank_, id)) continue;
      for (const Columns& each : own()) {
        expected[id].push_back(ElementsOf(each, id, written));
      }
    }
    EXPECT_TRUE(rows() == expected)
        << "rank " << rank_ << " has " << rows().size() << " rows, not "
        << expected.size();
  }
  // The error that RowsOf returns from now on.
  void FailWith(absl::Status status) { failure_ = std::move(status); }

  std::vector<Slot> slots() const override { return kWholeSlots; }
  std::vector<std::string> optimizer_slots() const override { return {}; }
  RowTracker* tracker() override { return &tracker_; }
  std::optional<std::vector<Columns>> columns() const override {
    if (division_.by_rows) return std::nullopt;
    return own();
  }
  absl::StatusOr<std::unique_ptr<RowSource>> RowsOf(
      absl::Span<const int64_t> ids) const override {
    if (!failure_.ok()) return failure_;
    std::vector<int64_t> known;
    for (const int64_t id : ids) {
      if (rows().contains(id)) known.push_back(id);
    }
    return RawTable::RowsOf(known);
  }
  LiveTable* Live(absl::Span<const std::string> slots) override {
    EXPECT_EQ(slots.size(), 2u);
    return this;
  }
  absl::Status Consume(int /*worker*/, const RowSink::Batch& batch) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      if (!division_.Has(rank_, batch.ids[r])) continue;
      Row row;
      for (const Columns& each : own()) {
        const Slot& slot = kWholeSlots[each.slot];
        const uint64_t element = DTypeBytes(slot.dtype);
        row.emplace_back(batch.slots[each.slot] + r * slot.row_bytes() +
                             each.first * element,
                         each.elements * element);
      }
      Set(batch.ids[r], std::move(row));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Columns>& own() const { return division_.columns[rank_]; }

  const Division division_;
  const uint32_t rank_;
  RowTracker tracker_;
  std::mutex mutex_;
  absl::Status failure_;
};

const std::vector<Columns> kAllColumns = {{0, 0, 8}, {1, 0, 2}};

Division ByColumns() {
  return {{{{0, 0, 4}, {1, 0, 1}}, {{0, 4, 4}, {1, 1, 1}}}};
}

std::vector<Division> AllDivisions() {
  return {
      {{kAllColumns}},
      {{{{0, 6, 2}, {1, 1, 1}, {0, 0, 6}, {1, 0, 1}}}},
      ByColumns(),
      // One rank has two shards, one has none.
      {{{{0, 0, 1}, {0, 7, 1}}, {}, {{1, 0, 2}, {0, 1, 6}}}},
      {{{{0, 0, 4}, {1, 0, 2}},
        {{0, 4, 4}},
        {{0, 0, 4}, {1, 0, 2}},
        {{0, 4, 4}}},
       /*by_rows=*/false,
       /*grid=*/true},
      {{kAllColumns, kAllColumns, kAllColumns}, /*by_rows=*/true},
  };
}

class ColumnExchangeTest : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<ColumnPart> part;
    ModelState model;
    std::unique_ptr<CheckpointManager> manager;
  };

  void SetUp() override {
    options_ = TestOptions(dir_.path() + "/store");
    options_.save.audit_deltas = true;
  }
  std::vector<absl::Status> Run(
      const Division& division,
      const std::function<absl::Status(uint32_t, Rank*)>& body,
      const WrapRanks& wrap = nullptr) {
    return OnRanks(
        division.world(), [&](uint32_t r, auto ranks) -> absl::Status {
          Rank rank;
          rank.part = std::make_unique<ColumnPart>(division, r);
          if (wrap != nullptr) ranks = wrap(std::move(ranks));
          CKPTDB_RETURN_IF_ERROR(
              rank.model.AddTable("t", rank.part.get(), sharding_));
          CKPTDB_ASSIGN_OR_RETURN(
              rank.manager,
              CheckpointManager::Open(options_, &rank.model, std::move(ranks)));
          return body(r, &rank);
        });
  }
  static absl::Status TrainTo(Rank* rank, int64_t last) {
    for (int64_t step = rank->manager->global_step() + 1; step <= last;
         ++step) {
      rank->part->Train(step);
      CKPTDB_RETURN_IF_ERROR(rank->manager->Step().status());
      CKPTDB_RETURN_IF_ERROR(rank->manager->WaitUntilFinished());
    }
    return absl::OkStatus();
  }
  int64_t LatestStep() const {
    const auto reader = Reader::Open(options_.path);
    EXPECT_OK(reader);
    return (*reader)->Latest().value().version.step;
  }

  TempDir dir_;
  ManagerOptions options_;
  TableSharding sharding_ = TableSharding::ByRange(kColumnIds);
};

TEST_F(ColumnExchangeTest, AnyDivisionRestoresWhatAnyOtherSaved) {
  const std::vector<Division> divisions = AllDivisions();
  for (size_t first = 0; first < divisions.size(); ++first) {
    options_.path = absl::StrCat(dir_.path(), "/", first);
    options_.save.async = first % 2 == 0;
    int64_t step = 0;
    for (size_t i = 0; i < divisions.size(); ++i) {
      const size_t next = (first + i * (first % 2 == 0 ? 1 : 5)) % 6;
      SCOPED_TRACE(absl::StrCat("from ", first, ", division ", next));
      ASSERT_THAT(
          Run(divisions[next],
              [&](uint32_t, Rank* rank) -> absl::Status {
                if (step > 0) {
                  CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
                  rank->part->ExpectTrained(step);
                }
                return TrainTo(rank, step + 3);
              }),
          Each(IsOk()));
      step += 3;
    }
    ASSERT_OK_AND_ASSIGN(const auto reader, Reader::Open(options_.path));
    ASSERT_OK_AND_ASSIGN(const auto newest, reader->OpenStep(step));
    EXPECT_EQ(newest->record().kind, StepRecord::Kind::kDelta);
    EXPECT_EQ(newest->FindTable("t").value().slots, kWholeSlots);
    EXPECT_OK(newest->Verify());
  }
}

// The same rows by each kind of sharding.
TEST_F(ColumnExchangeTest, AnyShardingNamesTheRankThatSavesARow) {
  int path = 0;
  for (const TableSharding& sharding :
       {TableSharding::BySlices(), TableSharding::ByModulo(),
        TableSharding::ByFunction(
            "last", [](int64_t, uint32_t world) { return world - 1; })}) {
    options_.path = absl::StrCat(dir_.path(), "/", ++path);
    sharding_ = sharding;
    ASSERT_THAT(
        Run(ByColumns(), [](uint32_t, Rank* rank) { return TrainTo(rank, 3); }),
        Each(IsOk()));
    ASSERT_THAT(Run(AllDivisions()[3],
                    [](uint32_t, Rank* rank) -> absl::Status {
                      CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
                      rank->part->ExpectTrained(3);
                      return absl::OkStatus();
                    }),
                Each(IsOk()));
  }
}

TEST_F(ColumnExchangeTest, ManyRoundsGatherTheSameRows) {
  std::mt19937_64 random(TestSeed());
  const Division division = ByColumns();
  for (const uint64_t round_bytes : {uint64_t{1}, 100 + random() % 1000}) {
    EXPECT_THAT(
        OnRanks(2,
                [&](uint32_t r, auto ranks) -> absl::Status {
                  ColumnPart part(division, r);
                  part.Train(1);
                  ModelState model;
                  CKPTDB_RETURN_IF_ERROR(model.AddTable("t", &part, sharding_));
                  const std::vector<TableSharding> shardings = {sharding_};
                  CKPTDB_ASSIGN_OR_RETURN(
                      const internal::WholeTables whole,
                      internal::ExchangeColumns({model,
                                                 shardings,
                                                 nullptr,
                                                 {},
                                                 ranks.get(),
                                                 1,
                                                 absl::Seconds(60),
                                                 round_bytes},
                                                absl::OkStatus()));
                  const RowBlock block = whole.at(0).rows->Block(0).value();
                  const auto [begin, end] = sharding_.RangeOf(r, 2);
                  EXPECT_EQ(block.ids.size(), end - begin);
                  for (size_t i = 0; i < block.ids.size(); ++i) {
                    EXPECT_EQ(block.ids[i], begin + static_cast<int64_t>(i));
                    for (const Columns& each : kAllColumns) {
                      const std::string expected =
                          ElementsOf(each, block.ids[i], 1);
                      EXPECT_EQ(absl::string_view(block.slots[each.slot].At(i),
                                                  expected.size()),
                                expected);
                    }
                  }
                  return absl::OkStatus();
                }),
        Each(IsOk()));
  }
}

TEST_F(ColumnExchangeTest, SaveFails_WhenColumnsAreMissingOrOnTwoRanks) {
  const std::vector<std::pair<Division, std::string>> cases = {
      {{{{{0, 0, 4}, {1, 0, 2}}, {{0, 5, 3}}}},
       "row 0 has elements 4 to 4 of slot \"v\" on no rank"},
      {{{{{0, 0, 5}, {1, 0, 2}}, {{0, 4, 4}}}},
       "row 0 has elements 4 to 4 of slot \"v\" on two ranks"},
      {{{{{0, 0, 8}, {1, 0, 1}}, {}}},
       "row 0 has elements 1 to 1 of slot \"n\" on no rank"},
      {{{kAllColumns, {{0, 2, 8}}}},
       "rank 1: table \"t\": TableState::columns has 8 elements from 2 of slot "
       "0; expected "
       "some of those of one of the 2 slots"},
  };
  for (const auto& [division, words] : cases) {
    EXPECT_THAT(
        Run(division, [](uint32_t, Rank* rank) { return TrainTo(rank, 1); }),
        Each(InvalidArgument("table \"t\"", words)));
  }
}

TEST_F(ColumnExchangeTest, SaveFails_WhenOneRankLacksAMarkedRow) {
  EXPECT_THAT(Run(ByColumns(),
                  [](uint32_t r, Rank* rank) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(TrainTo(rank, 2));
                    if (r == 0) rank->part->Write(1000, 3);
                    rank->part->tracker()->MarkUpserted({1000});
                    return TrainTo(rank, 3);
                  }),
              Each(InvalidArgument("is in no rank's range")));
  sharding_ = TableSharding::ByModulo();
  options_.path += "2";
  EXPECT_THAT(Run(ByColumns(),
                  [](uint32_t r, Rank* rank) -> absl::Status {
                    CKPTDB_RETURN_IF_ERROR(TrainTo(rank, 2));
                    if (r == 0) rank->part->Write(1000, 3);
                    rank->part->tracker()->MarkUpserted({1000});
                    return TrainTo(rank, 3);
                  }),
              Each(InvalidArgument(
                  "row 1000 has elements 4 to 7 of slot \"v\" on no rank")));
  EXPECT_EQ(LatestStep(), 2);
}

// The deadline is long: no rank may wait for a failed one. The marks of the
// failed save are in the next one.
TEST_F(ColumnExchangeTest, AllRanksFailTogether_AndTheNextSaveHasAllRows) {
  options_.ranks.deadline = absl::Minutes(10);
  const auto body = [](uint32_t r, Rank* rank) -> absl::Status {
    CKPTDB_RETURN_IF_ERROR(TrainTo(rank, 2));
    if (r == 1) rank->part->FailWith(absl::ResourceExhaustedError("no room"));
    EXPECT_THAT(TrainTo(rank, 3),
                ResourceExhausted("rank 1: table \"t\": no room"));
    rank->part->FailWith(absl::OkStatus());
    rank->model.SetProvider([r](const StepReader*) {
      return r == 0 ? absl::DataLossError("no model") : absl::OkStatus();
    });
    EXPECT_THAT(TrainTo(rank, 4), DataLoss("rank 0: no model"));
    rank->model.SetProvider(nullptr);
    CKPTDB_RETURN_IF_ERROR(TrainTo(rank, 6));
    CKPTDB_RETURN_IF_ERROR(rank->manager->Restore().status());
    rank->part->ExpectTrained(6);
    return absl::OkStatus();
  };
  EXPECT_THAT(Run(ByColumns(), body), Each(IsOk()));
}

// Ends in the exchange as a rank that was killed does.
class DyingInExchange : public ForwardingCoordinator {
 public:
  DyingInExchange(std::unique_ptr<Coordinator> ranks,
                  std::shared_ptr<std::atomic<bool>> dying)
      : ForwardingCoordinator(std::move(ranks)), dying_(std::move(dying)) {}
  absl::StatusOr<std::vector<std::string>> AllToAll(
      absl::string_view tag, std::vector<std::string> values,
      absl::Duration deadline) override {
    if (*dying_ && rank() == 1) return absl::AbortedError("killed");
    return Coordinator::AllToAll(tag, std::move(values), deadline);
  }

 private:
  const std::shared_ptr<std::atomic<bool>> dying_;
};

TEST_F(ColumnExchangeTest, OtherRanksNameTheOneThatDies) {
  options_.ranks.deadline = absl::Seconds(2);
  const auto dying = std::make_shared<std::atomic<bool>>(false);
  const absl::Time start = absl::Now();
  const std::vector<absl::Status> ended = Run(
      AllDivisions()[3],
      [&](uint32_t, Rank* rank) -> absl::Status {
        CKPTDB_RETURN_IF_ERROR(TrainTo(rank, 2));
        *dying = true;
        return TrainTo(rank, 3);
      },
      [&](std::unique_ptr<Coordinator> ranks) {
        return std::make_unique<DyingInExchange>(std::move(ranks), dying);
      });
  for (const absl::Status& status : ended) EXPECT_FALSE(status.ok());
  EXPECT_THAT(ended[0], DeadlineExceeded("ranks 1 of 3 did not reach"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(40));
  EXPECT_EQ(LatestStep(), 2);
}

TEST_F(ColumnExchangeTest, OpenFails_WhenTheTableIsReplicated) {
  sharding_ = TableSharding::Replicated();
  EXPECT_THAT(
      Run(ByColumns(), [](uint32_t, Rank*) { return absl::OkStatus(); }),
      Each(InvalidArgument("table \"t\": its columns are divided among "
                           "ranks",
                           "declare ByRange(rows)")));
  ColumnPart part(ByColumns(), 0);
  TableView view(&part, {{"v", Codec::kNone}});
  EXPECT_THAT(view.status(), InvalidArgument("columns are divided"));
}

TEST_F(ColumnExchangeTest, SaveFails_WhenRanksHaveOtherSlots) {
  const auto run = [&](uint32_t r, auto ranks) -> absl::Status {
    std::vector<float> values(8);
    std::vector<internal::AnyArray> arrays = {Array(
        "v", values.data(), 2, {.first_column = 2 * r, .all_columns = 4})};
    if (r == 1) arrays.push_back(Array("w", values.data(), 2));
    VectorTable items(4, std::move(arrays));
    ModelState model;
    CKPTDB_RETURN_IF_ERROR(
        model.AddTable("item", &items, TableSharding::ByRange(4)));
    CKPTDB_ASSIGN_OR_RETURN(
        const auto manager,
        CheckpointManager::Open(options_, &model, std::move(ranks)));
    CKPTDB_RETURN_IF_ERROR(manager->Step().status());
    return manager->WaitUntilFinished();
  };
  EXPECT_THAT(OnRanks(2, run), Each(InvalidArgument("table \"item\"")));
}

// Arrays with half of the columns, read by arrays with all and with quarters.
TEST_F(ColumnExchangeTest, VectorTablesDivideTheirColumns) {
  constexpr uint64_t kRows = 1000;
  for (const uint32_t world : {2u, 1u, 4u}) {
    const uint32_t own = 8 / world;
    const auto run = [&](uint32_t r, auto ranks) -> absl::Status {
      std::vector<float> values(kRows * own, -1);
      VectorTable items(kRows,
                        {Array("v", values.data(), own,
                               {.first_column = r * own, .all_columns = 8})});
      ModelState model;
      CKPTDB_RETURN_IF_ERROR(
          model.AddTable("item", &items, TableSharding::ByRange(kRows)));
      CKPTDB_ASSIGN_OR_RETURN(
          const auto manager,
          CheckpointManager::Open(options_, &model, std::move(ranks)));
      const auto value = [&](uint64_t i) {
        return static_cast<float>(i / own * 8 + r * own + i % own);
      };
      if (world != 2) {
        CKPTDB_RETURN_IF_ERROR(manager->Restore().status());
        for (uint64_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(values[i], value(i)) << i;
        }
        return absl::OkStatus();
      }
      CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      CKPTDB_RETURN_IF_ERROR(manager->WaitUntilFinished());
      for (uint64_t i = 0; i < values.size(); ++i) values[i] = value(i);
      // One rank marks all rows, the last one both.
      std::vector<int64_t> ids(r == 1 ? kRows : 0);
      std::iota(ids.begin(), ids.end(), 0);
      ids.push_back(kRows - 1);
      CKPTDB_RETURN_IF_ERROR(items.MarkUpserted(ids));
      CKPTDB_RETURN_IF_ERROR(manager->Step().status());
      return manager->WaitUntilFinished();
    };
    EXPECT_THAT(OnRanks(world, run), Each(IsOk()));
  }
  std::vector<float> values(8);
  const auto array = [&](uint32_t first, uint32_t all) {
    return Array("v", values.data(), 4,
                 {.first_column = first, .all_columns = all});
  };
  VectorTable wrong(2, {array(5, 8)});
  EXPECT_THAT(wrong.status(),
              InvalidArgument("slot \"v\" has columns 5 to below 9 here, but "
                              "only 8 in all"));
  VectorTable right(2, {array(4, 8)});
  EXPECT_OK(right.SetArrays({array(4, 8)}));
  EXPECT_THAT(right.SetArrays({array(0, 8)}), InvalidArgument("SetArrays"));
}

}  // namespace
}  // namespace ckptdb::testing
