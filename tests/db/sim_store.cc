// SPDX-License-Identifier: Apache-2.0
#include "tests/db/sim_store.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/meta/catalog.h"
#include "db/rocks/rocks_options.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/keys.h"
#include "schema/bytes/limits.h"
#include "schema/status.h"
#include "schema/types.h"
#include "tests/db/delta_content.h"
#include "tests/support/status_matchers.h"

namespace ckptdb::testing {
namespace {

constexpr char kSerial[] = "serial";
constexpr char kEvaluation[] = "test/day_7";
// A rank's part above this many bytes is bulk.
constexpr uint32_t kBulkWorld = 64;
constexpr uint64_t kBulkBytes = kInlineBytes / kBulkWorld + (uint64_t{1} << 10);
// What an empty store may take: logs, the MANIFEST, the identity.
constexpr uint64_t kFixedBytes = uint64_t{256} << 10;

SaveSpec SpecOf(int64_t step, const ModelStep& content) {
  return {.step = step,
          .overwrite = true,
          .world_size = static_cast<uint32_t>(content.ranks.size())};
}

RankContent Small(uint64_t seed) {
  RankContent content = SmallContent(seed, 20);
  content.tensors["fixed"] = TensorContent::Of<int32_t>({2}, {1, 2});
  return content;
}

absl::Status WrongBytes(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("wrong bytes in ", what));
}

absl::Status ReadRank(const StepReader& step, uint32_t rank,
                      const RankContent& content) {
  for (const auto& [name, tensor] : content.tensors) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                            ReadTensorBytes(step, name));
    if (bytes != tensor.bytes) return WrongBytes(name);
  }
  for (const auto& [name, table] : content.tables) {
    CKPTDB_ASSIGN_OR_RETURN(const Rows rows, Scan(step, name));
    if (rows != table.rows) return WrongBytes(name);
    if (rows.empty()) continue;
    CKPTDB_ASSIGN_OR_RETURN(const std::vector<std::string> row,
                            step.LookupRow(name, rows.begin()->first));
    std::string values;
    for (const std::string& slot : row) values += slot;
    if (values != rows.begin()->second) return WrongBytes("a row");
  }
  for (const auto& [name, blob] : content.blobs) {
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes, step.ReadBlob(rank, name));
    if (bytes != blob) return WrongBytes(name);
  }
  return absl::OkStatus();
}

std::vector<StepRecord::Evaluation> EvaluationParts(
    const std::string& evaluation) {
  return {{1, evaluation, "first"}, {2, evaluation, "second"}};
}

// `from` is a Store or a Reader.
template <typename From>
absl::Status ReadEvaluation(From* from, int64_t step,
                            const std::string& evaluation) {
  CKPTDB_ASSIGN_OR_RETURN(const auto stored, from->ListEvaluations(step));
  const std::vector<StepRecord::Evaluation> parts =
      evaluation.empty() ? std::vector<StepRecord::Evaluation>()
                         : EvaluationParts(evaluation);
  if (stored.size() != parts.size()) return WrongBytes("evaluations");
  for (uint32_t rank = 0; rank < parts.size(); ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(const auto found,
                            from->FindEvaluation(step, kEvaluation, rank));
    if (!found.has_value() || found->processed != parts[rank].processed ||
        found->meters != parts[rank].meters ||
        found->loader != parts[rank].loader) {
      return WrongBytes("an evaluation");
    }
  }
  return absl::OkStatus();
}

template <typename From>
absl::Status ReadStep(From* from, int64_t step, const ModelStep& model) {
  CKPTDB_RETURN_IF_ERROR(ReadEvaluation(from, step, model.evaluation));
  CKPTDB_ASSIGN_OR_RETURN(const auto reader, from->OpenStep(step));
  if (reader->ranks().size() != model.ranks.size()) return WrongBytes("ranks");
  for (uint32_t rank = 0; rank < model.ranks.size(); ++rank) {
    const RankContent& content = model.ranks[rank];
    if (reader->ranks()[rank].items.size() !=
        content.tensors.size() + content.tables.size() + content.blobs.size()) {
      return WrongBytes("items");
    }
    CKPTDB_RETURN_IF_ERROR(ReadRank(*reader, rank, content));
  }
  return reader->Verify();
}

template <typename From>
absl::Status ReadSteps(From* from, const StoreModel& model) {
  for (const auto& [step, content] : model) {
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(ReadStep(from, step, content),
                                              absl::StrCat("step ", step)));
  }
  return absl::OkStatus();
}

void AppendStep(int64_t step, double serial, bool pinned, bool quarantined,
                const std::string& evaluation, std::string* outline) {
  absl::StrAppend(outline, step, "=", serial, pinned ? "p" : "",
                  quarantined ? "q" : "", evaluation, " ");
}

// What ReadStep finds damaged is left out.
template <typename From>
std::string EvaluationOf(const From& from, int64_t step) {
  const auto found = from.FindEvaluation(step, kEvaluation, 0);
  return found.ok() && found->has_value() ? (*found)->meters : "";
}

template <typename From>
std::string OutlineOf(const From& from) {
  std::string outline;
  for (const StepRecord& record : from.Steps()) {
    const auto serial = record.metrics.find(kSerial);
    AppendStep(record.version.step,
               serial == record.metrics.end() ? -1 : serial->second,
               record.pinned, record.quarantined,
               EvaluationOf(from, record.version.step), &outline);
  }
  return outline;
}

struct Contents {
  std::set<std::string> tables;  // paths
  std::set<Version> versions;    // of data and of rank records
};

void AddKeys(rocksdb::DB* rocks, rocksdb::ColumnFamilyHandle* family,
             const std::string& prefix, Contents* contents) {
  const std::unique_ptr<rocksdb::Iterator> entries(
      rocks->NewIterator(rocksdb::ReadOptions(), family));
  for (entries->Seek(prefix);
       entries->Valid() && entries->key().starts_with(prefix);
       entries->Next()) {
    rocksdb::Slice key = entries->key();
    key.remove_prefix(prefix.size());
    const auto version = ParseVersionPrefix({key.data(), key.size()});
    EXPECT_OK(version);
    if (version.ok()) contents->versions.insert(*version);
  }
  EXPECT_TRUE(entries->status().ok()) << entries->status().ToString();
}

Contents ReadContents(const internal::Environment& environment) {
  Contents contents;
  const auto env = rocksdb::NewCompositeEnv(environment.file_system());
  rocksdb::DBOptions options = internal::DatabaseOptions(env.get());
  options.create_if_missing = false;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(
      options, absl::StrCat(SimStore::kPath, "/db"),
      internal::FamilyDescriptors(), &handles, &raw);
  EXPECT_TRUE(status.ok()) << status.ToString();
  if (!status.ok()) return contents;
  const std::unique_ptr<rocksdb::DB> rocks(raw);
  std::vector<rocksdb::LiveFileMetaData> files;
  rocks->GetLiveFilesMetaData(&files);
  for (const rocksdb::LiveFileMetaData& file : files)
    contents.tables.insert(SimStore::kPath + ("/db" + file.name));
  AddKeys(raw, handles.at(1), "r", &contents);
  AddKeys(raw, handles.at(1), "e", &contents);
  AddKeys(raw, handles.at(2), "", &contents);
  AddKeys(raw, handles.at(3), "", &contents);
  for (rocksdb::ColumnFamilyHandle* handle : handles)
    rocks->DestroyColumnFamilyHandle(handle);
  return contents;
}

}  // namespace

SimStore::SimStore(std::shared_ptr<SimFileSystem> files)
    : files_(std::move(files)),
      environment_(std::make_shared<internal::Environment>(
          files_, [] { return int64_t{1'700'000'000'000'000}; },
          /*on_disk=*/false)) {
  options_.background_sweep = false;
  options_.stage_threads = 1;
  options_.environment = environment_;
}

absl::Status SimStore::Open() {
  store_.reset();
  CKPTDB_ASSIGN_OR_RETURN(store_, Store::Open(kPath, options_));
  return absl::OkStatus();
}

absl::StatusOr<Store::Attempt> SimStore::Begin(
    const SaveSpec& spec, const ModelStep& step,
    std::vector<StagedRank>* staged) {
  CKPTDB_ASSIGN_OR_RETURN(Store::Attempt save, store_->Begin(spec));
  for (uint32_t rank = 0; rank < spec.world_size; ++rank) {
    const HeldState held(step.ranks[rank], 100, AnyRank(save.tickets[rank]));
    absl::StatusOr<StagedRank> part =
        Stage(kPath, save.tickets[rank], held.state(), stage_options());
    if (!part.ok()) {
      store_->Abandon(save.version).IgnoreError();
      return part.status();
    }
    staged->push_back(*std::move(part));
  }
  return save;
}

absl::Status SimStore::Save(const SaveSpec& spec, const ModelStep& step) {
  SaveSpec with_serial = spec;
  with_serial.metrics[kSerial] = step.serial;
  std::vector<StagedRank> staged;
  CKPTDB_ASSIGN_OR_RETURN(const Store::Attempt save,
                          Begin(spec, step, &staged));
  absl::Status status =
      store_->Publish(save.version, staged, with_serial).status();
  if (!status.ok()) store_->Abandon(save.version).IgnoreError();
  return status;
}

ModelStep InlineStep(double serial) {
  return {{Small(static_cast<uint64_t>(serial))}, serial, false, false};
}

ModelStep BulkStep(double serial) {
  const auto seed = static_cast<uint64_t>(serial);
  ModelStep step{std::vector<RankContent>(kBulkWorld), serial, false, false};
  step.ranks[0] = Small(seed);
  step.ranks[1].tensors["changed"] = BulkTensor(seed, kBulkBytes);
  step.ranks[1].tensors["same"] = BulkTensor(1, 4096);
  step.ranks[2].tensors["zeros"] =
      TensorContent::Of<float>({static_cast<int64_t>(kBulkBytes / 4)},
                               std::vector<float>(kBulkBytes / 4));
  step.ranks[2].tensors["zeros"].codec = Codec::kLz4;
  return step;
}

ModelStep ChangedStep(double serial, const ModelStep& before) {
  ModelStep step{before.ranks, serial, false, false};
  std::mt19937_64 random(static_cast<uint64_t>(serial));
  RankContent& rank = step.ranks.at(0);
  rank.blobs["reader"] = absl::StrCat("position ", serial);
  Rows& rows = rank.tables["user"].rows;
  for (int i = 0; i < 4; ++i) rows.erase(rows.begin());
  rows.merge(RandomRows(&random, rank.tables["user"].row_bytes(), 6));
  rows.rbegin()->second = RandomBytes(&random, rows.rbegin()->second.size());
  return step;
}

Action SaveAction(int64_t step, const ModelStep& content,
                  const std::vector<int64_t>& retire) {
  return {absl::StrCat("save ", step),
          [=](SimStore* sim) {
            SaveSpec spec = SpecOf(step, content);
            spec.retire = retire;
            return sim->Save(spec, content);
          },
          [=](StoreModel* model) {
            for (const int64_t retired : retire) model->erase(retired);
            (*model)[step] = content;
          }};
}

Action SaveOverAction(int64_t step, const ModelStep& content, int64_t parent,
                      const ModelStep& before,
                      const std::vector<int64_t>& retire) {
  Action action = SaveAction(step, content, retire);
  action.name = absl::StrCat("save ", step, " over ", parent);
  action.run = [=](SimStore* sim) -> absl::Status {
    CKPTDB_ASSIGN_OR_RETURN(const StepRecord old,
                            sim->store()->FindStep(parent));
    SaveSpec spec = SpecOf(step, content);
    spec.parent = old.version;
    const RankContent& rank = content.ranks.at(0);
    const HeldChanges held(rank, ChangesBetween(before.ranks.at(0), rank),
                           /*whole=*/false);
    spec.retire = retire;
    spec.metrics[kSerial] = content.serial;
    return sim->store()->Save(spec, held.state()).status();
  };
  return action;
}

Action FoldAction(int64_t step) {
  return {absl::StrCat("fold ", step),
          [=](SimStore* sim) {
            return sim->store()->Fold(step, {.threads = 1}).status();
          },
          [](StoreModel*) {}};
}

Action EvaluateAction(int64_t step, const std::string& evaluation) {
  return {absl::StrCat("evaluate ", step),
          [=](SimStore* sim) {
            return sim->store()->SaveEvaluation(step, kEvaluation, "eval/ctr",
                                                EvaluationParts(evaluation));
          },
          [=](StoreModel* model) { model->at(step).evaluation = evaluation; }};
}

Action DeleteEvaluationsAction(const std::vector<int64_t>& steps) {
  return {"delete evaluations",
          [=](SimStore* sim) { return sim->store()->DeleteEvaluations(steps); },
          [=](StoreModel* model) {
            for (const int64_t step : steps) model->at(step).evaluation = "";
          }};
}

Action DeleteAction(int64_t step) {
  return {absl::StrCat("delete ", step),
          [=](SimStore* sim) { return sim->store()->Delete(step); },
          [=](StoreModel* model) { model->erase(step); }};
}

Action PinAction(int64_t step) {
  return {absl::StrCat("pin ", step),
          [=](SimStore* sim) { return sim->store()->Pin(step); },
          [=](StoreModel* model) { model->at(step).pinned = true; }};
}

Action UnpinAction(int64_t step) {
  return {absl::StrCat("unpin ", step),
          [=](SimStore* sim) { return sim->store()->Unpin(step); },
          [=](StoreModel* model) { model->at(step).pinned = false; }};
}

Action QuarantineAction(int64_t step) {
  return {absl::StrCat("quarantine ", step),
          [=](SimStore* sim) { return sim->store()->Quarantine(step); },
          [=](StoreModel* model) { model->at(step).quarantined = true; }};
}

Action SweepAction() {
  return {"sweep", [](SimStore* sim) { return sim->store()->Sweep().status(); },
          [](StoreModel*) {}};
}

Action ReopenAction() {
  return {"reopen", [](SimStore* sim) { return sim->Open(); },
          [](StoreModel*) {}};
}

Action UnfinishedAction(int64_t step, const ModelStep& content) {
  return {absl::StrCat("unfinished ", step),
          [=](SimStore* sim) {
            std::vector<StagedRank> staged;
            return sim->Begin(SpecOf(step, content), content, &staged).status();
          },
          [](StoreModel*) {}};
}

std::vector<Action> EveryAction() {
  return {SaveAction(10, InlineStep(1)),
          SaveAction(20, BulkStep(2)),
          SaveAction(30, BulkStep(3)),
          SaveAction(20, InlineStep(4)),  // bulk by inline
          PinAction(30),
          SweepAction(),
          SaveAction(40, InlineStep(5), {10}),
          UnfinishedAction(45, BulkStep(6)),
          ReopenAction(),
          SaveAction(20, BulkStep(7)),  // inline by bulk
          SweepAction(),
          UnpinAction(30),
          DeleteAction(30),
          DeleteAction(40),
          SweepAction(),
          QuarantineAction(20),
          SaveAction(20, BulkStep(8)),
          SaveAction(50, InlineStep(9)),
          DeleteAction(50),
          ReopenAction(),
          SweepAction()};
}

std::string Outline(const StoreModel& model) {
  std::string outline;
  for (const auto& [step, content] : model) {
    AppendStep(step, content.serial, content.pinned, content.quarantined,
               content.evaluation, &outline);
  }
  return outline;
}

std::string Outline(const Store& store) { return OutlineOf(store); }

std::string Outline(const Reader& reader) { return OutlineOf(reader); }

absl::Status ReadModel(Store* store, const StoreModel& model) {
  return ReadSteps(store, model);
}

absl::Status ReadModel(Reader* reader, const StoreModel& model) {
  return ReadSteps(reader, model);
}

void ExpectModel(Store* store, const StoreModel& model) {
  EXPECT_EQ(Outline(*store), Outline(model));
  EXPECT_OK(ReadModel(store, model));
}

absl::Status FoldAll(SimStore* sim) {
  for (const StepRecord& record : sim->store()->Steps())
    CKPTDB_RETURN_IF_ERROR(FoldAction(record.version.step).run(sim));
  return absl::OkStatus();
}

void ExpectNoOrphans(SimStore* sim) {
  ASSERT_OK_AND_ASSIGN(const Store::SweepResult swept, sim->store()->Sweep());
  EXPECT_TRUE(swept.quarantined_versions.empty())
      << ToString(swept.quarantined_versions.front());
  ASSERT_OK_AND_ASSIGN(const Usage usage, sim->store()->GetUsage());
  uint64_t needed = kFixedBytes;
  for (const Usage::Held& held : usage.held_versions) {
    EXPECT_EQ(held.reason, Usage::Held::Reason::kReferenced)
        << ToString(held.version);
    needed += held.stored_bytes;
  }
  std::set<Version> versions;
  for (const StepRecord& record : sim->store()->Steps()) {
    const std::vector<Version> step = internal::VersionsOf(record);
    versions.insert(step.begin(), step.end());
    needed += record.exclusive_bytes;
  }
  sim->Close();
  const Contents contents = ReadContents(*sim->environment());
  for (const SimPathSize& file : sim->files()->ListFiles(SimStore::kPath)) {
    EXPECT_FALSE(absl::StrContains(file.path, "/staging/")) << file.path;
    EXPECT_TRUE(!absl::EndsWith(file.path, ".sst") ||
                contents.tables.contains(file.path))
        << file.path;
  }
  for (const Version& version : contents.versions)
    EXPECT_TRUE(versions.contains(version)) << ToString(version);
  EXPECT_LE(sim->files()->TotalBytes(), needed);
}

void ExpectUsable(SimStore* sim, StoreModel model) {
  const Action save = SaveAction(1000, InlineStep(1000));
  const Action bulk = SaveAction(1001, BulkStep(1001));
  for (const Action& action : {save, bulk, ReopenAction()}) {
    ASSERT_OK(action.run(sim));
    action.apply(&model);
  }
  ExpectModel(sim->store(), model);
}

void EachAtOnce(uint64_t count, const std::function<void(uint64_t)>& run,
                uint64_t stride) {
  constexpr int kThreads = 24;
  // All databases of a process share them.
  rocksdb::Env::Default()->SetBackgroundThreads(kThreads, rocksdb::Env::HIGH);
  rocksdb::Env::Default()->SetBackgroundThreads(kThreads, rocksdb::Env::LOW);
  std::atomic<uint64_t> next = FirstCase(stride);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (uint64_t at = next.fetch_add(stride); at < count;
           at = next.fetch_add(stride)) {
        if (::testing::Test::HasFailure()) return;
        run(at);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ckptdb::testing
