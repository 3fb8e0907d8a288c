// Where a store tells what happens below it, for people who look for the cause
// of something.
//
//   class ToMyLog : public ckptdb::Logger {
//     void Log(ckptdb::LogSeverity severity,
//              absl::string_view message) override { my_log(message); }
//   };
//   ckptdb::StoreOptions options;
//   options.logger = std::make_shared<ToMyLog>();
#ifndef CKPTDB_DB_LOGGER_H_
#define CKPTDB_DB_LOGGER_H_

#include "absl/strings/string_view.h"

namespace ckptdb {

enum class LogSeverity { kInfo, kWarning, kError };

class Logger {
 public:
  virtual ~Logger() = default;

  // A line without its end. Called from any thread, several at once, also while
  // locks of the store are held: it may not call the store, and should return
  // soon. What it throws is dropped, as a message is no reason to fail a save.
  virtual void Log(LogSeverity severity, absl::string_view message) = 0;
};

}  // namespace ckptdb

#endif  // CKPTDB_DB_LOGGER_H_
