// SPDX-License-Identifier: Apache-2.0
#include "tools/files/torch_pickle.h"

#include <bit>
#include <cstring>
#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "schema/status.h"
#include "tools/files/array.h"

namespace ckptdb::tool {
namespace {

// Levels of dictionaries and lists.
constexpr int kMaxPickleDepth = 64;

struct PickleValue {
  enum class Kind {
    kMark,
    kNone,
    kBool,
    kInteger,
    kFloat,
    kText,
    kBytes,
    kSequence,  // a list or tuple: items
    kDict,      // items are keys and values in turn
    kGlobal,    // text is "module.name"
    kStorage,   // text is its key
    kTensor,
  };
  Kind kind = Kind::kNone;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0;
  std::string text = {};
  std::vector<PickleValue*> items = {};
  PickleValue* attributes = nullptr;  // of a dictionary
  TorchTensor tensor = {};            // of a storage, its dtype and bytes
};
using PickleKind = PickleValue::Kind;

struct TorchName {
  absl::string_view name;
  DType dtype;
};
constexpr TorchName kStorageNames[] = {{"DoubleStorage", DType::kF64},
                                       {"FloatStorage", DType::kF32},
                                       {"HalfStorage", DType::kF16},
                                       {"BFloat16Storage", DType::kBf16},
                                       {"LongStorage", DType::kI64},
                                       {"IntStorage", DType::kI32},
                                       {"ShortStorage", DType::kI16},
                                       {"CharStorage", DType::kI8},
                                       {"ByteStorage", DType::kU8},
                                       {"BoolStorage", DType::kBool},
                                       {"UntypedStorage", DType::kU8},
                                       {"Float8_e4m3fnStorage", DType::kF8E4M3},
                                       {"Float8_e5m2Storage", DType::kF8E5M2}};
constexpr TorchName kTorchDTypes[] = {{"torch.float64", DType::kF64},
                                      {"torch.float32", DType::kF32},
                                      {"torch.float16", DType::kF16},
                                      {"torch.bfloat16", DType::kBf16},
                                      {"torch.float8_e4m3fn", DType::kF8E4M3},
                                      {"torch.float8_e5m2", DType::kF8E5M2},
                                      {"torch.int64", DType::kI64},
                                      {"torch.int32", DType::kI32},
                                      {"torch.int16", DType::kI16},
                                      {"torch.int8", DType::kI8},
                                      {"torch.uint64", DType::kU64},
                                      {"torch.uint32", DType::kU32},
                                      {"torch.uint16", DType::kU16},
                                      {"torch.uint8", DType::kU8},
                                      {"torch.bool", DType::kBool}};

std::optional<DType> StorageDType(absl::string_view global) {
  const size_t dot = global.rfind('.');
  if (!absl::StartsWith(global, "torch.") || dot == absl::string_view::npos) {
    return std::nullopt;
  }
  for (const TorchName& each : kStorageNames) {
    if (global.substr(dot + 1) == each.name) return each.dtype;
  }
  return std::nullopt;
}

class PickleMachine {
 public:
  explicit PickleMachine(absl::string_view pickle)
      : pickle_(pickle), rest_(pickle) {}

  // Returns what the pickle leaves on the stack.
  absl::StatusOr<PickleValue*> Run() {
    while (!rest_.empty()) {
      op_at_ = pickle_.size() - rest_.size();
      const auto op = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      if (op == '.') {
        if (stack_.size() != 1) return Bad("STOP with another stack");
        return stack_.back();
      }
      CKPTDB_RETURN_IF_ERROR(Execute(op));
      if (!ok_) return Bad("the pickle is cut");
    }
    return Bad("the pickle is cut");
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("not a pickle of tensors: ", what, " at byte ", op_at_));
  }
  absl::Status NeedsCode(const std::string& global) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "the pickle has a ", absl::CHexEscape(global), " at byte ", op_at_,
        ", which only executing code could make; save a state dictionary of "
        "tensors and numbers instead"));
  }

  // --- Reading arguments. Past the end they are 0, and ok_ becomes false.

  uint64_t Number(size_t bytes) {
    const absl::string_view taken = Take(bytes);
    uint64_t value = 0;
    for (size_t i = taken.size(); i-- > 0;) {
      value = value << 8 | static_cast<uint8_t>(taken[i]);
    }
    return value;
  }
  absl::string_view Take(uint64_t bytes) {
    ok_ = ok_ && bytes <= rest_.size();
    const absl::string_view taken = rest_.substr(0, ok_ ? bytes : 0);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string Line() {
    const size_t end = rest_.find('\n');
    ok_ = ok_ && end != absl::string_view::npos;
    const std::string line(Take(ok_ ? end : 0));
    Take(1);
    return line;
  }

  // --- The stack.

  PickleValue* Make(PickleKind kind) {
    values_.emplace_back();
    values_.back().kind = kind;
    return &values_.back();
  }
  PickleValue* Push(PickleKind kind) {
    stack_.push_back(Make(kind));
    return stack_.back();
  }
  void PushInteger(int64_t value) {
    Push(PickleKind::kInteger)->integer = value;
  }
  void PushText(PickleKind kind, absl::string_view text) {
    Push(kind)->text = std::string(text);
  }
  // Null, with ok_ false, if the stack has no value.
  PickleValue* Pop() {
    if (stack_.empty()) {
      ok_ = false;
      return Make(PickleKind::kNone);
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* Top() {
    if (!stack_.empty()) return stack_.back();
    ok_ = false;
    return Make(PickleKind::kNone);
  }
  // Takes the values above the last mark, and the mark.
  std::vector<PickleValue*> PopMark() {
    for (size_t i = stack_.size(); i-- > 0;) {
      if (stack_[i]->kind != PickleKind::kMark) continue;
      std::vector<PickleValue*> items(stack_.begin() + i + 1, stack_.end());
      stack_.resize(i);
      return items;
    }
    ok_ = false;
    return {};
  }
  void PushSequence(std::vector<PickleValue*> items) {
    Push(PickleKind::kSequence)->items = std::move(items);
  }
  void PushTuple(size_t size) {
    std::vector<PickleValue*> items(size);
    for (size_t i = size; i-- > 0;) items[i] = Pop();
    PushSequence(std::move(items));
  }

  // --- Opcodes.

  absl::Status Execute(uint8_t op) {
    if (ExecuteNumber(op) || ExecuteText(op) || ExecuteMemo(op)) {
      return absl::OkStatus();
    }
    switch (op) {
      case ')':
        PushSequence({});
        break;
      case ']':
        PushSequence({});
        break;
      case '}':
        Push(PickleKind::kDict);
        break;
      case '(':
        Push(PickleKind::kMark);
        break;
      case '0':
        Pop();
        break;
      case '1':
        PopMark();
        break;
      case '2':
        stack_.push_back(Top());
        break;
      case 't':
      case 'l':
        PushSequence(PopMark());
        break;
      case 0x85:
        PushTuple(1);
        break;
      case 0x86:
        PushTuple(2);
        break;
      case 0x87:
        PushTuple(3);
        break;
      case 'd': {
        std::vector<PickleValue*> items = PopMark();
        Push(PickleKind::kDict)->items = std::move(items);
        break;
      }
      case 'a':
        return Append({Pop()}, PickleKind::kSequence);
      case 'e':
        return Append(PopMark(), PickleKind::kSequence);
      case 's': {
        PickleValue* value = Pop();
        PickleValue* key = Pop();
        return Append({key, value}, PickleKind::kDict);
      }
      case 'u':
        return Append(PopMark(), PickleKind::kDict);
      case 'R':
      case 0x81:
        return Reduce();
      case 'b':
        return Build();
      case 'Q':
        return Persistent();
      default:
        return Bad(absl::StrCat("opcode 0x", absl::Hex(op, absl::kZeroPad2)));
    }
    return absl::OkStatus();
  }

  bool ExecuteNumber(uint8_t op) {
    switch (op) {
      case 0x80:
        Take(1);
        return true;  // the protocol
      case 0x95:
        Take(8);
        return true;  // a frame
      case 'N':
        Push(PickleKind::kNone);
        return true;
      case 0x88:
        Push(PickleKind::kBool)->boolean = true;
        return true;
      case 0x89:
        Push(PickleKind::kBool);
        return true;
      case 'J':
        PushInteger(static_cast<int32_t>(Number(4)));
        return true;
      case 'K':
        PushInteger(static_cast<int64_t>(Number(1)));
        return true;
      case 'M':
        PushInteger(static_cast<int64_t>(Number(2)));
        return true;
      case 0x8a:
        PushLong(Number(1));
        return true;
      case 'G': {
        const absl::string_view bytes = Take(8);
        uint64_t bits = 0;
        for (const char c : bytes) bits = bits << 8 | static_cast<uint8_t>(c);
        Push(PickleKind::kFloat)->number = std::bit_cast<double>(bits);
        return true;
      }
      default:
        return false;
    }
  }
  // An integer of more than 64 bits is kept as text.
  void PushLong(uint64_t bytes) {
    if (bytes > sizeof(int64_t)) {
      PushText(PickleKind::kText,
               absl::StrCat("0x", absl::BytesToHexString(Take(bytes)),
                            " (little-endian)"));
      return;
    }
    uint64_t value = Number(bytes);
    const uint64_t bits = 8 * bytes;
    if (bits > 0 && bits < 64 && (value >> (bits - 1) & 1) != 0) {
      value |= ~uint64_t{0} << bits;
    }
    PushInteger(static_cast<int64_t>(value));
  }
  bool ExecuteText(uint8_t op) {
    switch (op) {
      case 'X':
      case 'T':
        PushText(PickleKind::kText, Take(Number(4)));
        return true;
      case 0x8c:
      case 'U':
        PushText(PickleKind::kText, Take(Number(1)));
        return true;
      case 0x8d:
        PushText(PickleKind::kText, Take(Number(8)));
        return true;
      case 'B':
        PushText(PickleKind::kBytes, Take(Number(4)));
        return true;
      case 'C':
        PushText(PickleKind::kBytes, Take(Number(1)));
        return true;
      case 0x8e:
        PushText(PickleKind::kBytes, Take(Number(8)));
        return true;
      case 'c': {
        const std::string module = Line();
        PushText(PickleKind::kGlobal, absl::StrCat(module, ".", Line()));
        return true;
      }
      case 0x93: {
        const PickleValue* name = Pop();
        const PickleValue* module = Pop();
        PushText(PickleKind::kGlobal,
                 absl::StrCat(module->text, ".", name->text));
        return true;
      }
      default:
        return false;
    }
  }
  bool ExecuteMemo(uint8_t op) {
    switch (op) {
      case 'q':
        memo_[Number(1)] = Top();
        return true;
      case 'r':
        memo_[Number(4)] = Top();
        return true;
      case 0x94:
        memo_[memo_.size()] = Top();
        return true;
      case 'h':
        PushMemo(Number(1));
        return true;
      case 'j':
        PushMemo(Number(4));
        return true;
      default:
        return false;
    }
  }
  void PushMemo(uint64_t key) {
    const auto found = memo_.find(key);
    ok_ = ok_ && found != memo_.end();
    stack_.push_back(ok_ ? found->second : Make(PickleKind::kNone));
  }

  absl::Status Append(const std::vector<PickleValue*>& items, PickleKind to) {
    PickleValue* container = Top();
    if (container->kind != to ||
        (to == PickleKind::kDict && items.size() % 2 != 0)) {
      return Bad("items of something that has none");
    }
    container->items.insert(container->items.end(), items.begin(), items.end());
    return absl::OkStatus();
  }
  // Attributes of an ordered dictionary, such as a state dictionary's
  // _metadata.
  absl::Status Build() {
    PickleValue* state = Pop();
    PickleValue* object = Top();
    if (object->kind != PickleKind::kDict || state->kind != PickleKind::kDict) {
      return Bad("attributes of something else than a dictionary");
    }
    object->attributes = state;
    return absl::OkStatus();
  }

  absl::Status Persistent() {
    const PickleValue* id = Pop();
    // ("storage", class, key, device, elements)
    if (id->kind != PickleKind::kSequence || id->items.size() < 5 ||
        id->items[0]->text != "storage" ||
        id->items[1]->kind != PickleKind::kGlobal ||
        id->items[2]->kind != PickleKind::kText ||
        id->items[4]->kind != PickleKind::kInteger) {
      return Bad("a persistent id that is no storage");
    }
    const std::optional<DType> dtype = StorageDType(id->items[1]->text);
    if (!dtype.has_value()) return NeedsCode(id->items[1]->text);
    const int64_t elements = id->items[4]->integer;
    if (!ElementCount({elements}, DTypeBytes(*dtype)).ok()) {
      return Bad(absl::StrCat("a storage of ", elements, " elements"));
    }
    PickleValue* storage = Push(PickleKind::kStorage);
    storage->text = id->items[2]->text;
    storage->tensor.dtype = *dtype;
    storage->tensor.storage_bytes =
        static_cast<uint64_t>(elements) * DTypeBytes(*dtype);
    return absl::OkStatus();
  }

  absl::Status Reduce() {
    const PickleValue* arguments = Pop();
    const PickleValue* callable = Pop();
    if (callable->kind != PickleKind::kGlobal ||
        arguments->kind != PickleKind::kSequence) {
      return Bad("a call of something that is no function");
    }
    const std::string& name = callable->text;
    const std::vector<PickleValue*>& items = arguments->items;
    if (name == "collections.OrderedDict" || name == "builtins.dict" ||
        name == "collections.defaultdict") {
      return MakeDict(items);
    }
    if (absl::StartsWith(name, "torch._utils._rebuild_tensor")) {
      return MakeTensor(name, items);
    }
    const bool passes_first =
        absl::StartsWith(name, "torch._utils._rebuild_parameter") ||
        name == "torch.Size" || name == "torch.device";
    if (!passes_first || items.empty()) return NeedsCode(name);
    stack_.push_back(items[0]);
    return absl::OkStatus();
  }
  // OrderedDict([[key, value], ...]), or with no argument that matters.
  absl::Status MakeDict(const std::vector<PickleValue*>& arguments) {
    PickleValue* dict = Push(PickleKind::kDict);
    if (arguments.empty() || arguments[0]->kind != PickleKind::kSequence) {
      return absl::OkStatus();
    }
    for (const PickleValue* pair : arguments[0]->items) {
      if (pair->kind != PickleKind::kSequence || pair->items.size() != 2) {
        return Bad("a dictionary of something else than pairs");
      }
      dict->items.insert(dict->items.end(), pair->items.begin(),
                         pair->items.end());
    }
    return absl::OkStatus();
  }
  static std::optional<Shape> Integers(const PickleValue& value) {
    if (value.kind != PickleKind::kSequence) return std::nullopt;
    Shape numbers;
    for (const PickleValue* item : value.items) {
      if (item->kind != PickleKind::kInteger) return std::nullopt;
      numbers.push_back(item->integer);
    }
    return numbers;
  }
  // (storage, offset, shape, strides, ...), and for version 3 a dtype.
  absl::Status MakeTensor(const std::string& name,
                          const std::vector<PickleValue*>& items) {
    constexpr size_t kDTypeAt = 6;
    if (items.size() < 4 || items[0]->kind != PickleKind::kStorage ||
        items[1]->kind != PickleKind::kInteger) {
      return Bad("a tensor without a storage");
    }
    TorchTensor tensor = items[0]->tensor;
    tensor.storage = items[0]->text;
    tensor.offset = items[1]->integer;
    std::optional<Shape> shape = Integers(*items[2]);
    std::optional<Shape> strides = Integers(*items[3]);
    if (!shape || !strides) return Bad("a tensor without a shape");
    tensor.shape = *std::move(shape);
    tensor.strides = *std::move(strides);
    if (absl::EndsWith(name, "_v3")) {
      const std::string dtype =
          items.size() > kDTypeAt ? items[kDTypeAt]->text : "";
      bool known = false;
      for (const TorchName& each : kTorchDTypes) {
        if (each.name != dtype) continue;
        tensor.dtype = each.dtype;
        known = true;
      }
      if (!known) return NeedsCode(dtype);
    } else if (name != "torch._utils._rebuild_tensor_v2" &&
               name != "torch._utils._rebuild_tensor") {
      return NeedsCode(name);
    }
    CKPTDB_RETURN_IF_ERROR(CheckTensor(tensor));
    Push(PickleKind::kTensor)->tensor = std::move(tensor);
    return absl::OkStatus();
  }
  absl::Status CheckTensor(const TorchTensor& tensor) const {
    const uint32_t element_bytes = DTypeBytes(tensor.dtype);
    const auto count = ElementCount(tensor.shape, element_bytes);
    bool fits = count.ok() && tensor.offset >= 0 &&
                tensor.strides.size() == tensor.shape.size();
    // The last element; each step is bounded by the storage.
    auto last = static_cast<uint64_t>(tensor.offset);
    const uint64_t elements = tensor.storage_bytes / element_bytes;
    for (size_t i = 0; fits && *count > 0 && i < tensor.shape.size(); ++i) {
      const auto steps = static_cast<uint64_t>(tensor.shape[i] - 1);
      const auto stride = static_cast<uint64_t>(tensor.strides[i]);
      fits =
          tensor.strides[i] >= 0 && (steps == 0 || stride <= elements / steps);
      last += steps * (fits ? stride : 0);
    }
    if (fits && (*count == 0 || last < elements)) return absl::OkStatus();
    return Bad(absl::StrCat("a tensor ", ToString(tensor.shape), " at ",
                            tensor.offset, " with strides ",
                            ToString(tensor.strides), " in a storage of ",
                            elements, " elements"));
  }

  const absl::string_view pickle_;
  absl::string_view rest_;
  size_t op_at_ = 0;
  bool ok_ = true;
  std::deque<PickleValue> values_;  // all, which may refer to each other
  std::vector<PickleValue*> stack_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

// Names the values that a pickle consists of. A value may occur in several
// places, so that their number is bounded.
class PickleWalk {
 public:
  PickleWalk(uint64_t limit, TorchPickle* result)
      : left_(limit), result_(result) {}

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
        return value.items.empty() ? Add(name, "[]") : absl::OkStatus();
      case PickleKind::kDict:
        return VisitDict(name, value, depth);
      case PickleKind::kTensor:
        result_->tensors.push_back(value.tensor);
        result_->tensors.back().name = name;
        return absl::OkStatus();
      case PickleKind::kBytes:
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
  absl::Status Add(const std::string& name, std::string json) {
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
      // A name of too many bytes is refused later.
      if (name.size() > kMaxNameBytes) return TooLong(name);
      CKPTDB_RETURN_IF_ERROR(
          Visit(Join(name, text), *value.items[i + 1], depth + 1));
    }
    if (value.attributes != nullptr) {
      CKPTDB_RETURN_IF_ERROR(Visit(name, *value.attributes, depth + 1));
    }
    const bool empty = value.items.empty() && value.attributes == nullptr;
    return empty ? Add(name, "{}") : absl::OkStatus();
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
            value.text.empty() ? "no tensor" : absl::CHexEscape(value.text),
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
  for (const TorchName& each : kTorchDTypes) {
    if (each.dtype != tensor.dtype) continue;
    absl::StrAppend(out, "ctorch\n", absl::StripPrefix(each.name, "torch."),
                    "\n");
  }
  absl::StrAppend(out, "tR");
}

}  // namespace

absl::StatusOr<TorchPickle> ParseTorchPickle(absl::string_view pickle,
                                             const std::string& root) {
  PickleMachine machine(pickle);
  CKPTDB_ASSIGN_OR_RETURN(const PickleValue* value, machine.Run());
  constexpr uint64_t kLeastVisits = 4096;
  TorchPickle result;
  const bool is_container =
      value->kind == PickleKind::kDict || value->kind == PickleKind::kSequence;
  CKPTDB_RETURN_IF_ERROR(PickleWalk(kLeastVisits + pickle.size(), &result)
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
