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
#include "manager/load_rule.h"
#include "manager/manager_options.h"
#include "manager/model_state.h"
#include "python/binding/errors.h"
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

// State of which each rank saves its own, by functions of the trainer.
class IoState : public BlobState {
 public:
  IoState(std::string name, nb::object dump, nb::object load)
      : name_(std::move(name)),
        dump_(Hold(std::move(dump))),
        load_(Hold(std::move(load))) {}
  absl::StatusOr<std::string> Dump() override {
    std::string bytes;
    const absl::Status status = WithPython(name_ + ".io_state", [&] {
      const auto dumped = nb::cast<nb::bytes>((*dump_)());
      bytes.assign(dumped.c_str(), dumped.size());
    });
    if (!status.ok()) return status;
    return bytes;
  }
  absl::Status Load(absl::string_view bytes) override {
    return WithPython(name_ + ".load_io_state",
                      [&] { (*load_)(nb::bytes(bytes.data(), bytes.size())); });
  }

 private:
  const std::string name_;
  const PyRef dump_;
  const PyRef load_;
};

// A function of the trainer without a result; its exception is thrown, and the
// library returns it from a later call.
template <typename... Args>
auto Callback(const std::string& name, const nb::object& function) {
  return [name, held = Hold(function)](const Args&... args) {
    Check(WithPython(name, [&] { (*held)(args...); }));
  };
}
template <typename Report>
auto ReportCallback(const std::string& name, const nb::object& function) {
  return [name, held = Hold(function)](const Report& report) {
    Check(WithPython(name, [&] { (*held)(ToDict(report)); }));
  };
}

// The options that are not in the configuration.
void SetObjects(const nb::dict& objects, ManagerOptions* options) {
  for (const auto& [key, value] : objects) {
    const auto name = nb::cast<std::string>(key);
    const nb::object object = nb::borrow(value);
    if (name == "save") {
      options->schedule.permanent = nb::cast<SavePolicy>(object);
    } else if (name == "ephemeral") {
      options->schedule.ephemeral = nb::cast<SavePolicy>(object);
    } else if (name == "keep") {
      options->retention.keep = nb::cast<KeepPolicy>(object);
    } else if (name == "veto_ephemeral") {
      options->schedule.veto_ephemeral = [held = Hold(object)](int64_t step) {
        std::string reason;
        Check(WithPython("veto_ephemeral", [&] {
          const nb::object result = (*held)(step);
          if (!result.is_none()) reason = nb::cast<std::string>(result);
        }));
        return reason;
      };
    } else if (name == "now") {
      options->observers.now_micros = [held = Hold(object)] {
        double now = 0;
        Check(WithPython("now", [&] { now = nb::cast<double>((*held)()); }));
        return static_cast<int64_t>(now * 1e6);
      };
    } else if (name == "on_warning") {
      options->observers.on_warning = Callback<std::string>(name, object);
    } else if (name == "on_saved") {
      options->observers.on_saved = ReportCallback<SaveReport>(name, object);
    } else if (name == "on_restored") {
      options->observers.on_restored =
          ReportCallback<RestoreReport>(name, object);
    } else if (name == "on_deleted") {
      options->observers.on_deleted = Callback<int64_t>(name, object);
    } else if (name == "store") {
      const StoreOptions store = StoreOptionsOf(nb::cast<nb::dict>(object));
      const StoreOptions configured = options->store;
      options->store = store;
      options->store.background_sweep = configured.background_sweep;
      options->store.background_fold = configured.background_fold;
      options->store.fold_bounds = configured.fold_bounds;
    } else if (name == "read_threads") {
      options->restore.read.threads = nb::cast<int>(object);
    } else {
      throw StatusError(
          absl::InternalError(absl::StrCat("no option \"", name, "\"")));
    }
  }
}

// Name, dtype, shape, address.
using TensorTuple = std::tuple<std::string, std::string, Shape, uintptr_t>;
using ObjectTuple = std::pair<std::string, nb::bytes>;

// A save that runs in the background.
class PySave {
 public:
  PySave(PendingSave save, std::shared_ptr<Interrupt> interrupt)
      : save_(std::move(save)), interrupt_(std::move(interrupt)) {}
  int64_t step() const { return save_.step(); }
  bool done() const { return save_.committed_or_failed(); }
  void WaitStaged(std::optional<double> timeout) const {
    process_.Check();
    Check(Interruptible(interrupt_.get(),
                        [&] { return save_.WaitStaged(DurationOf(timeout)); }));
  }
  SaveResult WaitCommitted(std::optional<double> timeout) const {
    process_.Check();
    return Check(Interruptible(interrupt_.get(), [&] {
      return save_.WaitCommitted(DurationOf(timeout));
    }));
  }
  void Cancel() {
    const ReleaseGil release;
    save_.Cancel();
  }

 private:
  static absl::Duration DurationOf(std::optional<double> timeout) {
    return timeout.has_value() ? absl::Seconds(*timeout)
                               : absl::InfiniteDuration();
  }
  const Process process_{};
  PendingSave save_;
  const std::shared_ptr<Interrupt> interrupt_;
};

// The result of a step.
struct PyOutcome {
  StepOutcome outcome;
  std::shared_ptr<Interrupt> interrupt;

  std::unique_ptr<PySave> save() const {
    if (!outcome.save.has_value()) return nullptr;
    return std::make_unique<PySave>(*outcome.save, interrupt);
  }
};

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
  template <typename Call>
  auto OnStore(const Call& call) {
    process_.Check();
    Store* const store = manager_->store();
    if (store == nullptr) {
      throw StatusError(absl::FailedPreconditionError(
          "the manager is closed or read-only: it owns no store"));
    }
    return Run([&] { return call(store); });
  }

  const Process process_{};
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();
  std::vector<TableHandle*> tables_;
  std::map<std::string, std::string> loaded_;  // objects, by name
  ModelState model_;
  std::unique_ptr<CheckpointManager> manager_;
};

class PyManager : private ManagerCalls {
 public:
  using Tables = std::vector<std::pair<std::string, TableHandle*>>;
  using IoStates = std::vector<std::tuple<std::string, nb::object, nb::object>>;

  // `provide(step)` returns the tensors and objects of the model, for a save if
  // `step` is None, and otherwise to restore that step. Tables outlive the
  // manager.
  PyManager(const std::string& config, const nb::dict& objects,
            nb::object provide, const Tables& tables, const IoStates& io_states)
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
    for (const auto& [name, table] : tables) {
      Check(model_.AddTable(name, table->state()));
      tables_.push_back(table);
    }
    for (const auto& [name, dump, load] : io_states) {
      io_states_.push_back(std::make_unique<IoState>(name, dump, load));
      Check(model_.AddIoState(name, io_states_.back().get()));
    }
    model_.SetProvider(
        [this](const StepReader* step) { return Provide(step); });
    manager_ =
        Check(Run([&] { return CheckpointManager::Open(options, &model_); }));
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
    return ToDict(Check(RunWriting([&] {
      return or_start ? manager_->RestoreOrStart(restore)
                      : manager_->Restore(restore);
    })));
  }
  // Calls `loaded` with the report of each rule, before the next rule provides
  // other memory for the same state.
  void Load(const std::string& rules, bool dry_run,
            const nb::callable& loaded) {
    process_.Check();
    const std::vector<LoadRule> parsed = Check(ParseLoadSpec(rules));
    for (const LoadRule& rule : parsed) {
      const LoadSummary summary =
          Check(RunWriting([&] { return manager_->Load({rule}, dry_run); }));
      loaded(ToDict(summary.rules.front()));
    }
  }
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
    return ToDict(Check(RunWriting([&] { return manager_->ApplyStep(); })));
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
    throw StatusError(absl::FailedPreconditionError("the manager is closed"));
  }
  void Pin(int64_t step, bool pin) {
    Check(OnStore([&](Store* store) {
      return pin ? store->Pin(step) : store->Unpin(step);
    }));
  }
  void AddMetrics(int64_t step, const Metrics& metrics) {
    Check(OnStore(
        [&](Store* store) { return store->AddMetrics(step, metrics); }));
  }
  nb::dict Fold(int64_t step) {
    nb::dict dict;
    const Store::FoldResult folded = Check(OnStore([&](Store* store) {
      ReadOptions reads{.threads = 4};
      reads.cancelled = [this] { return interrupt_->Poll(); };
      return store->Fold(step, reads);
    }));
    dict["folded"] = folded.folded;
    dict["written_rows"] = folded.written_rows;
    dict["written_bytes"] = folded.written_bytes;
    return dict;
  }

 private:
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
    for (const auto& [name, dtype, shape, address] : tensors) {
      TensorState state;
      state.dtype = Check(ParseDType(dtype));
      state.shape = shape;
      state.data = reinterpret_cast<void*>(address);
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

  static RestoreRequest RequestOf(const nb::dict& fields) {
    RestoreRequest request;
    for (const auto& [key, value] : fields) {
      const auto name = nb::cast<std::string>(key);
      if (name == "step") {
        request.step = nb::cast<int64_t>(value);
      } else if (name == "best") {
        request.best = nb::cast<bool>(value);
      } else if (name == "best_by") {
        request.best_by =
            KeepPolicy::BestOptions{.metric = nb::cast<std::string>(value)};
      } else if (name == "path") {
        request.path = nb::cast<std::string>(value);
      } else if (name == "merge") {
        if (nb::cast<bool>(value))
          request.mode = LiveTable::RestoreMode::kMerge;
      } else if (name == "verify") {
        request.verify = nb::cast<bool>(value);
      } else if (name == "fall_back") {
        request.fall_back = nb::cast<bool>(value);
      } else if (name == "evolve") {
        ManagerOptions parsed;
        Check(ReadManagerConfig(nb::cast<std::string>(value), &parsed));
        request.evolve = parsed.restore.evolve;
      }
    }
    return request;
  }

  const PyRef provide_;
  std::vector<std::unique_ptr<IoState>> io_states_;
  std::vector<std::unique_ptr<Bytes>> objects_;
};

}  // namespace

void BindManager(nb::module_& module) {
  nb::class_<PySave>(module, "PendingSave",
                     "A save that runs in the background. Any thread may call "
                     "its methods.")
      .def_prop_ro("step", &PySave::step, "The step that is saved.")
      .def_prop_ro("done", &PySave::done,
                   "Whether the step is durable, or has failed.")
      .def("wait_staged", &PySave::WaitStaged, "timeout"_a = nb::none(),
           "Waits until nothing reads the state any more. Raises "
           "DeadlineExceeded after `timeout` seconds.")
      .def("wait_committed", &PySave::WaitCommitted, "timeout"_a = nb::none(),
           "Waits until the step is durable, and returns its result or raises "
           "its error. Raises DeadlineExceeded after `timeout` seconds.")
      .def("cancel", &PySave::Cancel,
           "Lets the save fail with Cancelled, unless it is too late.")
      .def("__repr__", [](const PySave& save) {
        return absl::StrCat("PendingSave(step ", save.step(), ", ",
                            save.done() ? "done" : "running", ")");
      });
  nb::class_<PyOutcome>(module, "StepOutcome", "The result of `Manager.step`.")
      .def_prop_ro(
          "step", [](const PyOutcome& self) { return self.outcome.step; },
          "The step that was counted.")
      .def_prop_ro(
          "saved",
          [](const PyOutcome& self) { return self.outcome.save.has_value(); },
          "Whether a save of this step began.")
      .def_prop_ro(
          "kind",
          [](const PyOutcome& self) {
            return std::string(SaveKindName(self.outcome.decision.kind));
          },
          "\"none\", \"permanent\" or \"ephemeral\".")
      .def_prop_ro(
          "reason",
          [](const PyOutcome& self) { return self.outcome.decision.reason; },
          "Why the step is saved.")
      .def_prop_ro("save", &PyOutcome::save,
                   "The save if the step is saved, or None.")
      .def_prop_ro(
          "preempted",
          [](const PyOutcome& self) { return self.outcome.preempted; },
          "Whether to end the training with this step.")
      .def("__repr__", [](const PyOutcome& self) {
        const SavePolicy::Decision& decision = self.outcome.decision;
        return absl::StrCat("StepOutcome(step ", self.outcome.step,
                            self.outcome.save.has_value() ? ", saved: " : ": ",
                            decision.reason,
                            self.outcome.preempted ? ", preempted" : "", ")");
      });
  nb::class_<PyManager>(module, "Manager")
      .def(nb::init<const std::string&, const nb::dict&, nb::object,
                    const PyManager::Tables&, const PyManager::IoStates&>())
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
      .def("abandon_steps", &PyManager::AbandonSteps)
      .def("await_step", &PyManager::AwaitStep)
      .def("apply_step", &PyManager::ApplyStep)
      .def("set_preempted", &PyManager::SetPreempted)
      .def("preempted", &PyManager::preempted)
      .def("saving", &PyManager::saving)
      .def("check_for_errors", &PyManager::CheckForErrors)
      .def("wait_until_finished", &PyManager::WaitUntilFinished)
      .def("explain", &PyManager::Explain)
      .def("best_step", &PyManager::BestStep)
      .def("delete", &PyManager::Delete)
      .def("steps", &PyManager::Steps)
      .def("pin", &PyManager::Pin)
      .def("add_metrics", &PyManager::AddMetrics)
      .def("fold", &PyManager::Fold);
}

}  // namespace ckptdb::python
