// SPDX-License-Identifier: Apache-2.0
// The samples in the comments of the public headers, each within a function
// that declares what it uses. public_face_test compares them with the headers;
// here they are compiled. Tests of the same calls are in tests/db and
// tests/manager.
#include <ckptdb/ckptdb.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/cuda_device.h"

namespace ckptdb::samples {

void log(const std::string& message);
void train();
void evaluate();
void apply(uint32_t rank, const Item& item);
double Evaluate(const StepReader& step);
struct Lock {};
Lock lock_model();
void send_to_owner(const std::string& bytes);

// schema/types.h
inline void Types() {
  const Version version = {.step = 7, .attempt = 3};
  ToString(version);
  Slot{"embedding", DType::kF32, 16}.row_bytes();
}

struct Page {};
absl::StatusOr<Page> DecodePage(absl::string_view bytes);
struct Writer {
  absl::Status Sync();
};

// schema/status.h
inline absl::Status Statuses(Writer writer, absl::string_view bytes) {
  CKPTDB_RETURN_IF_ERROR(writer.Sync());
  CKPTDB_ASSIGN_OR_RETURN(Page page, DecodePage(bytes));
  static_cast<void>(page);
  return absl::OkStatus();
}

// db/backup.h
inline absl::Status Backups() {
  CKPTDB_ASSIGN_OR_RETURN(const Backup backup,
                          MakeBackup("checkpoints", "/backups/ctr"));
  CKPTDB_RETURN_IF_ERROR(VerifyBackup(backup.path));
  CKPTDB_RETURN_IF_ERROR(CopyStore(backup.path, "checkpoints-2"));
  return absl::OkStatus();
}

// db/state.h
inline void States(const std::string& position_bytes,
                   const std::vector<int64_t>& ids,
                   const std::vector<float>& embeddings,
                   const std::vector<float>& adagrad) {
  std::vector<float> weights(12);
  RankState state;
  state.AddTensor("mlp.0.weight", TensorView::Of(weights.data(), {3, 4}));
  state.AddBlob("reader", position_bytes);
  RowSource::Arrays rows(
      ids, {{embeddings.data(), 16 * 4}, {adagrad.data(), 16 * 4}});
  state.AddTable(
      "user",
      {{"embedding", DType::kF32, 16}, {"adagrad_sum", DType::kF32, 16}},
      &rows);
}

inline void Shardings(RankState state, const std::vector<Slot>& slots,
                      const RowSource& rows) {
  state.AddTable({.name = "user",
                  .slots = slots,
                  .rows = &rows,
                  .sharding = TableSharding::ByModulo()});
}

inline absl::Status Staging(absl::string_view bytes_from_owner,
                            absl::string_view store_path,
                            const RankState& state) {
  CKPTDB_ASSIGN_OR_RETURN(Ticket ticket, Ticket::Decode(bytes_from_owner));
  CKPTDB_ASSIGN_OR_RETURN(StagedRank staged, Stage(store_path, ticket, state));
  CKPTDB_ASSIGN_OR_RETURN(std::string bytes, staged.Encode());
  send_to_owner(bytes);
  return absl::OkStatus();
}

// db/store.h
inline absl::Status Stores(const std::vector<float>& weights) {
  CKPTDB_ASSIGN_OR_RETURN(auto store, Store::Open("checkpoints"));
  RankState state;
  state.AddTensor("w", TensorView::Of(weights.data(), {3, 4}));
  CKPTDB_RETURN_IF_ERROR(store->Save({.step = 1000}, state).status());
  return absl::OkStatus();
}

inline absl::Status StoresOfRanks(Store* store,
                                  const std::vector<StagedRank>& staged) {
  CKPTDB_ASSIGN_OR_RETURN(auto save,
                          store->Begin({.step = 1000, .world_size = 2}));
  CKPTDB_RETURN_IF_ERROR(store->Publish(save.version, staged).status());
  return absl::OkStatus();
}

// db/reader.h
inline absl::Status Steps(Store* store, RowSink& sink) {
  CKPTDB_ASSIGN_OR_RETURN(auto step, store->OpenStep(1000));
  std::vector<float> weights(12);
  CKPTDB_RETURN_IF_ERROR(step->ReadTensor("mlp.0.weight", weights.data(), 48));
  CKPTDB_RETURN_IF_ERROR(step->ScanTable("user", {}, &sink));
  return absl::OkStatus();
}

inline absl::Status StepChanges(Reader* reader, Version held,
                                LiveTable& live_table) {
  CKPTDB_ASSIGN_OR_RETURN(auto changes, reader->OpenChanges(held, /*to=*/2000));
  CKPTDB_RETURN_IF_ERROR(changes->ScanTable("user", {}, &live_table));
  for (const StepRecord::Rank& rank : changes->ChangedItems()) {
    for (const Item& item : rank.items) apply(rank.rank, item);
  }
  held = changes->to().record().version;
  return absl::OkStatus();
}

inline absl::Status Readers() {
  CKPTDB_ASSIGN_OR_RETURN(auto reader, Reader::Open("checkpoints"));
  CKPTDB_ASSIGN_OR_RETURN(StepRecord latest, reader->Latest());
  CKPTDB_ASSIGN_OR_RETURN(auto step, reader->OpenStep(latest.version.step));
  const Metrics metrics = {{"auc", Evaluate(*step)}};
  CKPTDB_RETURN_IF_ERROR(reader->PostMetrics(latest.version.step, metrics));
  return absl::OkStatus();
}

absl::Status SaveDelta(const ChangeTracker::Changes& changes);
absl::Status SaveBase();

// db/row_tracker.h
inline absl::Status Trackers(const std::vector<int64_t>& ids_of_the_batch) {
  RowTracker tracker;
  CKPTDB_ASSIGN_OR_RETURN(const ChangeTracker::Consumer saves,
                          tracker.AddConsumer("checkpoint"));
  tracker.MarkUpserted(ids_of_the_batch);

  CKPTDB_ASSIGN_OR_RETURN(auto changes, tracker.Take(saves));
  const absl::Status saved = changes.complete ? SaveDelta(changes) : SaveBase();
  if (!saved.ok()) {
    CKPTDB_RETURN_IF_ERROR(tracker.Return(saves, std::move(changes)));
  }
  return absl::OkStatus();
}

// manager/model_state.h
inline void MovingTensors(ModelState model, std::vector<float> weights) {
  model.SetProvider([&](const StepReader*) {
    model.RemoveTensorsAndObjects();
    return model.AddTensor("w", TensorState::Of(weights.data(), {3, 4}));
  });
}

// manager/checkpoint_manager.h
inline absl::Status Training(ModelState model, int64_t steps) {
  ManagerOptions options{.path = "checkpoints",
                         .schedule = {.permanent = SaveEveryNSteps(1000)},
                         .retention = {.keep = LatestN(3)}};
  CKPTDB_ASSIGN_OR_RETURN(auto manager,
                          CheckpointManager::Open(options, &model));
  CKPTDB_ASSIGN_OR_RETURN(const RestoreReport start, manager->RestoreOrStart());
  log(start.ToString());
  while (manager->global_step() < steps) {
    train();
    CKPTDB_ASSIGN_OR_RETURN(const StepOutcome outcome, manager->Step());
    if (outcome.preempted) break;
  }
  CKPTDB_RETURN_IF_ERROR(manager->FinishTraining());
  CKPTDB_RETURN_IF_ERROR(manager->Close());
  return absl::OkStatus();
}

inline absl::Status FollowingInHalves(CheckpointManager* manager) {
  CKPTDB_RETURN_IF_ERROR(manager->AwaitStep(absl::Minutes(10)).status());
  const auto lock = lock_model();
  CKPTDB_RETURN_IF_ERROR(manager->ApplyStep().status());
  static_cast<void>(lock);
  return absl::OkStatus();
}

// manager/manager_options.h
inline void Options() {
  ManagerOptions options{.path = "checkpoints",
                         .schedule = {.permanent = SaveEveryNSteps(1000)},
                         .retention = {.keep = LatestN(3)},
                         .save = {.base_every = 100},
                         .restore = {.best = {{.metric = "auc"}}},
                         .ranks = {.deadline = absl::Minutes(5)}};
}

inline absl::Status Config() {
  ManagerOptions options{.path = "checkpoints"};
  CKPTDB_RETURN_IF_ERROR(ReadManagerConfig(R"({
    "permanent": {"save_every_n_steps": 1000},
    "keep": {"any": [{"latest_n": 3}, {"best_n": {"metric": "auc"}}]},
    "busy": "coalesce"
  })",
                                           &options));
  return absl::OkStatus();
}

// manager/results.h
inline absl::Status Saves(CheckpointManager* manager) {
  CKPTDB_ASSIGN_OR_RETURN(PendingSave save, manager->Save());
  CKPTDB_RETURN_IF_ERROR(save.WaitStaged());
  CKPTDB_ASSIGN_OR_RETURN(SaveResult result, save.WaitCommitted());
  return absl::OkStatus();
}

// manager/policies.h
inline void Policies() {
  ManagerOptions options{
      .path = "checkpoints",
      .schedule = {.permanent = SaveEveryNSteps(1000) | SaveOnPreemption(),
                   .ephemeral = SaveEveryNSeconds(300)},
      .retention = {.keep = LatestN(3) | BestN("auc", 2)}};
}

// manager/load_rule.h
inline absl::Status Evolving(CheckpointManager* manager) {
  RestoreReport report;
  RestoreRequest request;
  request.evolve =
      EvolvePolicy{.oname = {{"user", "member"}},
                   .tables = {{"user", {.fill = {{"adagrad_sum", 0.1}}}}}};
  CKPTDB_ASSIGN_OR_RETURN(report, manager->Restore(request));
  return absl::OkStatus();
}

// manager/model_state.h
inline absl::Status Models(float* weights, TableState& user_table,
                           BlobState& reader) {
  int64_t epoch = 0;
  ModelState model;
  CKPTDB_RETURN_IF_ERROR(
      model.AddTensor("mlp.0.weight", TensorState::Of(weights, {3, 4})));
  CKPTDB_RETURN_IF_ERROR(
      model.AddTable("user", &user_table, TableSharding::BySlices()));
  CKPTDB_RETURN_IF_ERROR(model.AddIoState("reader", &reader));
  CKPTDB_RETURN_IF_ERROR(model.AddValue("epoch", &epoch));
  return absl::OkStatus();
}

inline absl::Status DeviceTensors(ModelState model, float* device_pointer,
                                  void* stream) {
  CKPTDB_ASSIGN_OR_RETURN(auto device, CudaDevice::Open());
  TensorState weights = TensorState::Of(device_pointer, {3, 4});
  weights.device = device.get();
  weights.stream = stream;
  CKPTDB_RETURN_IF_ERROR(model.AddTensor("mlp.0.weight", weights));
  return absl::OkStatus();
}

// manager/map_table.h, manager/tables.h
inline void Maps() {
  std::unordered_map<int64_t, std::array<float, 16>> items;
  MapTable item_table(&items, {Field("embedding")});
}

inline absl::Status Maps(ModelState model) {
  struct User {
    std::array<float, 16> embedding;
    int64_t last_step;
  };
  std::unordered_map<int64_t, User> users;
  MapTable user_table(&users, {Field("embedding", &User::embedding),
                               Field("last_step", &User::last_step)});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &user_table));
  users[17].last_step = 1;
  user_table.MarkUpserted({17});
  users.erase(18);
  user_table.MarkErased({18});
  return absl::OkStatus();
}

inline absl::Status Columns(ModelState model) {
  ColumnTable users(
      {{"embedding", DType::kF32, 16}, {"last_step", DType::kI64, 1}});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("user", &users));
  CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Column<float> embedding,
                          users.column<float>("embedding"));

  CKPTDB_ASSIGN_OR_RETURN(const ColumnTable::Inserted user, users.Insert(17));
  embedding[user.row][0] = 0.5f;
  users.Erase(18);
  return absl::OkStatus();
}

inline absl::Status Vectors(ModelState model) {
  std::vector<float> embedding(1000 * 16);
  VectorTable items(1000, {Array("embedding", embedding.data(), 16)});
  CKPTDB_RETURN_IF_ERROR(model.AddTable("item", &items));
  CKPTDB_RETURN_IF_ERROR(items.MarkUpserted({17, 900}));
  return absl::OkStatus();
}

inline absl::Status SomeColumns(ModelState model, uint32_t rank) {
  std::vector<float> half(1000 * 8);
  VectorTable items(1000,
                    {Array("embedding", half.data(), 8,
                           {.first_column = rank * 8, .all_columns = 16})});
  CKPTDB_RETURN_IF_ERROR(
      model.AddTable("item", &items, TableSharding::ByRange(1000)));
  return absl::OkStatus();
}

inline absl::Status Views(TableState& user_table) {
  TableView served(&user_table, {{"embedding", Codec::kInt8}});
  ModelState serving;
  CKPTDB_RETURN_IF_ERROR(serving.AddTable("user", &served));
  return absl::OkStatus();
}

// manager/coordinator.h
inline void Groups(const std::string& part) {
  ThreadGroup group(/*world_size=*/4);
  std::thread worker([&] {
    std::unique_ptr<Coordinator> ranks = group.Join(/*rank=*/2);
    auto parts = ranks->Gather("staged", part, absl::Seconds(60));
  });
  worker.join();
}

struct ProcessGroup {};
absl::StatusOr<std::vector<std::string>> AllGather(ProcessGroup& pg,
                                                   const std::string& own);
absl::StatusOr<std::string> FromZero(ProcessGroup& pg,
                                     const std::string& value);
absl::StatusOr<std::vector<std::string>> AllToAll(
    ProcessGroup& pg, const std::vector<std::string>& to);
void Abort(ProcessGroup& pg, const absl::Status& why);

inline void Collectives(ProcessGroup& pg, uint32_t torch_rank,
                        uint32_t torch_world_size) {
  Coordinator::Collectives group;
  group.rank = torch_rank;
  group.world_size = torch_world_size;
  group.all_gather = [&](std::string own) { return AllGather(pg, own); };
  group.broadcast = [&](std::string value) { return FromZero(pg, value); };
  group.all_to_all = [&](std::vector<std::string> to) {
    return AllToAll(pg, to);
  };
  group.abort = [&](const absl::Status& why) { Abort(pg, why); };
  auto ranks = CollectiveCoordinator(std::move(group));
}

// manager/evaluation_state.h
inline absl::Status Evaluations(CheckpointManager* manager, BlobState& meters,
                                BlobState& loader, uint64_t batches) {
  EvaluationState& evaluation = *manager->evaluation();
  CKPTDB_RETURN_IF_ERROR(evaluation.AddGroup("eval/ctr", &meters));
  const EvaluationState::Name name = {.step = manager->global_step(),
                                      .evaluation = "day_7",
                                      .group = "eval/ctr"};
  CKPTDB_ASSIGN_OR_RETURN(uint64_t done, evaluation.Load(name, &loader));
  for (; done < batches; ++done) {
    if (done % 1000 == 0) {
      CKPTDB_RETURN_IF_ERROR(evaluation.Save(name, &loader, done));
    }
    evaluate();
  }
  CKPTDB_RETURN_IF_ERROR(evaluation.Cleanup(name.step));
  return absl::OkStatus();
}

}  // namespace ckptdb::samples
