// Paths of stores as callers give them; internal to db/ and manager/.
#ifndef CKPTDB_DB_STORE_PATH_H_
#define CKPTDB_DB_STORE_PATH_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ckptdb {

class Environment;

namespace internal {

// The absolute path of the same folder, without symbolic links, "." and "..",
// so that it names that folder after a chdir too. The end of it need not be
// there yet. InvalidArgument for an empty path; an error that names the path
// when it cannot be resolved. Null is the machine's environment; a path of any
// other one has but its trailing slashes removed.
absl::StatusOr<std::string> ResolveStorePath(
    absl::string_view path,
    const std::shared_ptr<Environment>& environment = nullptr);

}  // namespace internal
}  // namespace ckptdb

#endif  // CKPTDB_DB_STORE_PATH_H_
