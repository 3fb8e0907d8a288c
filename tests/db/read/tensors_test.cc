// SPDX-License-Identifier: Apache-2.0
// Many tensors read in one call.

#include "schema/types.h"
#include "tests/db/store_fixture.h"

namespace ckptdb::testing {
namespace {

TensorContent RandomFloats(std::mt19937_64* random, int64_t elements) {
  TensorContent tensor;
  tensor.dtype = DType::kF32;
  tensor.shape = {elements};
  tensor.bytes = RandomBytes(random, static_cast<size_t>(elements) * 4);
  return tensor;
}

class TensorsTest : public StoreFixture {
 protected:
  // Reads these tensors in this order, and compares their bytes.
  void ExpectTensors(const StepReader& step, const RankContent& content,
                     const std::vector<std::string>& names,
                     const ReadOptions& options = {}) {
    std::vector<std::string> bytes;
    std::vector<StepReader::TensorRead> reads;
    for (const std::string& name : names) {
      bytes.emplace_back(content.tensors.at(name).bytes.size(), '\xcc');
    }
    for (size_t i = 0; i < names.size(); ++i) {
      reads.push_back({names[i], bytes[i].data(), bytes[i].size()});
    }
    ASSERT_OK(step.ReadTensors(reads, options));
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_TRUE(bytes[i] == content.tensors.at(names[i]).bytes) << names[i];
    }
  }
};

std::vector<std::string> NamesOf(const RankContent& content) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : content.tensors) names.push_back(name);
  return names;
}

TEST_F(TensorsTest, SmallAndLargeOnesInAnyOrder) {
  std::mt19937_64 random(TestSeed());
  RankContent content;
  for (int i = 0; i < 3000; ++i) {
    content.tensors["t" + std::to_string(i)] =
        RandomFloats(&random, 1 + static_cast<int64_t>(random() % 256));
  }
  for (const int64_t elements : {65'535, 65'536, 65'537, 1'200'000}) {
    content.tensors["large" + std::to_string(elements)] =
        RandomFloats(&random, elements);
  }
  content.tensors["empty"] = RandomFloats(&random, 0);
  content.tensors["scalar"] = TensorContent::Of<double>({}, {2.5});
  content.tensors["zeros"] =
      TensorContent::Of<float>({50'000}, std::vector<float>(50'000, 0.0f));
  content.tensors["zeros"].codec = Codec::kLz4;
  ASSERT_OK(Save(1, content));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::vector<std::string> names = NamesOf(content);
  ExpectTensors(*step, content, names);
  // Some are left out, others come twice.
  names.resize(names.size() - 500);
  names.insert(names.end(), names.begin(), names.begin() + 700);
  std::shuffle(names.begin(), names.end(), random);
  for (const int threads : {1, 2, 16}) {
    ExpectTensors(*step, content, names, {.threads = threads});
  }
  ExpectTensors(*step, content, names, {.readahead_bytes = kPageBytes});
  ExpectTensors(*step, content, {});
}

TEST_F(TensorsTest, OfInlineSteps) {
  std::mt19937_64 random(TestSeed());
  RankContent content;
  for (int i = 0; i < 100; ++i) {
    content.tensors["t" + std::to_string(i)] = RandomFloats(&random, 16);
  }
  for (const int64_t step : {1, 2, 3}) {
    content.tensors["t7"] = RandomFloats(&random, 16);
    ASSERT_OK(Save(step, content));
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    EXPECT_EQ(reader->ranks()[0].items[0].placement, Item::Placement::kInline);
    ExpectTensors(*reader, content, NamesOf(content));
  }
}

// Unchanged tensors lie in older versions, some inline and some in files.
TEST_F(TensorsTest, StoredBySeveralVersions) {
  std::mt19937_64 random(TestSeed());
  RankContent content;
  for (int i = 0; i < 40; ++i) {
    content.tensors["t" + std::to_string(i)] = RandomFloats(&random, 20'000);
  }
  std::optional<Version> parent;
  for (const int64_t step : {1, 2, 3, 4}) {
    content.tensors["t" + std::to_string(step)] = RandomFloats(&random, 20'000);
    content.tensors["t" + std::to_string(9 * step)] = RandomFloats(&random, 3);
    ASSERT_OK_AND_ASSIGN(const SaveResult saved,
                         Save(step, content, {.parent = parent}));
    parent = saved.version;
    ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(step));
    ExpectTensors(*reader, content, NamesOf(content));
  }
  std::set<Version> versions;
  ASSERT_OK_AND_ASSIGN(const auto reader, store_->OpenStep(4));
  for (const Item& item : reader->ranks()[0].items) {
    versions.insert(item.data_version);
  }
  EXPECT_GT(versions.size(), 2u);
}

TEST_F(TensorsTest, TheFirstBadArgumentIsTheError) {
  ASSERT_OK(Save(1, SmallContent(1)));
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::array<float, 6> w = {};
  std::array<float, 6> untouched = {};
  const StepReader::TensorRead good{"w", w.data(), 24};
  const StepReader::TensorRead small{"w", w.data(), 20};
  const StepReader::TensorRead null{"w", nullptr, 24};
  const StepReader::TensorRead unknown{"v", w.data(), 24};
  EXPECT_THAT(
      step->ReadTensors({good, small, unknown}),
      InvalidArgument("tensor \"w\" takes 24 bytes; the buffer has 20"));
  EXPECT_THAT(step->ReadTensors({good, unknown, small}),
              NotFound("step 1 has no tensor \"v\""));
  EXPECT_THAT(step->ReadTensors({good, null, unknown}),
              InvalidArgument("tensor \"w\"", "null pointer"));
  EXPECT_THAT(step->ReadTensors({good}, {.threads = 0}),
              InvalidArgument("ReadOptions::threads is 0"));
  // Nothing was read before.
  EXPECT_EQ(w, untouched);
  EXPECT_OK(step->ReadTensors({good}));
  EXPECT_NE(w, untouched);
}

// Damages the bytes of a tensor in whichever file holds them.
void DamageBytes(const std::string& store, const std::string& bytes) {
  for (const auto& path : FilesIn(store + "/db", ".sst")) {
    std::string file = ReadFile(path);
    const size_t at = file.find(bytes);
    if (at == std::string::npos) continue;
    file[at + bytes.size() / 2] ^= 1;
    WriteFile(path, file);
    return;
  }
  FAIL() << "no file holds these bytes";
}

TEST_F(TensorsTest, TheFirstDamagedTensorInTheirOrderIsTheError) {
  RankContent content;
  for (const std::string name : {"a", "b", "c", "d"}) {
    content.tensors[name] =
        BulkTensor(static_cast<uint64_t>(name[0]), size_t{3} << 20);
  }
  ASSERT_OK(Save(1, content));
  store_.reset();
  for (const std::string name : {"b", "d"}) {
    ASSERT_NO_FATAL_FAILURE(DamageBytes(
        path(), content.tensors[name].bytes.substr(size_t{2} << 20, 64)));
  }
  Reopen();
  ASSERT_OK_AND_ASSIGN(const auto step, store_->OpenStep(1));
  std::map<std::string, std::string> bytes;
  const auto read = [&](const std::vector<std::string>& names) {
    std::vector<StepReader::TensorRead> reads;
    for (const std::string& name : names) {
      std::string& out = bytes[name];
      out.assign(size_t{3} << 20, '\0');
      reads.push_back({name, out.data(), out.size()});
    }
    return step->ReadTensors(reads);
  };
  for (int round = 0; round < 5; ++round) {
    EXPECT_THAT(read({"a", "b", "c", "d"}), DataLoss("step 1", "tensor \"b\""));
    EXPECT_THAT(read({"d", "c", "b", "a"}), DataLoss("step 1", "tensor \"d\""));
    EXPECT_THAT(read({"c", "d", "b"}), DataLoss("step 1", "tensor \"d\""));
    EXPECT_OK(read({"c", "a"}));
    EXPECT_TRUE(bytes["c"] == content.tensors["c"].bytes);
  }
}

}  // namespace
}  // namespace ckptdb::testing
