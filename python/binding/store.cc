// SPDX-License-Identifier: Apache-2.0
#include "python/binding/store.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "db/state.h"
#include "db/store.h"
#include "python/binding/address.h"
#include "python/binding/errors.h"
#include "python/binding/reader.h"
#include "python/binding/records.h"
#include "tools/new_store.h"
#include "tools/outside_store.h"

namespace ckptdb::python {
namespace {

template <typename Call>
auto WithoutGil(const Call& call) {
  const ReleaseGil release;
  return call();
}

nb::bytes ToBytes(const std::string& text) {
  return nb::bytes(text.data(), text.size());
}
absl::string_view TextOf(const nb::bytes& bytes) {
  return absl::string_view(bytes.c_str(), bytes.size());
}

class PyStore {
 public:
  PyStore(const std::string& path, const nb::dict& options) {
    const StoreOptions chosen = StoreOptionsOf(options);
    store_ = Check(WithoutGil([&] { return Store::Open(path, chosen); }));
  }
  ~PyStore() {
    if (!process_.IsThis()) {
      (void)store_.release();
      return;
    }
    const ReleaseGil release;
    store_.reset();
  }

  void Close() {
    if (store_ == nullptr) return;
    process_.Check();
    Check(WithoutGil([&] { return store_->Close(); }));
    store_.reset();
  }
  std::string path() const { return get().path(); }
  nb::list Steps() const { return ToList(get().Steps()); }

  // Returns the number of the attempt, and the tickets of the ranks.
  std::pair<uint32_t, std::vector<nb::bytes>> Begin(int64_t step,
                                                    uint32_t world_size,
                                                    bool overwrite) {
    Store& store = get();
    SaveSpec spec;
    spec.step = step;
    spec.world_size = world_size;
    spec.overwrite = overwrite;
    const Store::Attempt attempt =
        Check(WithoutGil([&] { return store.Begin(spec); }));
    std::vector<nb::bytes> tickets;
    for (const Ticket& ticket : attempt.tickets) {
      tickets.push_back(ToBytes(Check(ticket.Encode())));
    }
    return {attempt.version.attempt, std::move(tickets)};
  }
  SaveResult Publish(int64_t step, uint32_t attempt,
                     const std::vector<nb::bytes>& staged,
                     const std::map<std::string, nb::bytes>& blobs,
                     const std::vector<int64_t>& retire) {
    Store& store = get();
    std::vector<StagedRank> ranks;
    for (const nb::bytes& each : staged) {
      ranks.push_back(Check(StagedRank::Decode(TextOf(each))));
    }
    SaveSpec spec;
    for (const auto& [name, bytes] : blobs) {
      spec.blobs.emplace(name, TextOf(bytes));
    }
    spec.retire = retire;
    return Check(WithoutGil([&] {
      return store.Publish({step, attempt}, ranks, spec);
    }));
  }
  void Abandon(int64_t step, uint32_t attempt) {
    Store& store = get();
    Check(WithoutGil([&] { return store.Abandon({step, attempt}); }));
  }

 private:
  Store& get() const {
    process_.Check();
    if (store_ != nullptr) return *store_;
    throw StatusError(absl::FailedPreconditionError("the store is closed"));
  }

  const Process process_;
  std::unique_ptr<Store> store_;
};

// Name, dtype, shape, shape of the whole tensor, offset in it, address. The two
// before the last are empty for a whole tensor. Shards of one have one name.
using StagedTensor =
    std::tuple<std::string, std::string, Shape, Shape, Shape, Address>;

nb::bytes StageRank(const std::string& path, const nb::bytes& ticket,
                    const std::vector<StagedTensor>& tensors,
                    const std::vector<std::pair<std::string, nb::bytes>>& blobs,
                    const nb::dict& options) {
  const StoreOptions chosen = StoreOptionsOf(options);
  const Ticket decoded = Check(Ticket::Decode(TextOf(ticket)));
  RankState state;
  for (const auto& [name, dtype, shape, whole, offset, address] : tensors) {
    state.AddTensor(name, {Check(ParseDType(dtype)), shape,
                           At<const void>(address), whole, offset});
  }
  for (const auto& [name, bytes] : blobs) state.AddBlob(name, TextOf(bytes));
  const StagedRank staged =
      Check(WithoutGil([&] { return Stage(path, decoded, state, chosen); }));
  return ToBytes(Check(staged.Encode()));
}

// What an import has created so far: see tools/new_store.h.
class PyNewStore {
 public:
  explicit PyNewStore(const std::string& path) {
    Check(tool::CheckNotWithinStore(path));
    created_.emplace(path);
  }
  void Keep() { created_->Keep(); }
  void End() {
    const ReleaseGil release;
    created_.reset();
  }

 private:
  std::optional<tool::NewStore> created_;
};

}  // namespace

void BindStore(nb::module_& module) {
  nb::class_<PyStore>(module, "Store")
      .def(nb::init<const std::string&, const nb::dict&>())
      .def("close", &PyStore::Close)
      .def("path", &PyStore::path)
      .def("steps", &PyStore::Steps)
      .def("begin", &PyStore::Begin)
      .def("publish", &PyStore::Publish)
      .def("abandon", &PyStore::Abandon);
  nb::class_<PyNewStore>(module, "NewStore")
      .def(nb::init<const std::string&>())
      .def("keep", &PyNewStore::Keep)
      .def("end", &PyNewStore::End);
  module.attr("MAX_PUBLISHED_BYTES") = kMaxPublishedBytes;
  module.def("stage", &StageRank);
  module.def("check_store_options",
             [](const nb::dict& options) { StoreOptionsOf(options); });
}

}  // namespace ckptdb::python
