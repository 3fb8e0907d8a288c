// SPDX-License-Identifier: Apache-2.0
#include "tools/files/torch_pickle.h"

#include <deque>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/pickle_machine.h"
#include "tools/files/torch_dtype.h"

namespace ckptdb::tool {
namespace {

// Levels of dictionaries and lists.
constexpr int kMaxPickleDepth = 64;

// Names the values that a pickle consists of. A value may occur in several
// places, so that their number is bounded.
class PickleWalk {
 public:
  PickleWalk(uint64_t limit, PickleMemory* memory, TorchPickle* result)
      : left_(limit), memory_(*memory), result_(result) {}

  absl::Status Visit(const std::string& name, const PickleValue& value,
                     int depth) {
    if (depth > kMaxPickleDepth || left_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", Shown(name), "\" of the pickle is nested more than ",
          kMaxPickleDepth, " levels, or repeats too often"));
    }
    --left_;
    switch (value.kind) {
      case PickleKind::kSequence:
        for (size_t i = 0; i < value.items.size(); ++i) {
          CKPTDB_RETURN_IF_ERROR(
              Visit(Join(name, absl::StrCat(i)), *value.items[i], depth + 1));
        }
        return value.items.empty() ? AddEmpty(name, "[]", depth)
                                   : absl::OkStatus();
      case PickleKind::kDict:
        return VisitDict(name, value, depth);
      case PickleKind::kTensor:
        CKPTDB_RETURN_IF_ERROR(
            Take(name.size() + value.tensor->storage.size() +
                 2 * sizeof(int64_t) * value.tensor->shape.size()));
        result_->tensors.push_back(*value.tensor);
        result_->tensors.back().name = name;
        return absl::OkStatus();
      case PickleKind::kBytes:
        CKPTDB_RETURN_IF_ERROR(Take(name.size() + value.text.size()));
        result_->bytes[name] = value.text;
        return absl::OkStatus();
      default:
        return VisitScalar(name, value);
    }
  }

 private:
  static std::string Shown(const std::string& name) {
    constexpr size_t kShownBytes = 64;
    return absl::CHexEscape(name.substr(0, kShownBytes));
  }
  static std::string Join(const std::string& name, const std::string& key) {
    return name.empty() ? key : absl::StrCat(name, ".", key);
  }
  // Counts the memory of a result's entry.
  absl::Status Take(uint64_t bytes) {
    constexpr uint64_t kEntryBytes = 2 * sizeof(TorchTensor);
    memory_.Take(kEntryBytes + bytes);
    return memory_.Check();
  }
  absl::Status Add(const std::string& name, std::string json) {
    CKPTDB_RETURN_IF_ERROR(Take(name.size() + json.size()));
    if (result_->values.emplace(name, std::move(json)).second) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "two values of the pickle have the name \"", Shown(name), "\""));
  }
  absl::Status VisitDict(const std::string& name, const PickleValue& value,
                         int depth) {
    for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
      const PickleValue& key = *value.items[i];
      if (key.kind != PickleKind::kText && key.kind != PickleKind::kInteger) {
        return absl::InvalidArgumentError(
            absl::StrCat("\"", Shown(name),
                         "\" of the pickle is a dictionary with a key "
                         "that is neither text nor an integer"));
      }
      const std::string text =
          key.kind == PickleKind::kText ? key.text : absl::StrCat(key.integer);
      // Names that are too long are refused later.
      if (name.size() > kMaxNameBytes) return TooLong(name);
      CKPTDB_RETURN_IF_ERROR(
          Visit(Join(name, text), *value.items[i + 1], depth + 1));
    }
    if (value.attributes != nullptr) {
      CKPTDB_RETURN_IF_ERROR(Visit(name, *value.attributes, depth + 1));
    }
    const bool empty = value.items.empty() && value.attributes == nullptr;
    return empty ? AddEmpty(name, "{}", depth) : absl::OkStatus();
  }
  // A file that consists of an empty container has no value.
  absl::Status AddEmpty(const std::string& name, std::string json, int depth) {
    return depth == 0 ? absl::OkStatus() : Add(name, std::move(json));
  }
  static absl::Status TooLong(const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name \"", Shown(name), "...\" has ", name.size(),
                     " bytes; the limit is ", kMaxNameBytes));
  }
  absl::Status VisitScalar(const std::string& name, const PickleValue& value) {
    nlohmann::json json;
    switch (value.kind) {
      case PickleKind::kNone:
        break;
      case PickleKind::kBool:
        json = value.boolean;
        break;
      case PickleKind::kInteger:
        json = value.integer;
        break;
      case PickleKind::kFloat:
        json = value.number;
        break;
      case PickleKind::kText:
        json = value.text;
        break;
      default:
        return absl::InvalidArgumentError(absl::StrCat(
            "\"", Shown(name), "\" of the pickle is ",
            value.text.empty() ? "not a tensor" : Shown(value.text),
            "; only tensors, numbers and texts can be imported"));
    }
    // NaN and infinities are not JSON.
    if (value.kind == PickleKind::kFloat &&
        !(value.number - value.number == 0)) {
      json = value.number > 0 ? "inf" : value.number < 0 ? "-inf" : "nan";
    }
    return Add(name, json.dump(-1, ' ', false,
                               nlohmann::json::error_handler_t::replace));
  }

  uint64_t left_;
  PickleMemory& memory_;
  TorchPickle* const result_;
};

// --- Writing.

void PutNumber(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) {
    *out += static_cast<char>(value >> (8 * i) & 0xff);
  }
}
void PutText(absl::string_view text, std::string* out) {
  *out += 'X';
  PutNumber(text.size(), 4, out);
  out->append(text.data(), text.size());
}
void PutInteger(int64_t value, std::string* out) {
  absl::StrAppend(out, "\x8a", "\x08");
  PutNumber(static_cast<uint64_t>(value), 8, out);
}
void PutTuple(const Shape& values, std::string* out) {
  *out += '(';
  for (const int64_t value : values) PutInteger(value, out);
  *out += 't';
}

void PutTensor(const TorchTensor& tensor, std::string* out) {
  absl::StrAppend(out, "ctorch._utils\n_rebuild_tensor_v3\n((");
  PutText("storage", out);
  absl::StrAppend(out, "ctorch.storage\nUntypedStorage\n");
  PutText(tensor.storage, out);
  PutText("cpu", out);
  PutInteger(static_cast<int64_t>(tensor.storage_bytes), out);
  absl::StrAppend(out, "tQ");
  PutInteger(0, out);
  PutTuple(tensor.shape, out);
  PutTuple(tensor.strides, out);
  // No gradient, and no hooks.
  absl::StrAppend(out, "\x89", "ccollections\nOrderedDict\n)R");
  absl::StrAppend(out, "ctorch\n",
                  absl::StripPrefix(TorchDTypeName(tensor.dtype), "torch."),
                  "\n");
  absl::StrAppend(out, "tR");
}

}  // namespace

absl::StatusOr<TorchPickle> ParseTorchPickle(absl::string_view pickle,
                                             const std::string& root) {
  PickleMemory memory;
  std::deque<PickleValue> values;
  CKPTDB_ASSIGN_OR_RETURN(const PickleValue* value,
                          RunPickle(pickle, &memory, &values));
  constexpr uint64_t kLeastVisits = 4096;
  TorchPickle result;
  const bool is_container =
      value->kind == PickleKind::kDict || value->kind == PickleKind::kSequence;
  CKPTDB_RETURN_IF_ERROR(
      PickleWalk(kLeastVisits + pickle.size(), &memory, &result)
          .Visit(is_container ? "" : root, *value, 0));
  return result;
}

bool IsContiguous(const TorchTensor& tensor) {
  int64_t expected = 1;
  for (size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

std::string MakeTorchPickle(const std::vector<TorchTensor>& tensors) {
  std::string pickle = "\x80\x02";
  absl::StrAppend(&pickle, "ccollections\nOrderedDict\n)R(");
  for (const TorchTensor& tensor : tensors) {
    PutText(tensor.name, &pickle);
    PutTensor(tensor, &pickle);
  }
  return pickle + "u.";
}

}  // namespace ckptdb::tool
