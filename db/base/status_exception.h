// SPDX-License-Identifier: Apache-2.0
// Carries an error through code that cannot return one, such as a policy's
// function; internal to the library. StatusOfException keeps its code.
#ifndef CKPTDB_DB_BASE_STATUS_EXCEPTION_H_
#define CKPTDB_DB_BASE_STATUS_EXCEPTION_H_

#include <exception>
#include <utility>

#include "absl/status/status.h"

namespace ckptdb::internal {

class StatusException : public std::exception {
 public:
  // `status` is an error.
  explicit StatusException(absl::Status status) : status_(std::move(status)) {}

  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_BASE_STATUS_EXCEPTION_H_
