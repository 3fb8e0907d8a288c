// SPDX-License-Identifier: Apache-2.0
#include "manager/model_state.h"

#include <array>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "db/base/row_block.h"
#include "manager/internal/tensor_device.h"
#include "manager/state/categories.h"
#include "manager/state/registered_state.h"
#include "schema/bytes/annotate.h"
#include "schema/bytes/lossy.h"
#include "schema/bytes/names.h"
#include "schema/bytes/shape.h"
#include "schema/status.h"
#include "schema/types.h"

namespace ckptdb {
namespace {

// Names that the manager itself uses.
constexpr std::array<absl::string_view, 1> kReserved = {"global_step"};
constexpr absl::string_view kReservedPrefix = "ckptdb.";

// Returns the registration of a value, which is saved as its bytes.
template <typename T>
internal::RegisteredExtra ValueOf(std::string name, std::string type,
                                  T* value) {
  const auto load = [value](absl::string_view bytes) {
    if (bytes.size() != sizeof(T)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the saved value has ", bytes.size(),
                       " bytes, expected ", sizeof(T)));
    }
    std::memcpy(value, bytes.data(), sizeof(T));
    return absl::OkStatus();
  };
  const auto save = [value] {
    return std::string(reinterpret_cast<const char*>(value), sizeof(T));
  };
  return {std::move(name), std::move(type), sizeof(T), save, load};
}

absl::Status CheckNotNull(const std::string& name, bool is_null) {
  if (!is_null) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state \"", name, "\" is null"));
}

// Checks the memory of a tensor.
absl::Status CheckPlace(const TensorState& tensor) {
  if (tensor.device != nullptr) return tensor.device->Check(tensor);
  if (tensor.stride_bytes == 0 && tensor.stream == nullptr &&
      tensor.event == nullptr) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "TensorState::stream, event and stride_bytes apply only to device "
      "tensors, but TensorState::device is null");
}

}  // namespace

// Returns null: the rows are in host memory, and the save copies them itself.
absl::StatusOr<std::unique_ptr<TableState::Captured>> TableState::Capture(
    const absl::Span<const int64_t>* /*ids*/) const {
  return std::unique_ptr<Captured>();
}

absl::Status BlobState::Redistribute(absl::Span<const std::string> parts) {
  // A state that can combine parts overrides this.
  return absl::UnimplementedError(absl::StrCat(
      "this io state cannot be combined from ", parts.size(),
      " parts; implement BlobState::Redistribute, or set "
      "ManagerOptions::restore.io_state_resize to kOwners, kWrap or kReset"));
}

ModelState::ModelState() = default;
ModelState::~ModelState() = default;
ModelState::ModelState(const ModelState&) = default;
ModelState& ModelState::operator=(const ModelState&) = default;

const std::vector<internal::RegisteredTensor>& ModelState::tensors() const {
  return tensors_;
}
const std::vector<internal::RegisteredTable>& ModelState::tables() const {
  return tables_;
}
const std::vector<internal::RegisteredIo>& ModelState::io_states() const {
  return io_states_;
}
const std::vector<internal::RegisteredExtra>& ModelState::extras() const {
  return extras_;
}

absl::Status ModelState::Register(const std::string& name, bool is_null) {
  CKPTDB_RETURN_IF_ERROR(CheckName("name of a state", name));
  bool reserved = absl::StartsWith(name, kReservedPrefix);
  for (const absl::string_view each : kReserved) reserved |= name == each;
  if (reserved) {
    return absl::InvalidArgumentError(absl::StrCat(
        "state \"", name,
        "\": the name is reserved for the manager; choose another one"));
  }
  if (internal::IsCategory(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "state \"", name,
        "\": the name is a category in load rules, where it would match "
        "everything in that category; choose another one"));
  }
  CKPTDB_RETURN_IF_ERROR(CheckNotNull(name, is_null));
  if (names_.try_emplace(name).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(
      "state \"", name,
      "\" is already registered; only shards of one tensor share a name"));
}

// Checks another shard of a registered tensor.
absl::Status ModelState::CheckShard(const std::string& name,
                                    const TensorState& tensor) {
  const auto bad = [&](const auto&... why) {
    return absl::InvalidArgumentError(
        absl::StrCat("state \"", name, "\": ", why...));
  };
  for (const size_t index : names_[name]) {
    const TensorState& other = tensors_[index].state;
    if (other.dtype != tensor.dtype) {
      return bad("its shards have dtypes ", DTypeName(other.dtype), " and ",
                 DTypeName(tensor.dtype));
    }
    if (other.global_shape != tensor.global_shape) {
      return bad("its shards have global shapes ", ToString(other.global_shape),
                 " and ", ToString(tensor.global_shape));
    }
    Box both;
    const Box box = {tensor.offset, tensor.shape};
    if (box == Box{other.offset, other.shape} ||
        Intersect(box, {other.offset, other.shape}, &both)) {
      return bad("its shards of shape ", ToString(other.shape), " at ",
                 ToString(other.offset), " and ", ToString(tensor.shape),
                 " at ", ToString(tensor.offset), " overlap");
    }
  }
  return absl::OkStatus();
}

// Registers the name last, here and below, so that a state that was refused can
// be added again once it is fixed. A rank that has no element of a tensor needs
// no memory for it.
absl::Status ModelState::AddTensor(std::string name, TensorState tensor) {
  const absl::StatusOr<int64_t> elements =
      ElementCount(tensor.shape, DTypeBytes(tensor.dtype));
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(
      elements.status(), absl::StrCat("state \"", name, "\"")));
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(
      CheckPlace(tensor), absl::StrCat("state \"", name, "\"")));
  // A save would also refuse it, but the first save may be hours away.
  CKPTDB_RETURN_IF_ERROR(internal::Annotate(
      internal::CheckEnums(tensor.dtype, tensor.codec, kInt8BlockElements),
      absl::StrCat("state \"", name, "\"")));
  if (tensor.sharded()) {
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(
        CheckBoxWithin({tensor.offset, tensor.shape}, tensor.global_shape),
        absl::StrCat("state \"", name, "\"")));
  }
  const bool is_null = tensor.data == nullptr && *elements > 0;
  const auto taken = names_.find(name);
  if (taken != names_.end() && !taken->second.empty() && tensor.sharded() &&
      tensors_[taken->second[0]].state.sharded()) {
    CKPTDB_RETURN_IF_ERROR(CheckNotNull(name, is_null));
    CKPTDB_RETURN_IF_ERROR(CheckShard(name, tensor));
  } else {
    CKPTDB_RETURN_IF_ERROR(Register(name, is_null));
  }
  names_[name].push_back(tensors_.size());
  tensors_.push_back({std::move(name), std::move(tensor)});
  return absl::OkStatus();
}

absl::Status ModelState::AddTable(std::string name, TableState* table,
                                  TableSharding sharding) {
  if (table != nullptr) {
    CKPTDB_RETURN_IF_ERROR(internal::Annotate(
        table->status(), absl::StrCat("state \"", name, "\"")));
  }
  CKPTDB_RETURN_IF_ERROR(Register(name, table == nullptr));
  tables_.push_back({std::move(name), table, std::move(sharding)});
  return absl::OkStatus();
}

absl::Status ModelState::AddIoState(std::string name, BlobState* io) {
  CKPTDB_RETURN_IF_ERROR(Register(name, io == nullptr));
  io_states_.push_back({std::move(name), io});
  return absl::OkStatus();
}

absl::Status ModelState::AddExtra(internal::RegisteredExtra extra,
                                  bool is_null) {
  CKPTDB_RETURN_IF_ERROR(Register(extra.name, is_null));
  extras_.push_back(std::move(extra));
  return absl::OkStatus();
}

absl::Status ModelState::AddObject(std::string name, BlobState* object) {
  return AddExtra(
      {std::move(name), /*type=*/"", /*bytes=*/0,
       [object] { return object->Dump(); },
       [object](absl::string_view bytes) { return object->Load(bytes); }},
      object == nullptr);
}

absl::Status ModelState::AddValue(std::string name, int64_t* value) {
  return AddExtra(ValueOf(std::move(name), "int64", value), value == nullptr);
}

absl::Status ModelState::AddValue(std::string name, double* value) {
  return AddExtra(ValueOf(std::move(name), "double", value), value == nullptr);
}

absl::Status ModelState::AddValue(std::string name, std::string* value) {
  return AddExtra(
      {std::move(name), "string", /*bytes=*/0, [value] { return *value; },
       [value](absl::string_view bytes) {
         *value = std::string(bytes);
         return absl::OkStatus();
       }},
      value == nullptr);
}

void ModelState::SetProvider(
    std::function<absl::Status(const StepReader* step)> provider) {
  provider_ = std::move(provider);
}

void ModelState::RemoveTensorsAndObjects() {
  for (const auto& tensor : tensors_) names_.erase(tensor.name);
  for (const auto& extra : extras_) names_.erase(extra.name);
  tensors_.clear();
  extras_.clear();
}

absl::Status ModelState::Provide(const StepReader* step) const {
  return provider_ ? provider_(step) : absl::OkStatus();
}

std::string IoStateBlob(absl::string_view name) {
  return absl::StrCat("io_state/", name);
}
std::string ExtraBlob(absl::string_view name) {
  return absl::StrCat("extra/", name);
}

}  // namespace ckptdb
