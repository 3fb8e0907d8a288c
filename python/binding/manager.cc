// SPDX-License-Identifier: Apache-2.0
#include "python/binding/manager.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "manager/checkpoint_manager.h"
#include "manager/coordinator.h"
#include "manager/load_rule.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"
#include "python/binding/address.h"
#include "python/binding/arguments.h"
#include "python/binding/devices.h"
#include "python/binding/errors.h"
#include "python/binding/io_state.h"
#include "python/binding/pending_save.h"
#include "python/binding/ranks.h"
#include "python/binding/reader.h"
#include "python/binding/records.h"
#include "python/binding/tables.h"

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;

// An object whose bytes Python gave before a save; or takes after a restore.
class Bytes : public BlobState {
 public:
  Bytes(std::string name, std::string bytes,
        std::map<std::string, std::string>* loaded)
      : name_(std::move(name)), bytes_(std::move(bytes)), loaded_(*loaded) {}
  absl::StatusOr<std::string> Dump() override { return bytes_; }
  absl::Status Load(absl::string_view bytes) override {
    loaded_[name_] = std::string(bytes);
    return absl::OkStatus();
  }

 private:
  const std::string name_;
  const std::string bytes_;
  std::map<std::string, std::string>& loaded_;
};

// Name, dtype, shape, address, of a shard the whole tensor's shape and the
// offset in it, which are otherwise empty, and of a tensor on a GPU its device
// and stream.
using TensorTuple = std::tuple<std::string, std::string, Shape, Address, Shape,
                               Shape, Address, Address>;
using ObjectTuple = std::pair<std::string, nb::bytes>;

// How calls run: without the GIL, until a signal interrupts them, and with the
// tables locked.
class ManagerCalls {
 protected:
  // Tables are shared with other threads, which may only read them meanwhile.
  class TableLocks {
   public:
    explicit TableLocks(const std::vector<TableHandle*>& tables, bool exclusive)
        : tables_(tables), exclusive_(exclusive) {
      for (TableHandle* const table : tables_) {
        exclusive_ ? table->mutex().lock() : table->mutex().lock_shared();
      }
    }
    ~TableLocks() {
      for (TableHandle* const table : tables_) {
        exclusive_ ? table->mutex().unlock() : table->mutex().unlock_shared();
      }
    }
    TableLocks(const TableLocks&) = delete;
    TableLocks& operator=(const TableLocks&) = delete;

   private:
    const std::vector<TableHandle*>& tables_;
    const bool exclusive_;
  };

  template <typename Call>
  auto Run(const Call& call) {
    return Interruptible(interrupt_.get(), call);
  }
  template <typename Call>
  auto RunReading(const Call& call) {
    return Run([&] {
      const TableLocks locks(tables_, /*exclusive=*/false);
      return call();
    });
  }
  template <typename Call>
  auto RunWriting(const Call& call) {
    loaded_.clear();
    return Run([&] {
      const TableLocks locks(tables_, /*exclusive=*/true);
      return call();
    });
  }
  absl::Status NoStore() const {
    if (rank_ != kOwnerRank) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank_, " of ", world_size_,
                       " owns no store; call this on rank 0"));
    }
    return absl::FailedPreconditionError(
        "the manager is closed or read-only: it owns no store");
  }
  template <typename Call>
  auto OnStore(const Call& call) {
    process_.Check();
    Store* const store = manager_->store();
    if (store == nullptr) throw StatusError(NoStore());
    return Run([&] { return call(store); });
  }

  const Process process_{};
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();
  uint32_t rank_ = kOwnerRank;
  uint32_t world_size_ = 1;
  std::vector<TableHandle*> tables_;
  std::map<std::string, std::string> loaded_;  // objects, by name
  bool written_ = false;                       // by the last restore or load
  ModelState model_;
  std::unique_ptr<CheckpointManager> manager_;
};

class PyManager : private ManagerCalls {
 public:
  // Name, table, and its sharding: see ShardingOf.
  using Tables = std::vector<std::tuple<std::string, TableHandle*, nb::object>>;
  using IoStates = std::vector<std::tuple<std::string, nb::object, nb::object>>;

  // `provide(step)` returns the tensors and objects of the model, for a save if
  // `step` is None, and otherwise to restore that step. Tables outlive the
  // manager. `ranks` is null for a single process.
  PyManager(const std::string& config, const nb::dict& objects,
            nb::object provide, const Tables& tables, const IoStates& io_states,
            PyCoordinator* ranks)
      : provide_(Hold(std::move(provide))) {
    ManagerOptions options;
    Check(ReadManagerConfig(config, &options));
    SetObjects(objects, &options);
    // Saves that are waited for may outlive the manager.
    const auto cancelled = [interrupt = interrupt_] {
      return interrupt->Poll();
    };
    options.restore.read.cancelled = cancelled;
    options.observers.cancelled = cancelled;
    for (const auto& [name, table, sharding] : tables) {
      Check(model_.AddTable(name, table->state(), ShardingOf(sharding)));
      tables_.push_back(table);
    }
    for (const auto& [name, dump, load] : io_states) {
      io_states_.push_back(std::make_unique<IoState>(name, dump, load));
      Check(model_.AddIoState(name, io_states_.back().get()));
    }
    model_.SetProvider(
        [this](const StepReader* step) { return Provide(step); });
    std::unique_ptr<Coordinator> coordinator =
        ranks == nullptr ? SingleProcess() : ranks->Take();
    rank_ = coordinator->rank();
    world_size_ = coordinator->world_size();
    manager_ = Check(Run([&] {
      return CheckpointManager::Open(options, &model_, std::move(coordinator));
    }));
  }
  ~PyManager() {
    if (!process_.IsThis()) {
      (void)manager_.release();
      return;
    }
    const ReleaseGil release;
    manager_.reset();
  }

  void Close() {
    process_.Check();
    Check(Run([&] { return manager_->Close(); }));
  }
  int64_t global_step() const { return manager_->global_step(); }
  PyOutcome Step(const std::optional<Metrics>& metrics,
                 const std::optional<UserMetadata>& user_metadata) {
    process_.Check();
    return {Check(RunReading([&] {
              return manager_->Step(metrics.value_or(Metrics()),
                                    user_metadata.value_or(UserMetadata()));
            })),
            interrupt_};
  }
  PyOutcome StepTo(int64_t step, const std::optional<Metrics>& metrics,
                   const std::optional<UserMetadata>& user_metadata) {
    process_.Check();
    return {Check(RunReading([&] {
              return manager_->StepTo(step, metrics.value_or(Metrics()),
                                      user_metadata.value_or(UserMetadata()));
            })),
            interrupt_};
  }
  std::pair<std::string, std::string> ShouldSave(int64_t step,
                                                 const Metrics& metrics) {
    process_.Check();
    const SavePolicy::Decision decision =
        Check(Run([&] { return manager_->ShouldSave(step, metrics); }));
    return {std::string(SaveKindName(decision.kind)), decision.reason};
  }
  std::unique_ptr<PySave> Save(const Metrics& metrics,
                               const UserMetadata& user_metadata,
                               bool overwrite) {
    SaveRequest request;
    request.metrics = metrics;
    request.user_metadata = user_metadata;
    request.overwrite = overwrite;
    process_.Check();
    return std::make_unique<PySave>(
        Check(RunReading([&] { return manager_->Save(request); })), interrupt_);
  }
  void StartTraining() {
    process_.Check();
    Check(RunReading([&] { return manager_->StartTraining(); }));
  }
  void FinishTraining() {
    process_.Check();
    Check(RunReading([&] { return manager_->FinishTraining(); }));
  }
  // The request as a dictionary: step, best, path, merge, verify, fall_back,
  // evolve.
  nb::dict Restore(const nb::dict& request, bool or_start) {
    process_.Check();
    const RestoreRequest restore = RequestOf(request);
    const RestoreReport report = Check(RunWriting([&] {
      absl::StatusOr<RestoreReport> restored =
          or_start ? manager_->RestoreOrStart(restore)
                   : manager_->Restore(restore);
      written_ = restored.ok() && !restored->fresh;
      return restored;
    }));
    if (report.fresh) CheckCanBeSaved();
    return ToDict(report);
  }
  // Calls `loaded` with the report of each rule, before the next rule provides
  // other memory for the same state.
  void Load(const std::string& rules, bool dry_run,
            const nb::callable& loaded) {
    process_.Check();
    const std::vector<LoadRule> parsed = Check(ParseLoadSpec(rules));
    for (const LoadRule& rule : parsed) {
      const LoadSummary summary = Check(RunWriting([&] {
        absl::StatusOr<LoadSummary> done = manager_->Load({rule}, dry_run);
        written_ = done.ok() && !dry_run;
        return done;
      }));
      loaded(ToDict(summary.rules.front()));
    }
  }
  // Whether the model was written since the last call of this: a signal may
  // take the place of a result.
  bool TakeWritten() { return std::exchange(written_, false); }
  // The objects that the last restore or load loaded, by name.
  nb::dict TakeLoaded() {
    nb::dict dict;
    for (const auto& [name, bytes] : loaded_) {
      dict[name.c_str()] = nb::bytes(bytes.data(), bytes.size());
    }
    loaded_.clear();
    return dict;
  }
  void AbandonSteps() {
    process_.Check();
    Check(Run([&] { return manager_->AbandonSteps(); }));
  }
  int64_t AwaitStep(double timeout) {
    process_.Check();
    return Check(
               Run([&] { return manager_->AwaitStep(absl::Seconds(timeout)); }))
        .step;
  }
  nb::dict ApplyStep() {
    process_.Check();
    return ToDict(Check(RunWriting([&] {
      absl::StatusOr<RestoreReport> restored = manager_->ApplyStep();
      written_ = restored.ok();
      return restored;
    })));
  }
  // Evaluations: the meters of a group, and a loader, are pairs of functions.
  void AddGroup(const std::string& group, nb::object dump, nb::object load) {
    process_.Check();
    auto meters =
        std::make_unique<IoState>(group, std::move(dump), std::move(load));
    Check(manager_->evaluation()->AddGroup(group, meters.get()));
    meters_.push_back(std::move(meters));
  }
  void SaveEvaluation(int64_t step, const std::string& evaluation,
                      const std::string& group, nb::object dump,
                      uint64_t processed) {
    process_.Check();
    IoState loader(evaluation, std::move(dump), nb::none());
    Check(Run([&] {
      return manager_->evaluation()->Save({step, evaluation, group}, &loader,
                                          processed);
    }));
  }
  uint64_t LoadEvaluation(int64_t step, const std::string& evaluation,
                          const std::string& group, nb::object load) {
    process_.Check();
    IoState loader(evaluation, nb::none(), std::move(load));
    return Check(Run([&] {
      return manager_->evaluation()->Load({step, evaluation, group}, &loader);
    }));
  }
  // All evaluations but those of `step`, or those of `step` alone.
  void CleanupEvaluations(std::optional<int64_t> step, bool except) {
    process_.Check();
    Check(Run([&] {
      return except ? manager_->evaluation()->CleanupAll(step)
                    : manager_->evaluation()->Cleanup(step.value());
    }));
  }
  void SetPreempted() { manager_->SetPreempted(); }
  bool preempted() const { return manager_->preempted(); }
  bool saving() const { return manager_->IsSavingInProgress(); }
  void CheckForErrors() {
    process_.Check();
    Check(manager_->CheckForErrors());
  }
  void WaitUntilFinished() {
    process_.Check();
    Check(Run([&] { return manager_->WaitUntilFinished(); }));
  }
  // The progress of shipping, or None if this rank ships nothing.
  nb::object Shipping() const {
    process_.Check();
    const absl::StatusOr<ShippingStatistics> shipping = manager_->Shipping();
    if (absl::IsFailedPrecondition(shipping.status())) return nb::none();
    return ToDict(Check(shipping));
  }
  std::pair<std::string, std::string> Explain(int64_t step) const {
    process_.Check();
    const StepExplanation explanation = Check(manager_->Explain(step));
    return {explanation.saved, explanation.kept};
  }
  nb::dict BestStep() {
    process_.Check();
    return ToDict(Check(manager_->BestStep()));
  }
  void Delete(int64_t step) {
    process_.Check();
    Check(Run([&] { return manager_->Delete(step); }));
  }
  nb::list Steps() const {
    process_.Check();
    if (manager_->store() != nullptr) return ToList(manager_->store()->Steps());
    if (manager_->reader() != nullptr)
      return ToList(manager_->reader()->Steps());
    throw StatusError(NoStore());
  }
  void Pin(int64_t step, bool pin) {
    Check(OnStore([&](Store* store) {
      return pin ? store->Pin(step) : store->Unpin(step);
    }));
  }
  void Quarantine(int64_t step, bool quarantine) {
    Check(OnStore([&](Store* store) {
      return quarantine ? store->Quarantine(step)
                        : store->Unquarantine(step, Reads());
    }));
  }
  void AddMetrics(int64_t step, const Metrics& metrics) {
    Check(OnStore(
        [&](Store* store) { return store->AddMetrics(step, metrics); }));
  }
  nb::dict Fold(int64_t step) {
    nb::dict dict;
    const Store::FoldResult folded = Check(
        OnStore([&](Store* store) { return store->Fold(step, Reads()); }));
    dict["folded"] = folded.folded;
    dict["written_rows"] = folded.written_rows;
    dict["written_bytes"] = folded.written_bytes;
    return dict;
  }

 private:
  ReadOptions Reads() {
    ReadOptions reads{.threads = 4};
    reads.cancelled = [this] { return interrupt_->Poll(); };
    return reads;
  }
  // Without this check, training would fail at its first save, perhaps hours
  // later.
  void CheckCanBeSaved() {
    Check(Provide(nullptr));
    model_.RemoveTensorsAndObjects();
    objects_.clear();
  }
  absl::Status Provide(const StepReader* step) {
    absl::Status added;
    absl::Status called = WithPython("the state", [&] {
      const nb::object opened = step == nullptr ? nb::none() : BorrowStep(step);
      const nb::object provided = (*provide_)(opened);
      if (step != nullptr) opened.attr("close")();
      added = SetState(nb::cast<std::vector<TensorTuple>>(provided[0]),
                       nb::cast<std::vector<ObjectTuple>>(provided[1]));
    });
    called.Update(added);
    return called;
  }
  absl::Status SetState(const std::vector<TensorTuple>& tensors,
                        const std::vector<ObjectTuple>& objects) {
    model_.RemoveTensorsAndObjects();
    objects_.clear();
    for (const auto& [name, dtype, shape, address, global, offset, device,
                      stream] : tensors) {
      TensorState state;
      state.global_shape = global;
      state.offset = offset;
      state.dtype = Check(ParseDType(dtype));
      state.shape = shape;
      state.data = At<void>(address);
      state.device = DeviceAt(device);
      state.stream = At<void>(stream);
      absl::Status added = model_.AddTensor(name, std::move(state));
      if (!added.ok()) return added;
    }
    for (const auto& [name, bytes] : objects) {
      objects_.push_back(std::make_unique<Bytes>(
          name, std::string(bytes.c_str(), bytes.size()), &loaded_));
      absl::Status added = model_.AddObject(name, objects_.back().get());
      if (!added.ok()) return added;
    }
    return absl::OkStatus();
  }

  const PyRef provide_;
  std::vector<std::unique_ptr<IoState>> io_states_;
  std::vector<std::unique_ptr<Bytes>> objects_;
  std::vector<std::unique_ptr<IoState>> meters_;
};

}  // namespace

void BindManager(nb::module_& module) {
  nb::class_<PyManager>(module, "Manager")
      .def(nb::init<const std::string&, const nb::dict&, nb::object,
                    const PyManager::Tables&, const PyManager::IoStates&,
                    PyCoordinator*>(),
           "config"_a, "objects"_a, "provide"_a, "tables"_a, "io_states"_a,
           "ranks"_a.none())
      .def("close", &PyManager::Close)
      .def("global_step", &PyManager::global_step)
      .def("step", &PyManager::Step, "metrics"_a.none(),
           "user_metadata"_a.none())
      .def("step_to", &PyManager::StepTo, "step"_a, "metrics"_a.none(),
           "user_metadata"_a.none())
      .def("should_save", &PyManager::ShouldSave)
      .def("save", &PyManager::Save)
      .def("start_training", &PyManager::StartTraining)
      .def("finish_training", &PyManager::FinishTraining)
      .def("restore", &PyManager::Restore)
      .def("load", &PyManager::Load)
      .def("take_loaded", &PyManager::TakeLoaded)
      .def("take_written", &PyManager::TakeWritten)
      .def("abandon_steps", &PyManager::AbandonSteps)
      .def("await_step", &PyManager::AwaitStep)
      .def("apply_step", &PyManager::ApplyStep)
      .def("add_group", &PyManager::AddGroup)
      .def("save_evaluation", &PyManager::SaveEvaluation)
      .def("load_evaluation", &PyManager::LoadEvaluation)
      .def("cleanup_evaluations", &PyManager::CleanupEvaluations,
           "step"_a.none(), "others"_a)
      .def("set_preempted", &PyManager::SetPreempted)
      .def("preempted", &PyManager::preempted)
      .def("saving", &PyManager::saving)
      .def("check_for_errors", &PyManager::CheckForErrors)
      .def("wait_until_finished", &PyManager::WaitUntilFinished)
      .def("shipping", &PyManager::Shipping)
      .def("explain", &PyManager::Explain)
      .def("best_step", &PyManager::BestStep)
      .def("delete", &PyManager::Delete)
      .def("steps", &PyManager::Steps)
      .def("pin", &PyManager::Pin)
      .def("quarantine", &PyManager::Quarantine)
      .def("add_metrics", &PyManager::AddMetrics)
      .def("fold", &PyManager::Fold);
}

}  // namespace ckptdb::python
