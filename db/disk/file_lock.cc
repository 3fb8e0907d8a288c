// SPDX-License-Identifier: Apache-2.0
#include "db/disk/file_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "db/base/mutex.h"

namespace ckptdb::internal {
namespace {

using rocksdb::IOStatus;

using FileId = std::pair<dev_t, ino_t>;

class MachineFileLock : public rocksdb::FileLock {
 public:
  MachineFileLock(const FileId& id, int fd) : id_(id), fd_(fd) {}
  const FileId& id() const { return id_; }
  int fd() const { return fd_; }

 private:
  const FileId id_;
  const int fd_;
};

// The locks of this process. A forked child shares the descriptions and would
// keep the locks of a parent that died, so it closes its descriptors.
class HeldLocks {
 public:
  // Never destroyed, because stores may be closed while the process exits.
  static HeldLocks& Get() {
    static auto* const kHeld = new HeldLocks();
    return *kHeld;
  }

  // Returns false if the file is already locked.
  bool Add(const FileId& id, int fd) {
    const MutexLock lock(&mutex_);
    return held_.emplace(id, fd).second;
  }
  // Returns the descriptor; nothing in a forked child, which has closed it.
  std::optional<int> Remove(const FileId& id, int fd) {
    const MutexLock lock(&mutex_);
    const auto found = held_.find(id);
    if (found == held_.end() || found->second != fd) return std::nullopt;
    held_.erase(found);
    return fd;
  }

 private:
  HeldLocks() {
    pthread_atfork([] { Get().BeforeFork(); }, [] { Get().AfterFork(); },
                   [] { Get().CloseInChild(); });
  }
  // The mutex is held across a fork, from one handler to the next, which the
  // analysis cannot follow.
  void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void AfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }
  void CloseInChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& [id, fd] : held_) ::close(fd);
    held_.clear();
    mutex_.Unlock();
  }

  Mutex mutex_;
  std::map<FileId, int> held_ ABSL_GUARDED_BY(mutex_);
};

std::string Doing(const std::string& path) {
  return "While locking file: " + path;
}

IOStatus Failure(const std::string& path, int error) {
  return IOStatus::IOError(Doing(path), std::strerror(error));
}

// Locks the open file description (F_OFD_SETLK), not the process: a process's
// lock ends when any of its descriptors of the file is closed.
IOStatus LockDescription(const std::string& path, int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  if (::fcntl(fd, F_OFD_SETLK, &whole) == 0) return IOStatus::OK();
  // Busy means that the lock is held; other errors mean that locking failed.
  if (errno == EAGAIN || errno == EACCES) {
    return IOStatus::Busy(Doing(path), std::strerror(errno));
  }
  return Failure(path, errno);
}

// Sets `*moved`, and no lock, if the file is no longer at `path`.
IOStatus LockOpened(const std::string& path, int fd, rocksdb::FileLock** lock,
                    bool* moved) {
  struct stat opened {};
  if (::fstat(fd, &opened) != 0) return Failure(path, errno);
  if (!S_ISREG(opened.st_mode)) {
    return IOStatus::IOError(Doing(path), "not a regular file");
  }
  const FileId id(opened.st_dev, opened.st_ino);
  // The file is identified by its device and inode, so that a second path to it
  // in this process is detected. It is added before it is locked, so that a
  // child forked in between closes the descriptor.
  if (!HeldLocks::Get().Add(id, fd)) {
    return IOStatus::Busy(Doing(path), "lock held by this process");
  }
  IOStatus status = LockDescription(path, fd);
  struct stat now {};
  // The file may have been removed or replaced between the open and the lock;
  // then locking it would exclude nobody.
  *moved =
      ::stat(path.c_str(), &now) != 0 || FileId(now.st_dev, now.st_ino) != id;
  if (!status.ok() || *moved) {
    HeldLocks::Get().Remove(id, fd);
  } else {
    *lock = new MachineFileLock(id, fd);
  }
  return status;
}

}  // namespace

IOStatus LockMachineFile(const std::string& path, rocksdb::FileLock** lock) {
  constexpr int kTries = 3;
  constexpr mode_t kMode = 0600;
  *lock = nullptr;
  for (int i = 0; i < kTries; ++i) {
    // Not opened exclusively, because the file remains when an owner exits.
    const int fd =
        ::open(path.c_str(),
               O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode);
    if (fd < 0) return Failure(path, errno);
    bool moved = false;
    IOStatus status = LockOpened(path, fd, lock, &moved);
    if (*lock != nullptr) return status;
    ::close(fd);
    if (!status.ok()) return status;
  }
  return IOStatus::IOError(Doing(path),
                           "another process keeps replacing the file");
}

IOStatus UnlockMachineFile(rocksdb::FileLock* lock) {
  auto* const machine = static_cast<MachineFileLock*>(lock);
  const std::optional<int> fd =
      HeldLocks::Get().Remove(machine->id(), machine->fd());
  delete machine;
  if (!fd.has_value()) return IOStatus::OK();
  // A child that was just forked shares the description until it has closed it,
  // so closing it here does not unlock the file.
  struct flock whole {};
  whole.l_type = F_UNLCK;
  whole.l_whence = SEEK_SET;
  ::fcntl(*fd, F_OFD_SETLK, &whole);
  ::close(*fd);
  return IOStatus::OK();
}

}  // namespace ckptdb::internal
