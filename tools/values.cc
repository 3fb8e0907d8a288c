#include "ckptdb/tools/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace ckptdb::tool {
namespace {

struct FloatLayout {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // with the highest exponent all are infinities or NaN
};

FloatLayout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return {5, 10, true};
    case DType::kBf16:
      return {8, 7, true};
    case DType::kF8E4M3:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

template <typename T>
T Load(absl::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

// Calls `take` with the element as a number of a type that has its dtype's
// values, bool too.
template <typename Take>
auto WithElement(DType dtype, absl::string_view bytes, const Take& take) {
  switch (dtype) {
    case DType::kF64:
      return take(Load<double>(bytes));
    case DType::kF32:
      return take(Load<float>(bytes));
    case DType::kF16:
    case DType::kBf16:
      return take(DecodeSmallFloat(dtype, Load<uint16_t>(bytes)));
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return take(DecodeSmallFloat(dtype, Load<uint8_t>(bytes)));
    case DType::kI64:
      return take(Load<int64_t>(bytes));
    case DType::kI32:
      return take(Load<int32_t>(bytes));
    case DType::kI16:
      return take(Load<int16_t>(bytes));
    case DType::kI8:
      return take(Load<int8_t>(bytes));
    case DType::kU64:
      return take(Load<uint64_t>(bytes));
    case DType::kU32:
      return take(Load<uint32_t>(bytes));
    case DType::kU16:
      return take(Load<uint16_t>(bytes));
    case DType::kU8:
      return take(Load<uint8_t>(bytes));
    case DType::kBool:
      break;
  }
  return take(Load<uint8_t>(bytes) != 0);
}

template <typename T>
std::string FloatText(T number) {
  std::array<char, 64> text = {};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end.ptr};
}

}  // namespace

float DecodeSmallFloat(DType dtype, uint16_t bits) {
  const FloatLayout layout = LayoutOf(dtype);
  const int mantissa_mask = (1 << layout.mantissa_bits) - 1;
  const int exponent_mask = (1 << layout.exponent_bits) - 1;
  const int mantissa = bits & mantissa_mask;
  const int exponent = (bits >> layout.mantissa_bits) & exponent_mask;
  const bool negative =
      (bits >> (layout.mantissa_bits + layout.exponent_bits)) != 0;
  // What the last bit of the mantissa of the smallest numbers counts.
  const int lowest =
      2 - (1 << (layout.exponent_bits - 1)) - layout.mantissa_bits;
  float number = 0;
  if (exponent == exponent_mask && layout.infinities && mantissa == 0) {
    number = std::numeric_limits<float>::infinity();
  } else if (exponent == exponent_mask &&
             (layout.infinities || mantissa == mantissa_mask)) {
    number = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    number = std::ldexp(static_cast<float>(mantissa), lowest);
  } else {
    const int significand = mantissa + mantissa_mask + 1;
    number = std::ldexp(static_cast<float>(significand), lowest + exponent - 1);
  }
  return negative ? -number : number;
}

Json ElementJson(DType dtype, absl::string_view bytes) {
  return WithElement(dtype, bytes, [](auto number) -> Json {
    if constexpr (std::is_floating_point_v<decltype(number)>) {
      return NumberJson(static_cast<double>(number));
    } else {
      return number;
    }
  });
}

std::string ElementText(DType dtype, absl::string_view bytes) {
  return WithElement(dtype, bytes, [](auto number) -> std::string {
    using T = decltype(number);
    if constexpr (std::is_same_v<T, bool>) {
      return number ? "true" : "false";
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::isnan(number) ? "nan" : FloatText(number);
    } else {
      return std::to_string(number);
    }
  });
}

Json ElementsJson(DType dtype, absl::string_view bytes) {
  Json elements = Json::array();
  const uint32_t element_bytes = DTypeBytes(dtype);
  for (size_t at = 0; at + element_bytes <= bytes.size(); at += element_bytes) {
    elements.push_back(ElementJson(dtype, bytes.substr(at, element_bytes)));
  }
  return elements;
}

std::string ElementsText(DType dtype, absl::string_view bytes, size_t limit) {
  const uint32_t element_bytes = DTypeBytes(dtype);
  const size_t elements = bytes.size() / element_bytes;
  std::string text;
  for (size_t i = 0; i < std::min(elements, limit); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : " ",
                    ElementText(dtype, bytes.substr(i * element_bytes)));
  }
  if (elements > limit) {
    absl::StrAppend(&text, " ... ", elements - limit, " more");
  }
  return text;
}

Json ValuesJson(const std::vector<Slot>& slots,
                const std::vector<std::string>& values) {
  Json json = Json::array();
  for (size_t i = 0; i < values.size(); ++i) {
    json.push_back({{"name", slots[i].name},
                    {"dtype", Str(DTypeName(slots[i].dtype))},
                    {"elements", slots[i].elements},
                    {"values", ElementsJson(slots[i].dtype, values[i])}});
  }
  return json;
}

}  // namespace ckptdb::tool
