// SPDX-License-Identifier: Apache-2.0
// Converts exceptions of the caller's code to statuses; internal to the
// library.
//
// The library throws nothing, but code that it calls may: the caller's row
// sources, sinks and hooks, and the standard library when memory or threads run
// out. No exception leaves the library or ends one of its threads: it becomes a
// status here.
//
//   CKPTDB_ASSIGN_OR_RETURN(
//       const RowBlock block,
//       CallGuarded("RowSource::Block", [&] { return rows->Block(0); }));
//
// A call that does not throw costs nothing extra.
#ifndef CKPTDB_DB_BASE_CALL_GUARD_H_
#define CKPTDB_DB_BASE_CALL_GUARD_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

namespace ckptdb::internal {

// Returns the exception being handled as a status that begins with `what`:
// ResourceExhausted if memory or threads ran out, otherwise Internal with the
// exception's text. Must be called in a catch block.
absl::Status StatusOfException(absl::string_view what);

template <typename Result>
struct GuardedResultOf {
  using Type = absl::StatusOr<Result>;
};
template <>
struct GuardedResultOf<void> {
  using Type = absl::Status;
};
template <>
struct GuardedResultOf<absl::Status> {
  using Type = absl::Status;
};
template <typename T>
struct GuardedResultOf<absl::StatusOr<T>> {
  using Type = absl::StatusOr<T>;
};

// Returns the result of `function`, or a status for an exception: a Status if
// the function returns void, otherwise a StatusOr. `what` names the function.
template <typename Function>
auto CallGuarded(absl::string_view what, Function&& function) ->
    typename GuardedResultOf<std::invoke_result_t<Function>>::Type {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Function>>) {
      std::forward<Function>(function)();
      return absl::OkStatus();
    } else {
      return std::forward<Function>(function)();
    }
#if defined(__GLIBCXX__)
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled, and must not be kept
#endif
  } catch (...) {
    return StatusOfException(what);
  }
}

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_CALL_GUARD_H_
