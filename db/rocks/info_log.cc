// SPDX-License-Identifier: Apache-2.0
#include "db/rocks/info_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using rocksdb::InfoLogLevel;

// Longer messages are truncated.
constexpr size_t kMaxMessageBytes = size_t{4} << 10;

// RocksDB's level for headers is above those for errors, but headers are not
// errors.
absl::LogSeverity SeverityOf(InfoLogLevel level) {
  if (level >= InfoLogLevel::ERROR_LEVEL &&
      level != InfoLogLevel::HEADER_LEVEL) {
    return absl::LogSeverity::kError;
  }
  return level == InfoLogLevel::WARN_LEVEL ? absl::LogSeverity::kWarning
                                           : absl::LogSeverity::kInfo;
}

// Formats RocksDB's messages, without the options that it lists at each open.
class InfoLog : public rocksdb::Logger {
 public:
  InfoLog() : Logger(InfoLogLevel::WARN_LEVEL) {}

  void Logv(InfoLogLevel level, const char* format, va_list args) override {
    if (level < GetInfoLogLevel() || level == InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    std::array<char, kMaxMessageBytes> text{};
    const int length = std::vsnprintf(text.data(), text.size(), format, args);
    if (length <= 0) return;
    Take(SeverityOf(level),
         {text.data(),
          std::min<size_t>(static_cast<size_t>(length), text.size() - 1)});
  }
  void Logv(const char* format, va_list args) override {
    Logv(InfoLogLevel::INFO_LEVEL, format, args);
  }
  void LogHeader(const char*, va_list) override {}

 private:
  virtual void Take(absl::LogSeverity severity, absl::string_view message) = 0;
};

class Silence : public InfoLog {
 private:
  void Take(absl::LogSeverity, absl::string_view) override {}
};

class Forwarder : public InfoLog {
 public:
  explicit Forwarder(LogFunction logger) : logger_(std::move(logger)) {}

 private:
  void Take(absl::LogSeverity severity, absl::string_view message) override {
    try {
      logger_(severity, message);
    } catch (...) {
      // The contract of StoreOptions::logger is that exceptions are dropped.
    }
  }

  const LogFunction logger_;
};

class LogFile : public InfoLog {
 public:
  LogFile(std::string path, mode_t mode) : path_(std::move(path)), mode_(mode) {
    const MutexLock lock(&mutex_);
    Open();
  }
  ~LogFile() override {
    const MutexLock lock(&mutex_);
    CloseFile();
  }

 private:
  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    fd_ = ::open(
        path_.c_str(),
        O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
        mode_);
    struct stat opened {};
    if (fd_ < 0) return;
    if (::fstat(fd_, &opened) != 0 || !S_ISREG(opened.st_mode)) {
      return CloseFile();
    }
    // The umask reduced the mode of a new file.
    if (opened.st_size == 0) (void)::fchmod(fd_, mode_);
    bytes_ = static_cast<uint64_t>(opened.st_size);
  }
  void CloseFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void Take(absl::LogSeverity, absl::string_view message) override {
    const std::string line =
        absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                                      absl::UTCTimeZone()),
                     " ", message, "\n");
    const MutexLock lock(&mutex_);
    // At most two files of this size: the previous one is replaced.
    if (bytes_ + line.size() > kMaxInfoLogBytes) Begin();
    if (fd_ < 0) return;
    // A line that does not fit on the disk is lost, or a part of it.
    const ssize_t written = ::write(fd_, line.data(), line.size());
    if (written > 0) bytes_ += static_cast<uint64_t>(written);
  }
  void Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    CloseFile();
    bytes_ = 0;
    // If the file cannot be renamed, logging stops, because the file would grow
    // without limit.
    if (::rename(path_.c_str(), (path_ + ".old").c_str()) == 0) Open();
  }

  const std::string path_;
  const mode_t mode_;
  Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::shared_ptr<rocksdb::Logger> ForwardInfoLog(LogFunction logger) {
  return std::make_shared<Forwarder>(std::move(logger));
}

std::shared_ptr<rocksdb::Logger> OpenInfoLog(const std::string& path,
                                             uint32_t mode) {
  return std::make_shared<LogFile>(path, mode);
}

std::shared_ptr<rocksdb::Logger> NoInfoLog() {
  return std::make_shared<Silence>();
}

}  // namespace ckptdb::internal
