// SPDX-License-Identifier: Apache-2.0
#include "tools/files/pickle_machine.h"

#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/status.h"
#include "tools/files/torch_dtype.h"

namespace ckptdb::tool {
namespace {

class PickleMachine {
 public:
  PickleMachine(absl::string_view pickle, PickleMemory* memory,
                std::deque<PickleValue>* values)
      : pickle_(pickle), rest_(pickle), memory_(*memory), values_(*values) {}

  // Returns the value that the pickle leaves on the stack.
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
      CKPTDB_RETURN_IF_ERROR(memory_.Check());
      if (!ok_) return Bad("the pickle is cut");
    }
    return Bad("the pickle is cut");
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("not a pickle of tensors: ", what, " at byte ", op_at_));
  }
  static std::string Shown(absl::string_view global) {
    constexpr size_t kShownBytes = 64;
    return absl::CHexEscape(global.substr(0, kShownBytes));
  }
  absl::Status LacksDType(absl::string_view global) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "the pickle has a ", Shown(global), " at byte ", op_at_,
        absl::StrContains(absl::AsciiStrToLower(global), "complex")
            ? "; complex numbers are not supported; save the tensor with "
              "torch.view_as_real"
            : "; its dtype is not supported; convert the tensor to another"));
  }
  absl::Status NeedsCode(absl::string_view global) const {
    if (global == "builtins.complex" || global == "__builtin__.complex") {
      return LacksDType(global);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "the pickle has a ", Shown(global), " at byte ", op_at_,
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
    std::string line(Take(ok_ ? end : 0));
    Take(1);
    return line;
  }

  // --- The stack.

  // Creates the value even if it exceeds the memory limit; Run returns the
  // error after the opcode.
  PickleValue* Make(PickleKind kind) {
    memory_.Take(sizeof(PickleValue));
    values_.emplace_back();
    values_.back().kind = kind;
    return &values_.back();
  }
  void PushValue(PickleValue* value) {
    if (stack_.size() == max_depth_) {
      ++max_depth_;
      memory_.Take(PickleMemory::kReferenceBytes);
    }
    stack_.push_back(value);
  }
  PickleValue* Push(PickleKind kind) {
    PushValue(Make(kind));
    return stack_.back();
  }
  void PushInteger(int64_t value) {
    Push(PickleKind::kInteger)->integer = value;
  }
  void PushText(PickleKind kind, absl::string_view text) {
    PickleValue* value = Push(kind);
    if (memory_.Take(text.size())) value->text = std::string(text);
  }
  void PushGlobal(absl::string_view module, absl::string_view name) {
    PickleValue* value = Push(PickleKind::kGlobal);
    if (!memory_.Take(module.size() + name.size())) return;
    value->text = absl::StrCat(module, ".", name);
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
    memory_.Take(items.size() * PickleMemory::kReferenceBytes);
    Push(PickleKind::kSequence)->items = std::move(items);
  }
  void PushTuple(size_t size) {
    std::vector<PickleValue*> items(size);
    for (size_t i = size; i-- > 0;) items[i] = Pop();
    PushSequence(std::move(items));
  }

  // --- Opcodes.

  absl::Status Execute(uint8_t op) {
    if (ExecuteNumber(op) || ExecuteText(op) || ExecuteMemo(op) ||
        ExecuteStack(op)) {
      return absl::OkStatus();
    }
    switch (op) {
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
  }
  // Containers, the mark and the stack itself.
  bool ExecuteStack(uint8_t op) {
    if (op == ')' || op == ']') {
      PushSequence({});
    } else if (op == '}') {
      Push(PickleKind::kDict);
    } else if (op == '(') {
      Push(PickleKind::kMark);
    } else if (op == '0') {
      Pop();
    } else if (op == '1') {
      PopMark();
    } else if (op == '2') {
      PushValue(Top());
    } else if (op == 't' || op == 'l') {
      PushSequence(PopMark());
    } else if (op >= 0x85 && op <= 0x87) {
      PushTuple(op - 0x84);
    } else if (op == 'd') {
      PushSequence(PopMark());
      Top()->kind = PickleKind::kDict;
    } else {
      return false;
    }
    return true;
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
  // Integers that do not fit in 64 bits are kept as text.
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
        PushGlobal(module, Line());
        return true;
      }
      case 0x93: {
        const PickleValue* name = Pop();
        const PickleValue* module = Pop();
        PushGlobal(module->text, name->text);
        return true;
      }
      default:
        return false;
    }
  }
  bool ExecuteMemo(uint8_t op) {
    switch (op) {
      case 'q':
        Memorize(Number(1));
        return true;
      case 'r':
        Memorize(Number(4));
        return true;
      case 0x94:
        Memorize(memo_.size());
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
  void Memorize(uint64_t key) {
    constexpr uint64_t kEntryBytes = 64;
    const auto [entry, added] = memo_.insert_or_assign(key, Top());
    if (added) memory_.Take(kEntryBytes);
  }
  void PushMemo(uint64_t key) {
    const auto found = memo_.find(key);
    ok_ = ok_ && found != memo_.end();
    PushValue(ok_ ? found->second : Make(PickleKind::kNone));
  }

  absl::Status Append(const std::vector<PickleValue*>& items, PickleKind to) {
    PickleValue* container = Top();
    if (container->kind != to ||
        (to == PickleKind::kDict && items.size() % 2 != 0)) {
      return Bad("items of something that has none");
    }
    AddItems(items, container);
    return absl::OkStatus();
  }
  void AddItems(const std::vector<PickleValue*>& items, PickleValue* to) {
    if (!memory_.Take(items.size() * PickleMemory::kReferenceBytes)) return;
    to->items.insert(to->items.end(), items.begin(), items.end());
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
    const std::optional<DType> dtype = TorchStorageDType(id->items[1]->text);
    if (!dtype.has_value()) {
      return IsTorchStorage(id->items[1]->text) ? LacksDType(id->items[1]->text)
                                                : NeedsCode(id->items[1]->text);
    }
    const int64_t elements = id->items[4]->integer;
    if (!ElementCount({elements}, DTypeBytes(*dtype)).ok()) {
      return Bad(absl::StrCat("a storage of ", elements, " elements"));
    }
    PushText(PickleKind::kStorage, id->items[2]->text);
    memory_.Take(sizeof(TorchTensor));
    Top()->tensor = std::make_unique<TorchTensor>();
    Top()->tensor->dtype = *dtype;
    Top()->tensor->storage_bytes =
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
    PushValue(items[0]);
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
      AddItems(pair->items, dict);
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
  // The arguments are those of MakeTensor.
  static uint64_t TensorBytes(const std::vector<PickleValue*>& items) {
    return sizeof(TorchTensor) + items[0]->text.size() +
           (items[2]->items.size() + items[3]->items.size()) * sizeof(int64_t);
  }
  // (storage, offset, shape, strides, ...), and for version 3 a dtype.
  absl::Status MakeTensor(const std::string& name,
                          const std::vector<PickleValue*>& items) {
    constexpr size_t kDTypeAt = 6;
    if (items.size() < 4 || items[0]->kind != PickleKind::kStorage ||
        items[1]->kind != PickleKind::kInteger) {
      return Bad("a tensor without a storage");
    }
    if (!memory_.Take(TensorBytes(items))) return absl::OkStatus();
    TorchTensor tensor = *items[0]->tensor;
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
      const std::optional<DType> known = TorchDType(dtype);
      if (!known.has_value()) {
        return dtype.empty() ? Bad("a tensor without a dtype")
                             : LacksDType(dtype);
      }
      tensor.dtype = *known;
    } else if (name != "torch._utils._rebuild_tensor_v2" &&
               name != "torch._utils._rebuild_tensor") {
      return NeedsCode(name);
    }
    CKPTDB_RETURN_IF_ERROR(CheckTensor(tensor));
    Push(PickleKind::kTensor)->tensor =
        std::make_unique<TorchTensor>(std::move(tensor));
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
  PickleMemory& memory_;
  std::deque<PickleValue>& values_;
  std::vector<PickleValue*> stack_;
  size_t max_depth_ = 0;  // of the stack so far
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

}  // namespace

absl::Status PickleMemory::Check() const {
  if (!exhausted_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the values of the pickle take more than ", kMaxBytes >> 20,
      " MiB of memory, the limit; save numbers as tensors, not as lists"));
}

absl::StatusOr<const PickleValue*> RunPickle(absl::string_view pickle,
                                             PickleMemory* memory,
                                             std::deque<PickleValue>* values) {
  return PickleMachine(pickle, memory, values).Run();
}

}  // namespace ckptdb::tool
