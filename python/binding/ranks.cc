// SPDX-License-Identifier: Apache-2.0
#include "python/binding/ranks.h"

#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "python/binding/errors.h"

namespace ckptdb::python {
namespace {

nb::bytes BytesOf(const std::string& value) {
  return nb::bytes(value.data(), value.size());
}

std::string StringOf(nb::handle value) {
  const auto bytes = nb::cast<nb::bytes>(value);
  return std::string(bytes.c_str(), bytes.size());
}

// Returns the result of a call of Python, from any thread.
template <typename Result, typename Call>
absl::StatusOr<Result> CallMethod(const char* name, const Call& call) {
  Result result;
  const absl::Status called = WithPython(name, [&] { result = call(); });
  if (!called.ok()) return called;
  return result;
}

std::vector<std::string> StringsOf(const nb::object& values) {
  std::vector<std::string> strings;
  for (const nb::handle value : values) strings.push_back(StringOf(value));
  return strings;
}

// `functions` has all_gather(bytes) -> [bytes], broadcast(bytes) -> bytes,
// all_to_all([bytes]) -> [bytes], start_all_gather(bytes) -> (() -> [bytes]),
// and abort(reason).
std::unique_ptr<PyCoordinator> OverCollectives(uint32_t rank,
                                               uint32_t world_size,
                                               nb::object functions) {
  using Strings = std::vector<std::string>;
  const PyRef held = Hold(std::move(functions));
  Coordinator::Collectives group;
  group.rank = rank;
  group.world_size = world_size;
  group.all_gather = [held](const std::string& own) {
    return CallMethod<Strings>("all_gather", [&] {
      return StringsOf(held->attr("all_gather")(BytesOf(own)));
    });
  };
  group.broadcast = [held](const std::string& value) {
    return CallMethod<std::string>("broadcast", [&] {
      return StringOf(held->attr("broadcast")(BytesOf(value)));
    });
  };
  group.all_to_all = [held](const Strings& values) {
    return CallMethod<Strings>("all_to_all", [&] {
      nb::list outgoing;
      for (const std::string& value : values) outgoing.append(BytesOf(value));
      return StringsOf(held->attr("all_to_all")(outgoing));
    });
  };
  group.start_all_gather =
      [held](
          const std::string& own) -> std::function<absl::StatusOr<Strings>()> {
    PyRef wait;
    absl::Status started = WithPython("start_all_gather", [&] {
      wait = Hold(held->attr("start_all_gather")(BytesOf(own)));
    });
    if (!started.ok()) {
      return [started = std::move(started)] { return started; };
    }
    return [wait] {
      return CallMethod<Strings>("start_all_gather",
                                 [&] { return StringsOf((*wait)()); });
    };
  };
  group.abort = [held](const absl::Status& why) {
    WithPython("abort", [&] {
      held->attr("abort")(std::string(why.message()).c_str());
    }).IgnoreError();
  };
  return std::make_unique<PyCoordinator>(
      Check(CollectiveCoordinator(std::move(group))));
}

// Messages over exchange([(rank, bytes)]) -> ([(rank, bytes)], unsent) in
// Python, which does not wait.
class PyTransport : public Coordinator::Transport {
 public:
  PyTransport(uint32_t rank, uint32_t world_size, nb::object functions)
      : rank_(rank),
        world_size_(world_size),
        functions_(Hold(std::move(functions))) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world_size() const override { return world_size_; }
  size_t unsent() const override { return unsent_; }

  absl::StatusOr<std::vector<Message>> Exchange(
      std::vector<Message> outgoing, absl::Time /*give_up*/) override {
    return CallMethod<std::vector<Message>>("exchange", [&] {
      const nb::object result = functions_->attr("exchange")(ListOf(outgoing));
      std::vector<Message> incoming;
      for (const nb::handle message : result[0]) {
        incoming.push_back({nb::cast<uint32_t>(message[0]),
                            std::make_shared<const std::string>(
                                StringOf(nb::object(message[1])))});
      }
      unsent_ = nb::cast<size_t>(result[1]);
      return incoming;
    });
  }

 private:
  // A message to several ranks is copied once.
  static nb::list ListOf(const std::vector<Message>& messages) {
    std::map<const std::string*, nb::bytes> copies;
    nb::list list;
    for (const Message& message : messages) {
      auto copy = copies.find(message.bytes.get());
      if (copy == copies.end()) {
        copy =
            copies.emplace(message.bytes.get(), BytesOf(*message.bytes)).first;
      }
      list.append(nb::make_tuple(message.rank, copy->second));
    }
    return list;
  }

  const uint32_t rank_;
  const uint32_t world_size_;
  const PyRef functions_;
  size_t unsent_ = 0;
};

std::unique_ptr<PyCoordinator> OverMessages(uint32_t rank, uint32_t world_size,
                                            nb::object functions) {
  return std::make_unique<PyCoordinator>(MessageCoordinator(
      std::make_unique<PyTransport>(rank, world_size, std::move(functions))));
}

}  // namespace

void BindRanks(nb::module_& module) {
  nb::class_<PyCoordinator>(module, "Coordinator");
  module.def("over_collectives", &OverCollectives);
  module.def("over_messages", &OverMessages);
}

}  // namespace ckptdb::python
