#include "ckptdb/manager/load_state.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ckptdb/schema/annotate.h"
#include "ckptdb/schema/dtype.h"
#include "ckptdb/schema/shape.h"
#include "ckptdb/schema/status.h"

namespace ckptdb::internal {
namespace {

const Shape& GlobalShape(const TensorState& tensor) {
  return tensor.sharded() ? tensor.global_shape : tensor.shape;
}

std::string Describe(DType dtype, const Shape& shape) {
  return absl::StrCat(DTypeName(dtype), " ", ToString(shape));
}

std::string Describe(const std::vector<Slot>& slots) {
  return absl::StrCat("[",
                      absl::StrJoin(slots, ", ",
                                    [](std::string* out, const Slot& slot) {
                                      absl::StrAppend(out, slot.name, " ",
                                                      DTypeName(slot.dtype),
                                                      " x ", slot.elements);
                                    }),
                      "]");
}

// Names of the blobs of one rank of the step.
std::set<std::string> BlobsOf(const StepReader& step, uint32_t rank) {
  std::set<std::string> names;
  for (const Item& item : step.ranks()[rank].items) {
    if (item.kind == ItemKind::kBlob) names.insert(item.name);
  }
  return names;
}

class Checker {
 public:
  Checker(const StepReader& step, const ManagerOptions& options,
          const LoadSpec& spec)
      : step_(step), options_(options), spec_(spec) {}

  void Check(const ModelState::Tensor& tensor) {
    const auto found = step_.FindTensor(tensor.name);
    if (!Found(found.status(), "tensor", tensor.name)) return;
    const Shape& shape = GlobalShape(tensor.state);
    if (found->dtype == tensor.state.dtype && found->shape == shape) return;
    Misfit("tensor", tensor.name, Describe(tensor.state.dtype, shape),
           Describe(found->dtype, found->shape));
  }

  void Check(const ModelState::Table& table) {
    const auto found = step_.FindTable(table.name);
    if (!Found(found.status(), "table", table.name)) return;
    const std::vector<Slot> slots = table.state->slots();
    if (SameColumns(found->slots, slots)) return;
    Misfit("table", table.name, Describe(slots), Describe(found->slots));
  }

  void Check(const ModelState::Extra& extra) {
    CheckBlob(kOwnerRank, ExtraBlob(extra.name));
  }

  void Check(const ModelState::Io& io) {
    const std::string blob = IoStateBlob(io.name);
    const uint32_t saved = step_.record().world_size;
    if (saved == spec_.world_size) return CheckBlob(spec_.rank, blob);
    switch (options_.io_state_resize) {
      case IoStateResize::kError:
        return Misfit("io state", io.name,
                      absl::StrCat("of ", spec_.world_size, " ranks"),
                      absl::StrCat("of ", saved, " ranks"));
      case IoStateResize::kRedistribute:
        for (uint32_t rank = 0; rank < saved; ++rank) CheckBlob(rank, blob);
        return;
      case IoStateResize::kOwners:
        return CheckBlob(kOwnerRank, blob);
      case IoStateResize::kReset:
        return;
    }
  }

  absl::Status status() const {
    const int64_t step = step_.record().version.step;
    if (!error_.ok()) return error_;
    if (!missing_.empty()) {
      return absl::NotFoundError(absl::StrCat("step ", step, " has no ",
                                              absl::StrJoin(missing_, ", ")));
    }
    if (misfits_.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("step ", step, ": ", absl::StrJoin(misfits_, "; ")));
  }

 private:
  bool Found(const absl::Status& status, absl::string_view what,
             absl::string_view name) {
    if (absl::IsNotFound(status)) {
      missing_.push_back(absl::StrCat(what, " \"", name, "\""));
    } else {
      error_.Update(status);
    }
    return status.ok();
  }

  void CheckBlob(uint32_t rank, const std::string& name) {
    if (BlobsOf(step_, rank).contains(name)) return;
    missing_.push_back(absl::StrCat("\"", name, "\" of rank ", rank));
  }

  void Misfit(absl::string_view what, absl::string_view name,
              absl::string_view expected, absl::string_view got) {
    misfits_.push_back(absl::StrCat(what, " \"", name, "\": expected ",
                                    expected, ", got ", got));
  }

  const StepReader& step_;
  const ManagerOptions& options_;
  const LoadSpec& spec_;
  absl::Status error_;
  std::vector<std::string> missing_;
  std::vector<std::string> misfits_;
};

absl::Status LoadTensor(const StepReader& step, const ReadOptions& read,
                        const ModelState::Tensor& tensor) {
  const TensorState& state = tensor.state;
  const uint32_t element_bytes = DTypeBytes(state.dtype);
  CKPTDB_ASSIGN_OR_RETURN(const int64_t elements,
                          ElementCount(state.shape, element_bytes));
  const uint64_t bytes = static_cast<uint64_t>(elements) * element_bytes;
  if (!state.sharded()) {
    return step.ReadTensor(tensor.name, state.data, bytes, read);
  }
  return step.ReadTensorBox(tensor.name, {state.offset, state.shape},
                            state.data, bytes, read);
}

absl::Status LoadTable(const StepReader& step, const ManagerOptions& options,
                       const LoadSpec& spec, const ModelState::Table& table) {
  ScanOptions scan;
  scan.read = options.read;
  for (const Slot& slot : table.state->slots()) scan.slots.push_back(slot.name);
  if (!options.slice_bounds.empty()) {
    scan.slices = {options.slice_bounds[spec.rank],
                   options.slice_bounds[spec.rank + 1]};
  } else {
    scan.wanted = options.owns_row;
  }
  return step.RestoreTable(table.name, spec.mode, scan, table.state->live());
}

absl::Status LoadIoState(const StepReader& step, const ManagerOptions& options,
                         const LoadSpec& spec, const ModelState::Io& io) {
  const std::string blob = IoStateBlob(io.name);
  const uint32_t saved = step.record().world_size;
  if (saved == spec.world_size ||
      options.io_state_resize == IoStateResize::kOwners) {
    const uint32_t rank = saved == spec.world_size ? spec.rank : kOwnerRank;
    CKPTDB_ASSIGN_OR_RETURN(const std::string bytes,
                            step.ReadBlob(rank, blob, options.read));
    return io.state->Load(bytes);
  }
  if (options.io_state_resize == IoStateResize::kReset) {
    return absl::OkStatus();
  }
  std::vector<std::string> parts;
  for (uint32_t rank = 0; rank < saved; ++rank) {
    CKPTDB_ASSIGN_OR_RETURN(parts.emplace_back(),
                            step.ReadBlob(rank, blob, options.read));
  }
  return io.state->Redistribute(parts);
}

}  // namespace

absl::Status CheckStep(const StepReader& step, const ModelState& model,
                       const ManagerOptions& options, const LoadSpec& spec) {
  Checker checker(step, options, spec);
  for (const auto& tensor : model.tensors()) checker.Check(tensor);
  for (const auto& table : model.tables()) checker.Check(table);
  for (const auto& extra : model.extras()) checker.Check(extra);
  for (const auto& io : model.io_states()) checker.Check(io);
  return checker.status();
}

absl::Status LoadStep(const StepReader& step, const ModelState& model,
                      const ManagerOptions& options, const LoadSpec& spec,
                      RestoreReport* report) {
  for (const auto& extra : model.extras()) {
    CKPTDB_ASSIGN_OR_RETURN(
        const std::string bytes,
        step.ReadBlob(kOwnerRank, ExtraBlob(extra.name), options.read));
    CKPTDB_RETURN_IF_ERROR(Annotate(extra.load(bytes), extra.name));
    ++report->extras;
  }
  for (const auto& tensor : model.tensors()) {
    CKPTDB_RETURN_IF_ERROR(LoadTensor(step, options.read, tensor));
    ++report->tensors;
  }
  for (const auto& table : model.tables()) {
    CKPTDB_RETURN_IF_ERROR(LoadTable(step, options, spec, table));
    ++report->tables;
  }
  for (const auto& io : model.io_states()) {
    CKPTDB_RETURN_IF_ERROR(
        Annotate(LoadIoState(step, options, spec, io), io.name));
    ++report->io_states;
  }
  return absl::OkStatus();
}

}  // namespace ckptdb::internal
