// SPDX-License-Identifier: Apache-2.0
#include "python/binding/reader.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "manager/model_state.h"
#include "python/binding/address.h"
#include "python/binding/errors.h"
#include "python/binding/records.h"
#include "python/binding/scan.h"

namespace ckptdb::python {
namespace {

using nb::literals::operator""_a;
// Runs a call without the GIL that a signal may interrupt.
template <typename Call>
auto Waiting(const Call& call) {
  Interrupt interrupt;
  return Interruptible(&interrupt, [&] { return call(&interrupt); });
}

ReadOptions ReadsWith(int threads, Interrupt* interrupt) {
  ReadOptions options;
  if (threads > 0) options.threads = threads;
  options.cancelled = [interrupt] { return interrupt->Poll(); };
  return options;
}

// The names, bytes of a row, and options of the slots that a scan reads.
struct ScanPlan {
  std::vector<uint64_t> row_bytes;
  ScanOptions options;
};

ScanPlan PlanScan(const StepReader& step, const std::string& table,
                  std::vector<std::string> slots, bool ids_only, int threads) {
  const StepReader::TableSpec spec = Check(step.FindTable(table));
  ScanPlan plan;
  if (threads > 0) plan.options.read.threads = threads;
  plan.options.ids_only = ids_only;
  if (ids_only) return plan;
  if (slots.empty()) {
    for (const Slot& slot : spec.slots) slots.push_back(slot.name);
  }
  for (const std::string& name : slots) {
    for (const Slot& slot : spec.slots) {
      if (slot.name == name) plan.row_bytes.push_back(slot.row_bytes());
    }
  }
  // With an unknown slot, the scan returns its error before the first row.
  plan.row_bytes.resize(slots.size());
  plan.options.slots = std::move(slots);
  return plan;
}

class PyScan {
 public:
  // `held` keeps what the scan reads.
  PyScan(std::shared_ptr<const void> held, std::unique_ptr<BatchScan> scan)
      : held_(std::move(held)), scan_(std::move(scan)) {}
  ~PyScan() { Close(); }

  void Close() {
    if (scan_ == nullptr || !process_.IsThis()) {
      (void)scan_.release();
      return;
    }
    const ReleaseGil release;
    scan_.reset();
  }
  // Waits for the next batch, and returns (erased, rows), or None at the end.
  nb::object Next() {
    process_.Check();
    batch_.reset();
    if (scan_ == nullptr) return nb::none();
    batch_ = Check(
        Waiting([&](Interrupt* interrupt) { return scan_->Next(interrupt); }));
    if (batch_ == nullptr) return nb::none();
    return nb::make_tuple(batch_->erased, batch_->ids.size());
  }
  // Copies the batch to arrays, the ids first.
  void Take(const std::vector<Address>& arrays) {
    const ReleaseGil release;
    std::memcpy(At<void>(arrays[0]), batch_->ids.data(),
                batch_->ids.size() * sizeof(int64_t));
    for (size_t slot = 0; slot < batch_->values.size(); ++slot) {
      std::memcpy(At<void>(arrays[slot + 1]), batch_->values[slot].data(),
                  batch_->values[slot].size());
    }
    batch_.reset();
  }

 private:
  const Process process_;
  const std::shared_ptr<const void> held_;
  std::unique_ptr<BatchScan> scan_;
  std::unique_ptr<RowBatch> batch_;
};

class PyStep {
 public:
  // `held` keeps the reader of the step.
  PyStep(std::shared_ptr<const void> held,
         std::shared_ptr<const StepReader> step)
      : held_(std::move(held)), step_(std::move(step)) {}
  ~PyStep() { Close(); }

  const StepReader& get() const {
    process_.Check();
    if (step_ != nullptr) return *step_;
    throw StatusError(absl::FailedPreconditionError("the step is closed"));
  }
  void Close() {
    if (step_ == nullptr) return;
    const ReleaseGil release;
    step_.reset();
    held_.reset();
  }
  nb::dict record() const { return ToDict(get().record()); }
  nb::list items() const { return ItemsOf(get()); }
  nb::list slots(const std::string& table) const {
    return SlotsOf(Check(get().FindTable(table)).slots);
  }
  void ReadTensors(
      const std::vector<std::tuple<std::string, Address, uint64_t>>& reads,
      int threads) const {
    const StepReader& step = get();
    std::vector<StepReader::TensorRead> wanted;
    for (const auto& [name, out, bytes] : reads) {
      wanted.push_back({name, At<void>(out), bytes});
    }
    Check(Waiting([&](Interrupt* interrupt) {
      return step.ReadTensors(wanted, ReadsWith(threads, interrupt));
    }));
  }
  void ReadPart(const std::string& name, const Shape& offset,
                const Shape& shape, Address out, uint64_t bytes,
                int threads) const {
    const StepReader& step = get();
    Check(Waiting([&](Interrupt* interrupt) {
      return step.ReadTensorPart(name, offset, shape, At<void>(out), bytes,
                                 ReadsWith(threads, interrupt));
    }));
  }
  nb::bytes ReadBlob(uint32_t rank, const std::string& name) const {
    const StepReader& step = get();
    const std::string bytes = Check(Waiting([&](Interrupt* interrupt) {
      return step.ReadBlob(rank, name, ReadsWith(0, interrupt));
    }));
    return nb::bytes(bytes.data(), bytes.size());
  }
  void Lookup(const std::string& table, Address ids, uint64_t count,
              const std::vector<std::string>& slots,
              const std::vector<Address>& values, Address found,
              int threads) const {
    const StepReader& step = get();
    std::vector<char*> out;
    for (const Address each : values) out.push_back(At<char>(each));
    Check(Waiting([&](Interrupt* interrupt) {
      return step.LookupRows(table, {At<const int64_t>(ids), count}, slots, out,
                             At<bool>(found), ReadsWith(threads, interrupt));
    }));
  }
  std::unique_ptr<PyScan> Scan(const std::string& table,
                               std::vector<std::string> slots, uint64_t rows,
                               bool ids_only, int threads) const {
    get();
    ScanPlan plan =
        PlanScan(*step_, table, std::move(slots), ids_only, threads);
    const int workers = plan.options.read.threads;
    auto run = [step = step_, table,
                options = std::move(plan.options)](LiveTable* sink) {
      return step->ScanTable(table, options, sink);
    };
    return std::make_unique<PyScan>(
        held_, std::make_unique<BatchScan>(std::move(run), rows,
                                           std::move(plan.row_bytes), workers));
  }
  void Verify(int threads) const {
    const StepReader& step = get();
    Check(Waiting([&](Interrupt* interrupt) {
      return step.Verify(ReadsWith(threads, interrupt));
    }));
  }

 private:
  const Process process_;
  std::shared_ptr<const void> held_;
  std::shared_ptr<const StepReader> step_;
};

class PyChanges {
 public:
  PyChanges(std::shared_ptr<const void> held,
            std::shared_ptr<const ChangeReader> changes)
      : held_(std::move(held)), changes_(std::move(changes)) {}
  ~PyChanges() { Close(); }

  const ChangeReader& get() const {
    process_.Check();
    if (changes_ != nullptr) return *changes_;
    throw StatusError(absl::FailedPreconditionError("the changes are closed"));
  }
  void Close() {
    if (changes_ == nullptr) return;
    const ReleaseGil release;
    changes_.reset();
    held_.reset();
  }
  bool forwards() const { return get().forwards(); }
  // The step that the changes lead to.
  std::unique_ptr<PyStep> to() const {
    return std::make_unique<PyStep>(
        held_, std::shared_ptr<const StepReader>(changes_, &get().to()));
  }
  std::vector<std::string> changed_tensors() const {
    std::vector<std::string> names;
    for (const StepRecord::Rank& rank : get().ChangedItems()) {
      for (const Item& item : rank.items) {
        if (item.kind == Item::Kind::kTensor) names.push_back(item.name);
      }
    }
    return names;
  }
  std::unique_ptr<PyScan> Scan(const std::string& table,
                               std::vector<std::string> slots, uint64_t rows,
                               int threads) const {
    ScanPlan plan = PlanScan(get().to(), table, std::move(slots),
                             /*ids_only=*/false, threads);
    const int workers = plan.options.read.threads;
    auto run = [changes = changes_, table,
                options = std::move(plan.options)](LiveTable* sink) {
      return changes->ScanTable(table, options, sink);
    };
    return std::make_unique<PyScan>(
        held_, std::make_unique<BatchScan>(std::move(run), rows,
                                           std::move(plan.row_bytes), workers));
  }

 private:
  const Process process_;
  std::shared_ptr<const void> held_;
  std::shared_ptr<const ChangeReader> changes_;
};

class PyReader {
 public:
  PyReader(const std::string& path, const nb::dict& options) {
    const StoreOptions chosen = StoreOptionsOf(options);
    reader_ =
        Check(Waiting([&](Interrupt*) { return Reader::Open(path, chosen); }));
  }
  Reader& get() const {
    process_.Check();
    if (reader_ != nullptr) return *reader_;
    throw StatusError(absl::FailedPreconditionError("the reader is closed"));
  }
  ~PyReader() { Close(); }
  // Steps that are open keep the reader.
  void Close() {
    if (reader_ == nullptr) return;
    const ReleaseGil release;
    reader_.reset();
  }
  std::string path() const { return get().path(); }
  void Refresh() const {
    Reader& reader = get();
    Check(Waiting([&](Interrupt*) { return reader.Refresh(); }));
  }
  nb::list Steps() const { return ToList(get().Steps()); }
  nb::dict FindStep(int64_t step) const {
    return ToDict(Check(get().FindStep(step)));
  }
  nb::dict Latest() const { return ToDict(Check(get().Latest())); }
  UserMetadata user_metadata() const { return get().user_metadata(); }
  std::vector<std::string> bad_files() const { return get().BadFiles(); }
  std::unique_ptr<PyStep> OpenStep(int64_t step) const {
    Reader& reader = get();
    auto opened =
        Check(Waiting([&](Interrupt*) { return reader.OpenStep(step); }));
    return std::make_unique<PyStep>(reader_, std::move(opened));
  }
  std::unique_ptr<PyChanges> OpenChanges(int64_t from, int64_t to) const {
    Reader& reader = get();
    auto opened = Check(Waiting(
        [&](Interrupt*) -> absl::StatusOr<std::unique_ptr<ChangeReader>> {
          const auto record = reader.FindStep(from);
          if (!record.ok()) return record.status();
          return reader.OpenChanges(record->version, to);
        }));
    return std::make_unique<PyChanges>(reader_, std::move(opened));
  }
  void PostMetrics(int64_t step, const Metrics& metrics) const {
    Reader& reader = get();
    Check(
        Waiting([&](Interrupt*) { return reader.PostMetrics(step, metrics); }));
  }
  void RequestPin(int64_t step, bool pin) const {
    Reader& reader = get();
    Check(Waiting([&](Interrupt*) {
      return pin ? reader.RequestPin(step) : reader.RequestUnpin(step);
    }));
  }

 private:
  const Process process_;
  std::shared_ptr<Reader> reader_;
};

template <typename T>
void Set(const nb::handle& value, T* field) {
  *field = nb::cast<T>(value);
}

StoreOptions::LeaseMode LeasesOf(const std::string& name) {
  using Mode = StoreOptions::LeaseMode;
  if (name == "required") return Mode::kRequired;
  if (name == "where_possible") return Mode::kWherePossible;
  if (name == "none") return Mode::kNone;
  throw StatusError(absl::InvalidArgumentError(absl::StrCat(
      "leases is \"", name, "\"; expected required, where_possible or none")));
}

}  // namespace

StoreOptions StoreOptionsOf(const nb::dict& fields) {
  StoreOptions options;
  for (const auto& [key, value] : fields) {
    const auto name = nb::cast<std::string>(key);
    if (name == "create_if_missing") {
      Set(value, &options.create_if_missing);
    } else if (name == "directory_mode") {
      Set(value, &options.directory_mode);
    } else if (name == "file_mode") {
      Set(value, &options.file_mode);
    } else if (name == "reserve_bytes") {
      Set(value, &options.reserve_bytes);
    } else if (name == "spare_bytes") {
      Set(value, &options.spare_bytes);
    } else if (name == "stage_threads") {
      Set(value, &options.stage_threads);
    } else if (name == "direct_writes") {
      Set(value, &options.direct_writes);
    } else if (name == "direct_reads") {
      Set(value, &options.direct_reads);
    } else if (name == "rewrite_unchanged") {
      Set(value, &options.rewrite_unchanged);
    } else if (name == "lease_ms") {
      Set(value, &options.lease_ms);
    } else if (name == "leases") {
      options.leases = LeasesOf(nb::cast<std::string>(value));
    } else {
      throw StatusError(absl::InvalidArgumentError(absl::StrCat(
          "store has no option \"", name,
          "\"; the options are create_if_missing, directory_mode, file_mode, "
          "reserve_bytes, spare_bytes, stage_threads, direct_writes, "
          "direct_reads, rewrite_unchanged, leases and lease_ms")));
    }
  }
  return options;
}

nb::object BorrowStep(const StepReader* step) {
  return nb::cast(std::make_unique<PyStep>(
      nullptr, std::shared_ptr<const StepReader>(
                   std::shared_ptr<const StepReader>(), step)));
}

void BindReader(nb::module_& module) {
  nb::class_<PyScan>(module, "Scan")
      .def("next", &PyScan::Next)
      .def("take", &PyScan::Take)
      .def("close", &PyScan::Close);
  nb::class_<PyStep>(module, "Step")
      .def("close", &PyStep::Close)
      .def("record", &PyStep::record)
      .def("items", &PyStep::items)
      .def("slots", &PyStep::slots)
      .def("read_tensors", &PyStep::ReadTensors)
      .def("read_part", &PyStep::ReadPart)
      .def("read_blob", &PyStep::ReadBlob)
      .def("lookup", &PyStep::Lookup)
      .def("scan", &PyStep::Scan)
      .def("verify", &PyStep::Verify);
  nb::class_<PyChanges>(module, "Changes")
      .def("close", &PyChanges::Close)
      .def("forwards", &PyChanges::forwards)
      .def("to", &PyChanges::to)
      .def("changed_tensors", &PyChanges::changed_tensors)
      .def("scan", &PyChanges::Scan);
  nb::class_<PyReader>(module, "Reader")
      .def(nb::init<const std::string&, const nb::dict&>())
      .def("close", &PyReader::Close)
      .def("path", &PyReader::path)
      .def("refresh", &PyReader::Refresh)
      .def("steps", &PyReader::Steps)
      .def("find_step", &PyReader::FindStep)
      .def("latest", &PyReader::Latest)
      .def("user_metadata", &PyReader::user_metadata)
      .def("bad_files", &PyReader::bad_files)
      .def("open_step", &PyReader::OpenStep)
      .def("open_changes", &PyReader::OpenChanges)
      .def("post_metrics", &PyReader::PostMetrics)
      .def("request_pin", &PyReader::RequestPin);
}

}  // namespace ckptdb::python
