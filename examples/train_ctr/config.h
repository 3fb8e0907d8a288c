// SPDX-License-Identifier: Apache-2.0
// The file of --config: options of ckptdb's manager, and what to load before
// the first step.
#ifndef CKPTDB_EXAMPLES_TRAIN_CTR_CONFIG_H_
#define CKPTDB_EXAMPLES_TRAIN_CTR_CONFIG_H_

#include <string>

#include "absl/status/statusor.h"

namespace train_ctr {

// The parts of a configuration, each as JSON.
struct Config {
  std::string manager = "{}";  // as ckptdb::ReadManagerConfig takes it
  std::string load = "[]";     // as ckptdb::ParseLoadSpec does: its key "load"
};

// Returns InvalidArgument naming the file if it cannot be read, is no JSON
// object, or has an object with a duplicate key.
absl::StatusOr<Config> ReadConfig(const std::string& path);

}  // namespace train_ctr

#endif  // CKPTDB_EXAMPLES_TRAIN_CTR_CONFIG_H_
