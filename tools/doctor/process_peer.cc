// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor/process_peer.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "schema/status.h"

namespace ckptdb::tool {
namespace {

constexpr size_t kMaxMessage = size_t{64} << 10;

// Returns an empty message if the other side has closed its socket.
std::string Receive(int socket) {
  std::string message(kMaxMessage, '\0');
  ssize_t bytes = -1;
  do {
    bytes = ::recv(socket, message.data(), message.size(), 0);
  } while (bytes < 0 && errno == EINTR);
  message.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return message;
}

bool Send(int socket, const std::string& message) {
  return ::send(socket, message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

// The child exits with _exit, so that it does not run the parent's exit
// handlers.
[[noreturn]] void Serve(int socket, FileCalls* files) {
  PeerService service(files);
  while (true) {
    const std::string request = Receive(socket);
    if (request.empty()) ::_exit(0);
    if (!Send(socket, EncodeAnswer(service.Do(request)))) ::_exit(0);
  }
}

class ProcessPeer : public Peer {
 public:
  ProcessPeer(pid_t process, int socket)
      : process_(process), socket_(socket), host_("second process") {}
  // The child exits when its socket is closed.
  ~ProcessPeer() override {
    ::close(socket_);
    Wait();
  }

  const std::string& host() const override { return host_; }

  absl::StatusOr<std::string> Ask(const std::string& request) override {
    if (!Send(socket_, request)) {
      return absl::AbortedError("the second process has ended");
    }
    const std::string answer = Receive(socket_);
    if (answer.empty()) {
      return absl::AbortedError("the second process has ended");
    }
    return DecodeAnswer(answer);
  }

  bool can_be_killed() const override { return true; }
  void Kill() override {
    ::kill(process_, SIGKILL);
    Wait();
  }

 private:
  void Wait() {
    if (process_ <= 0) return;
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
  }

  pid_t process_;
  const int socket_;
  const std::string host_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Peer>> StartProcessPeer(FileCalls* files) {
  std::array<int, 2> ends{};
  // A packet socket keeps messages apart without length prefixes.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
      0) {
    return absl::ErrnoToStatus(errno, "socketpair");
  }
  const pid_t process = ::fork();
  if (process == 0) {
    ::close(ends[0]);
    Serve(ends[1], files);
  }
  // close may change errno.
  const int error = errno;
  ::close(ends[1]);
  if (process < 0) {
    ::close(ends[0]);
    return absl::ErrnoToStatus(error, "fork");
  }
  return std::make_unique<ProcessPeer>(process, ends[0]);
}

}  // namespace ckptdb::tool
