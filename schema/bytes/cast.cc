// SPDX-License-Identifier: Apache-2.0
#include "schema/types.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/bytes/cast_in_range.h"
#include "schema/bytes/element.h"

namespace ckptdb {
namespace internal {
namespace {

bool IsFloat(DType dtype) {
  return WithElements(dtype, [](auto elements) {
    return std::is_floating_point_v<typename decltype(elements)::Number>;
  });
}

// std::in_range does not accept bool, so a bool becomes a uint8_t.
template <typename T>
auto AsInteger(T number) {
  if constexpr (std::is_same_v<T, bool>) {
    return uint8_t{number};
  } else {
    return number;
  }
}

template <typename To, typename From>
bool HasInteger(From number) {
  if constexpr (std::is_same_v<To, bool>) {
    return number == 0 || number == 1;
  } else {
    return std::in_range<To>(number);
  }
}

// Converts an integer to a double that rounds to the same float of 16 bits or
// fewer. If the double cannot hold all bits, its last bit is set whenever a
// dropped bit is (rounding to odd), so that rounding twice equals rounding
// once.
template <typename T>
double ToOddDouble(T number) {
  constexpr uint64_t kDropped = (uint64_t{1} << 11) - 1;
  const bool negative = number < 0;
  auto magnitude = static_cast<uint64_t>(number);
  if (negative) magnitude = 0 - magnitude;
  if ((magnitude >> 53) != 0 && (magnitude & kDropped) != 0) {
    magnitude = (magnitude & ~kDropped) | (kDropped + 1);
  }
  const auto result = static_cast<double>(magnitude);
  return negative ? -result : result;
}

// Returns false when `To` cannot represent the element.
template <typename From, typename To>
bool CastOne(const char* in, char* out) {
  using Target = typename To::Number;
  constexpr bool kFloat = std::is_floating_point_v<Target>;
  constexpr bool kFromFloat = std::is_floating_point_v<typename From::Number>;
  const auto number = AsInteger(From::Load(in));
  if constexpr (!kFloat) {
    if (!HasInteger<Target>(number)) return false;
  }
  // Otherwise the conversion itself rounds once.
  if constexpr (kFloat && !kFromFloat && From::kBytes == 8 && To::kBytes < 4) {
    To::Store(ToOddDouble(number), out);
  } else {
    To::Store(number, out);
  }
  return true;
}

template <typename From, typename To>
size_t CastAll(const char* in, char* out, size_t elements) {
  for (size_t i = 0; i < elements; ++i) {
    if (!CastOne<From, To>(in + i * From::kBytes, out + i * To::kBytes)) {
      return i;
    }
  }
  return elements;
}

template <typename T>
std::string Bounds() {
  using Limits = std::numeric_limits<T>;
  return absl::StrCat(AsInteger(Limits::min()), " to ",
                      AsInteger(Limits::max()));
}

}  // namespace

size_t CastWhileInRange(DType from, const void* in, DType to, void* out,
                        size_t elements) {
  if (from == to) {
    if (elements > 0) std::memcpy(out, in, elements * DTypeBytes(from));
    return elements;
  }
  return WithElements(from, [&](auto source) {
    return WithElements(to, [&](auto target) -> size_t {
      using From = decltype(source);
      using To = decltype(target);
      // CanCast refuses to cast a float to an integer, so no code is generated
      // for it.
      if constexpr (std::is_floating_point_v<typename From::Number> &&
                    !std::is_floating_point_v<typename To::Number>) {
        return 0;
      } else {
        return CastAll<From, To>(static_cast<const char*>(in),
                                 static_cast<char*>(out), elements);
      }
    });
  });
}

std::string NotInRange(DType from, const void* element, DType to) {
  const std::string number = WithElements(from, [&](auto elements) {
    return absl::StrCat(
        AsInteger(elements.Load(static_cast<const char*>(element))));
  });
  const std::string bounds = WithElements(to, [](auto elements) {
    return Bounds<typename decltype(elements)::Number>();
  });
  return absl::StrCat(number, " of ", DTypeName(from), " is out of range for ",
                      DTypeName(to), ", ", bounds);
}

}  // namespace internal

bool CanCast(DType from, DType to) {
  return internal::IsFloat(to) || !internal::IsFloat(from) || from == to;
}

absl::Status CastElements(DType from, const void* in, DType to, void* out,
                          size_t elements) {
  if (!CanCast(from, to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot cast ", DTypeName(from), " to ", DTypeName(to),
                     ": a float can only be cast to a float"));
  }
  const size_t done = internal::CastWhileInRange(from, in, to, out, elements);
  if (done == elements) return absl::OkStatus();
  const char* const element =
      static_cast<const char*>(in) + done * DTypeBytes(from);
  return absl::OutOfRangeError(absl::StrCat(
      "element ", done, ": ", internal::NotInRange(from, element, to)));
}

}  // namespace ckptdb
