// SPDX-License-Identifier: Apache-2.0
// Macros that return the error of an absl::Status or StatusOr from the
// enclosing function, which returns either.
//
//   CKPTDB_RETURN_IF_ERROR(writer.Sync());
//   CKPTDB_ASSIGN_OR_RETURN(Page page, DecodePage(bytes));
#ifndef CKPTDB_SCHEMA_STATUS_H_
#define CKPTDB_SCHEMA_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define CKPTDB_RETURN_IF_ERROR(expression)                              \
  do {                                                                  \
    if (absl::Status ckptdb_status = (expression); !ckptdb_status.ok()) \
      return ckptdb_status;                                             \
  } while (false)

#define CKPTDB_ASSIGN_OR_RETURN(declaration, expression)             \
  CKPTDB_ASSIGN_OR_RETURN_IMPL(                                      \
      CKPTDB_STATUS_CONCAT(ckptdb_statusor_, __LINE__), declaration, \
      expression)

#define CKPTDB_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                         \
  if (!result.ok()) return std::move(result).status();                \
  declaration = *std::move(result)

#define CKPTDB_STATUS_CONCAT(a, b) CKPTDB_STATUS_CONCAT_IMPL(a, b)
#define CKPTDB_STATUS_CONCAT_IMPL(a, b) a##b

#endif  // CKPTDB_SCHEMA_STATUS_H_
