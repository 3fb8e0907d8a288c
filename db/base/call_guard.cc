// SPDX-License-Identifier: Apache-2.0
#include "db/base/call_guard.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "db/base/status_exception.h"
#include "schema/bytes/annotate.h"

namespace ckptdb::internal {

namespace {

// Converts the exception being handled to a status. Exceptions that the caller
// can remedy have separate codes.
absl::Status Describe(absl::string_view what) {
  try {
    throw;
  } catch (const StatusException& error) {
    return Annotate(error.status(), what);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(what, ": out of memory"));
  } catch (const std::system_error& error) {
    const std::string text = absl::StrCat(what, ": ", error.what());
    // The error of a thread that could not be started.
    return error.code() == std::errc::resource_unavailable_try_again
               ? absl::ResourceExhaustedError(text)
               : absl::InternalError(text);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(what, " threw: ", error.what()));
  } catch (...) {
    return absl::InternalError(
        absl::StrCat(what, " threw something that is not a std::exception"));
  }
}

}  // namespace

absl::Status StatusOfException(absl::string_view what) {
  try {
    return Describe(what);
  } catch (...) {
    // A status without a text needs no memory.
    return {absl::StatusCode::kResourceExhausted, ""};
  }
}

}  // namespace ckptdb::internal
