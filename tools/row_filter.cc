// SPDX-License-Identifier: Apache-2.0
#include "tools/row_filter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/status.h"
#include "tools/json.h"
#include "tools/suggestion.h"
#include "tools/widened.h"

namespace ckptdb::tool {

// A number for each row of a batch.
class RowFilter::Node {
 public:
  virtual ~Node() = default;
  virtual void Evaluate(const RowSink::Batch& batch, Number* out) const = 0;
};

namespace {

using FilterNumber = RowFilter::Number;
using FilterNode = std::shared_ptr<const RowFilter::Node>;

class ConstantNode : public RowFilter::Node {
 public:
  explicit ConstantNode(FilterNumber number) : number_(number) {}
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    std::fill_n(out, batch.ids.size(), number_);
  }

 private:
  const FilterNumber number_;
};

class IdNode : public RowFilter::Node {
 public:
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    std::copy(batch.ids.begin(), batch.ids.end(), out);
  }
};

// An element of a slot.
class ElementNode : public RowFilter::Node {
 public:
  ElementNode(const Slot& slot, size_t position, uint32_t element)
      : slot_(slot), position_(position), element_(element) {}
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    const uint32_t bytes = DTypeBytes(slot_.dtype);
    const char* from = batch.slots[position_] + size_t{element_} * bytes;
    // Gathers the elements, so that they are widened together.
    std::string packed(batch.ids.size() * bytes, '\0');
    for (size_t r = 0; r < batch.ids.size(); ++r) {
      std::memcpy(&packed[r * bytes], from + r * slot_.row_bytes(), bytes);
    }
    ForWidened(slot_.dtype, packed.data(), batch.ids.size(), 1,
               [&](const auto* numbers, size_t count) {
                 out = std::copy_n(numbers, count, out);
               });
  }

 private:
  const Slot slot_;
  const size_t position_;
  const uint32_t element_;
};

// --- Functions of all elements of a slot.

// Adds up with four sums, because each addition waits for the one before.
template <typename T, typename Map>
double SumOf(const T* numbers, size_t count, const Map& map) {
  std::array<double, 4> sums = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += map(numbers[i + k]);
  }
  for (; i < count; ++i) sums[0] += map(numbers[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <typename T>
double AsDouble(T number) {
  return static_cast<double>(number);
}

struct CountNan {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return SumOf(numbers, count,
                 [](T x) { return IsNanElement(x) ? 1.0 : 0.0; });
  }
};
struct CountInf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return SumOf(numbers, count,
                 [](T x) { return std::isinf(AsDouble(x)) ? 1.0 : 0.0; });
  }
};
struct CountNotFinite {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return SumOf(numbers, count,
                 [](T x) { return IsFiniteElement(x) ? 0.0 : 1.0; });
  }
};
struct NormOf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return std::sqrt(
        SumOf(numbers, count, [](T x) { return AsDouble(x) * AsDouble(x); }));
  }
};
struct ElementsSum {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return SumOf(numbers, count, AsDouble<T>);
  }
};
struct MeanOf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return ElementsSum::Of(numbers, count) / AsDouble(count);
  }
};
// Returns the element that is first by `before`, or NaN if any is NaN.
template <typename T, typename Before>
FilterNumber FirstBy(const T* numbers, size_t count, const Before& before) {
  T first = numbers[0];
  for (size_t i = 0; i < count; ++i) {
    if (IsNanElement(numbers[i])) return numbers[i];
    first = before(numbers[i], first) ? numbers[i] : first;
  }
  return first;
}
struct MinOf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return FirstBy(numbers, count, std::less<T>());
  }
};
struct MaxOf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    return FirstBy(numbers, count, std::greater<T>());
  }
};
struct AbsMaxOf {
  template <typename T>
  static FilterNumber Of(const T* numbers, size_t count) {
    const FilterNumber min = MinOf::Of(numbers, count);
    const FilterNumber max = MaxOf::Of(numbers, count);
    return std::isnan(min) ? min : std::max(std::abs(min), std::abs(max));
  }
};

template <typename Function>
class FunctionNode : public RowFilter::Node {
 public:
  FunctionNode(const Slot& slot, size_t position)
      : slot_(slot), position_(position) {}
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    const size_t width = slot_.elements;
    ForWidened(slot_.dtype, batch.slots[position_], batch.ids.size() * width,
               width, [&](const auto* numbers, size_t count) {
                 for (size_t i = 0; i < count; i += width) {
                   *out++ = Function::Of(numbers + i, width);
                 }
               });
  }

 private:
  const Slot slot_;
  const size_t position_;
};

template <typename Function>
FilterNode NewFunction(const Slot& slot, size_t position) {
  return std::make_shared<FunctionNode<Function>>(slot, position);
}

struct SlotFunction {
  absl::string_view name;
  FilterNode (*make)(const Slot& slot, size_t position);
};
constexpr std::array<SlotFunction, 8> kSlotFunctions = {{
    {"nan", NewFunction<CountNan>},
    {"inf", NewFunction<CountInf>},
    {"norm", NewFunction<NormOf>},
    {"min", NewFunction<MinOf>},
    {"max", NewFunction<MaxOf>},
    {"absmax", NewFunction<AbsMaxOf>},
    {"sum", NewFunction<ElementsSum>},
    {"mean", NewFunction<MeanOf>},
}};
constexpr char kFunctionNames[] =
    "nan, inf, norm, min, max, absmax, sum, mean and abs";

// --- Functions of numbers.

template <typename Map>
class MapNode : public RowFilter::Node {
 public:
  MapNode(FilterNode inner, Map map) : inner_(std::move(inner)), map_(map) {}
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    inner_->Evaluate(batch, out);
    std::transform(out, out + batch.ids.size(), out, map_);
  }

 private:
  const FilterNode inner_;
  const Map map_;
};

template <typename Map>
FilterNode NewMap(FilterNode inner, Map map) {
  return std::make_shared<MapNode<Map>>(std::move(inner), map);
}

// Combines any number of values, from the left, by `Combine`.
template <typename Combine>
class FoldNode : public RowFilter::Node {
 public:
  explicit FoldNode(std::vector<FilterNode> parts) : parts_(std::move(parts)) {}
  void Evaluate(const RowSink::Batch& batch, FilterNumber* out) const override {
    parts_[0]->Evaluate(batch, out);
    std::vector<FilterNumber> other(batch.ids.size());
    for (size_t i = 1; i < parts_.size(); ++i) {
      parts_[i]->Evaluate(batch, other.data());
      std::transform(
          out, out + other.size(), other.begin(), out,
          [](FilterNumber a, FilterNumber b) { return Combine()(a, b); });
    }
  }

 private:
  const std::vector<FilterNode> parts_;
};

template <typename Combine>
FilterNode NewFold(std::vector<FilterNode> parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<FoldNode<Combine>>(std::move(parts));
}

struct Comparison {
  absl::string_view text;
  FilterNode (*make)(std::vector<FilterNode> sides);
};
// A text comes before its prefixes.
constexpr std::array<Comparison, 7> kComparisons = {{
    {"<=", NewFold<std::less_equal<FilterNumber>>},
    {">=", NewFold<std::greater_equal<FilterNumber>>},
    {"==", NewFold<std::equal_to<FilterNumber>>},
    {"!=", NewFold<std::not_equal_to<FilterNumber>>},
    {"<", NewFold<std::less<FilterNumber>>},
    {">", NewFold<std::greater<FilterNumber>>},
    {"=", NewFold<std::equal_to<FilterNumber>>},
}};

// --- The parser.

bool BeginsName(char c) {
  return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
}
bool ContinuesName(char c) {
  return BeginsName(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
         absl::string_view("./:-").find(c) != absl::string_view::npos;
}
bool ContinuesNumber(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '+' || c == '-';
}

// Integers are exact if they fit 64 bits.
std::optional<FilterNumber> ParseNumber(absl::string_view text) {
  int64_t integer = 0;
  uint64_t large = 0;
  double real = 0;
  if (absl::SimpleAtoi(text, &integer)) return integer;
  if (absl::SimpleAtoi(text, &large)) return large;
  if (absl::SimpleAtod(text, &real)) return real;
  return std::nullopt;
}

class FilterParser {
 public:
  FilterParser(absl::string_view text, absl::Span<const Slot> slots)
      : text_(text), slots_(slots) {}

  absl::StatusOr<FilterNode> Parse();
  const std::vector<std::string>& named() const { return named_; }

 private:
  struct Name {
    std::string text;
    size_t at = 0;
    bool quoted = false;
  };

  absl::StatusOr<FilterNode> ParseOr();
  absl::StatusOr<FilterNode> ParseAnd();
  absl::StatusOr<FilterNode> ParseComparison();
  absl::StatusOr<FilterNode> ParseValue();
  absl::StatusOr<FilterNode> ParseGroup();
  absl::StatusOr<FilterNode> ParseConstant();
  absl::StatusOr<FilterNode> ParseNamed();
  absl::StatusOr<FilterNode> ParseFunction(const Name& name);
  absl::StatusOr<FilterNode> ParseElement(const Name& name);
  absl::StatusOr<uint32_t> ParseIndex(const Slot& slot);
  absl::StatusOr<Name> ParseName();
  absl::StatusOr<const Slot*> FindSlot(const Name& name) const;

  // Skips spaces, and the word if it is next.
  bool Skip(absl::string_view word);
  char Next();  // after spaces; 0 at the end
  size_t PositionOf(const Slot& slot);
  absl::Status ErrorAt(size_t at, absl::string_view what) const;
  absl::Status Expected(absl::string_view what);
  std::string SlotNames() const;

  const absl::string_view text_;
  const absl::Span<const Slot> slots_;
  std::vector<std::string> named_;
  size_t at_ = 0;
  int depth_ = 0;
};

absl::Status FilterParser::ErrorAt(size_t at, absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid filter \"", text_, "\": column ", at + 1, ": ", what));
}

absl::Status FilterParser::Expected(absl::string_view what) {
  const char next = Next();
  return ErrorAt(at_, next == 0 ? absl::StrCat("the end; expected ", what)
                                : absl::StrCat("\"", std::string(1, next),
                                               "\"; expected ", what));
}

char FilterParser::Next() {
  while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool FilterParser::Skip(absl::string_view word) {
  Next();
  if (text_.substr(at_, word.size()) != word) return false;
  at_ += word.size();
  return true;
}

absl::StatusOr<FilterNode> FilterParser::Parse() {
  if (text_.size() > kMaxFilterBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the filter has ", text_.size(), " bytes; at most ",
                     kMaxFilterBytes, " are allowed; list ids with --ids"));
  }
  CKPTDB_ASSIGN_OR_RETURN(FilterNode root, ParseOr());
  Next();
  if (at_ < text_.size()) return Expected("&, | or the end");
  return root;
}

absl::StatusOr<FilterNode> FilterParser::ParseOr() {
  std::vector<FilterNode> parts;
  do {
    CKPTDB_ASSIGN_OR_RETURN(parts.emplace_back(), ParseAnd());
  } while (Skip("||") || Skip("|"));
  return NewFold<std::logical_or<FilterNumber>>(std::move(parts));
}

absl::StatusOr<FilterNode> FilterParser::ParseAnd() {
  std::vector<FilterNode> parts;
  do {
    CKPTDB_ASSIGN_OR_RETURN(parts.emplace_back(), ParseComparison());
  } while (Skip("&&") || Skip("&"));
  return NewFold<std::logical_and<FilterNumber>>(std::move(parts));
}

absl::StatusOr<FilterNode> FilterParser::ParseComparison() {
  CKPTDB_ASSIGN_OR_RETURN(FilterNode left, ParseValue());
  for (const Comparison& comparison : kComparisons) {
    if (!Skip(comparison.text)) continue;
    CKPTDB_ASSIGN_OR_RETURN(FilterNode right, ParseValue());
    return comparison.make({std::move(left), std::move(right)});
  }
  return left;
}

// Each recursion passes here.
absl::StatusOr<FilterNode> FilterParser::ParseValue() {
  if (depth_ == kMaxFilterDepth) {
    return ErrorAt(at_, absl::StrCat("more than ", kMaxFilterDepth,
                                     " levels of parentheses and \"!\""));
  }
  ++depth_;
  absl::StatusOr<FilterNode> node;
  const char next = Next();
  if (Skip("!")) {
    node = ParseValue();
    if (node.ok()) {
      node = NewMap(*std::move(node),
                    [](FilterNumber x) -> FilterNumber { return x == 0; });
    }
  } else if (Skip("(")) {
    node = ParseGroup();
  } else if (BeginsName(next) || next == '"') {
    node = ParseNamed();
  } else {
    node = ParseConstant();
  }
  --depth_;
  return node;
}

// Parses up to the closing parenthesis.
absl::StatusOr<FilterNode> FilterParser::ParseGroup() {
  CKPTDB_ASSIGN_OR_RETURN(FilterNode inner, ParseOr());
  if (!Skip(")")) return Expected("\")\"");
  return inner;
}

absl::StatusOr<FilterNode> FilterParser::ParseConstant() {
  const size_t begin = at_;
  while (at_ < text_.size() && ContinuesNumber(text_[at_])) ++at_;
  const absl::string_view word = text_.substr(begin, at_ - begin);
  if (word.empty()) return Expected("a number, a slot or a function");
  const std::optional<FilterNumber> number = ParseNumber(word);
  if (!number.has_value()) {
    return ErrorAt(begin, absl::StrCat("\"", word, "\" is not a number"));
  }
  return std::make_shared<ConstantNode>(*number);
}

absl::StatusOr<FilterParser::Name> FilterParser::ParseName() {
  Name name;
  name.quoted = Skip("\"");
  name.at = at_;
  if (!name.quoted) {
    if (!BeginsName(Next())) return Expected("the name of a slot");
    while (at_ < text_.size() && ContinuesName(text_[at_])) ++at_;
    name.text = Str(text_.substr(name.at, at_ - name.at));
    return name;
  }
  for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    name.text.push_back(text_[at_]);
  }
  if (!Skip("\"")) return ErrorAt(name.at - 1, "no closing quote");
  return name;
}

absl::StatusOr<FilterNode> FilterParser::ParseNamed() {
  CKPTDB_ASSIGN_OR_RETURN(const Name name, ParseName());
  if (!name.quoted) {
    if (Next() == '(') return ParseFunction(name);
    if (name.text == "id") return std::make_shared<IdNode>();
    if (name.text == "true") return std::make_shared<ConstantNode>(1);
    if (name.text == "false") return std::make_shared<ConstantNode>(0);
    // Slots of these names are written in quotes, as is one named "id".
    if (name.text == "nan" || name.text == "inf") {
      return std::make_shared<ConstantNode>(*ParseNumber(name.text));
    }
  }
  return ParseElement(name);
}

absl::StatusOr<FilterNode> FilterParser::ParseFunction(const Name& name) {
  Skip("(");
  if (name.text == "abs") {
    CKPTDB_ASSIGN_OR_RETURN(FilterNode inner, ParseGroup());
    return NewMap(std::move(inner), [](FilterNumber x) { return std::abs(x); });
  }
  for (const SlotFunction& function : kSlotFunctions) {
    if (function.name != name.text) continue;
    CKPTDB_ASSIGN_OR_RETURN(const Name argument, ParseName());
    CKPTDB_ASSIGN_OR_RETURN(const Slot* const slot, FindSlot(argument));
    if (!Skip(")")) return Expected("\")\"");
    return function.make(*slot, PositionOf(*slot));
  }
  return ErrorAt(name.at,
                 absl::StrCat("no function \"", name.text,
                              "\"; the functions are ", kFunctionNames));
}

absl::StatusOr<FilterNode> FilterParser::ParseElement(const Name& name) {
  CKPTDB_ASSIGN_OR_RETURN(const Slot* const slot, FindSlot(name));
  uint32_t element = 0;
  if (Skip("[")) {
    CKPTDB_ASSIGN_OR_RETURN(element, ParseIndex(*slot));
  } else if (slot->elements != 1) {
    return ErrorAt(
        name.at,
        absl::StrCat("slot \"", name.text, "\" has ", slot->elements,
                     " elements; write ", name.text, "[0] to ", name.text, "[",
                     slot->elements - 1, "], or a function: ", kFunctionNames));
  }
  return std::make_shared<ElementNode>(*slot, PositionOf(*slot), element);
}

// Parses the index and the closing bracket.
absl::StatusOr<uint32_t> FilterParser::ParseIndex(const Slot& slot) {
  Next();
  const size_t begin = at_;
  while (at_ < text_.size() && ContinuesNumber(text_[at_])) ++at_;
  uint32_t index = 0;
  const absl::string_view word = text_.substr(begin, at_ - begin);
  if (!absl::SimpleAtoi(word, &index) || index >= slot.elements) {
    return ErrorAt(
        begin, absl::StrCat("invalid index \"", word, "\"; slot \"", slot.name,
                            "\" has elements 0 to ", slot.elements - 1));
  }
  if (!Skip("]")) return Expected("\"]\"");
  return index;
}

absl::StatusOr<const Slot*> FilterParser::FindSlot(const Name& name) const {
  for (const Slot& slot : slots_) {
    if (slot.name == name.text) return &slot;
  }
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.name);
  return ErrorAt(name.at,
                 absl::StrCat("no slot \"", name.text, "\"; the slots are ",
                              SlotNames(), DidYouMean(name.text, names)));
}

std::string FilterParser::SlotNames() const {
  if (slots_.empty()) return "none";
  return absl::StrJoin(slots_, ", ", [](std::string* out, const Slot& slot) {
    absl::StrAppend(out, slot.name, " (", DTypeName(slot.dtype));
    if (slot.elements != 1) absl::StrAppend(out, " x ", slot.elements);
    out->push_back(')');
  });
}

size_t FilterParser::PositionOf(const Slot& slot) {
  const auto found = std::find(named_.begin(), named_.end(), slot.name);
  const auto position = static_cast<size_t>(found - named_.begin());
  if (found == named_.end()) named_.push_back(slot.name);
  return position;
}

}  // namespace

RowFilter::RowFilter(std::shared_ptr<const Node> root,
                     std::vector<std::string> slots)
    : root_(std::move(root)), slots_(std::move(slots)) {}

absl::StatusOr<RowFilter> RowFilter::Parse(absl::string_view text,
                                           absl::Span<const Slot> slots) {
  FilterParser parser(text, slots);
  CKPTDB_ASSIGN_OR_RETURN(FilterNode root, parser.Parse());
  return RowFilter(std::move(root), parser.named());
}

RowFilter RowFilter::NotFinite(absl::Span<const Slot> slots) {
  std::vector<FilterNode> parts;
  std::vector<std::string> names;
  for (const Slot& slot : slots) {
    // An integer cannot be NaN, and no float can be cast to one.
    if (CanCast(slot.dtype, DType::kI64)) continue;
    parts.push_back(NewFunction<CountNotFinite>(slot, names.size()));
    names.push_back(slot.name);
  }
  if (parts.empty()) parts.push_back(std::make_shared<ConstantNode>(0));
  return {NewFold<std::plus<FilterNumber>>(std::move(parts)), std::move(names)};
}

void RowFilter::Evaluate(const RowSink::Batch& batch,
                         std::vector<Number>* values) const {
  values->resize(batch.ids.size());
  root_->Evaluate(batch, values->data());
}

}  // namespace ckptdb::tool
