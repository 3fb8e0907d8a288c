// Which calls of an object are under way, and on which threads; internal to the
// library.
#ifndef CKPTDB_DB_CALL_GATE_H_
#define CKPTDB_DB_CALL_GATE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ckptdb::internal {

// Lets calls in until it is closed. Thread-safe.
class CallGate {
 public:
  // One call, from its construction to its destruction, on one thread. Calls
  // of a thread end in the reverse order of their beginning.
  class Call {
   public:
    explicit Call(CallGate* gate);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // False when the gate was closed: the call must not be made.
    bool admitted() const { return gate_ != nullptr; }

   private:
    friend class CallGate;
    CallGate* gate_;
    const Call* const outer_;
  };

  CallGate() = default;
  CallGate(const CallGate&) = delete;
  CallGate& operator=(const CallGate&) = delete;

  // Whether this thread is in a call, as code of the caller's is that a call
  // has called.
  bool InCall() const;
  bool closed() const;

  // Lets no further call in, and returns when those under way have ended. False
  // when it was closed already. The calling thread must not be in a call.
  bool Close();
  void Open();

 private:
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  uint64_t calls_ = 0;
  bool closed_ = false;
};

}  // namespace ckptdb::internal

#endif  // CKPTDB_DB_CALL_GATE_H_
