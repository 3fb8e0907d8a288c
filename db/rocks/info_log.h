// SPDX-License-Identifier: Apache-2.0
// RocksDB's info log; internal to db/.
//
// RocksDB's own log aborts the process at the second line after one that did
// not fit on the disk. This one drops lines that cannot be written.
#ifndef CKPTDB_DB_ROCKS_INFO_LOG_H_
#define CKPTDB_DB_ROCKS_INFO_LOG_H_

#include <rocksdb/env.h>

#include <cstdint>
#include <memory>
#include <string>

#include "db/options.h"

namespace ckptdb::internal {

// The limit for the log, and for the previous one.
inline constexpr uint64_t kMaxInfoLogBytes = uint64_t{1} << 20;

using LogFunction = decltype(StoreOptions::logger);

// Returns a log that passes warnings and errors to `logger`.
std::shared_ptr<rocksdb::Logger> ForwardInfoLog(LogFunction logger);

// Returns a log that appends to the machine's file at `path`, and renames it to
// `path`.old when it is full. Does not follow a link at `path`. If the file
// cannot be opened, nothing is logged.
std::shared_ptr<rocksdb::Logger> OpenInfoLog(const std::string& path,
                                             uint32_t mode);

// Returns a log that drops everything.
std::shared_ptr<rocksdb::Logger> NoInfoLog();

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_ROCKS_INFO_LOG_H_
