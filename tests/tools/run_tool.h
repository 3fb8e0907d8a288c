// Runs the built ckptdb in a process of its own.
//
//   ToolResult ls = RunTool({"ls", "-s", store, "--json"});
//   EXPECT_EQ(ls.code, 0) << ls.err;
//   EXPECT_EQ(ls.Json()["steps"].size(), 3);
#ifndef CKPTDB_TESTS_TOOLS_RUN_TOOL_H_
#define CKPTDB_TESTS_TOOLS_RUN_TOOL_H_

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ckptdb::testing {

struct ToolResult {
  int code = -1;  // -1: it could not be run or was killed by a signal
  std::string out;
  std::string err;

  // `out` as a document; "discarded" when it is none.
  nlohmann::json Json() const {
    return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  }
};

struct ToolSetting {
  std::string store_variable;  // CKPTDB_STORE; unset when empty
  std::string folder;          // the current folder; the caller's when empty
  std::string out_path;        // where its output goes; `out` when empty
};

ToolResult RunTool(const std::vector<std::string>& arguments,
                   const ToolSetting& setting = {});

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_RUN_TOOL_H_
