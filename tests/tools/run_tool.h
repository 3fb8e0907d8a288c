// SPDX-License-Identifier: Apache-2.0
// Runs the built ckptdb in a separate process.
//
//   ToolResult ls = RunTool({"ls", "-s", store, "--json"});
//   EXPECT_EQ(ls.code, 0) << ls.err;
//   EXPECT_EQ(ls.Json()["steps"].size(), 3);
#ifndef CKPTDB_TESTS_TOOLS_RUN_TOOL_H_
#define CKPTDB_TESTS_TOOLS_RUN_TOOL_H_

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace ckptdb::testing {

struct ToolResult {
  int code = -1;  // -1: it could not run or was killed by a signal
  std::string out;
  std::string err;

  // `out` as a JSON document; "discarded" if it is invalid.
  nlohmann::json Json() const {
    return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  }
};

struct ToolSetting {
  std::string store_variable = {};  // CKPTDB_STORE; unset if empty
  std::string folder = {};          // the current folder; the caller's if empty
  std::string out_path = {};        // the output file; `out` if empty
  // Sends SIGKILL, or `signal`, this long after the start.
  std::optional<std::chrono::microseconds> kill_after = std::nullopt;
  int signal = 9;
  bool as_nobody = false;  // another user than root
  bool closed = false;     // standard output is closed
};

// The path of the built command.
std::string ToolPath();

ToolResult RunTool(const std::vector<std::string>& arguments,
                   const ToolSetting& setting = {});

// Runs words that are separated by spaces, and more.
ToolResult RunLine(const std::string& line,
                   const std::vector<std::string>& more = {});

}  // namespace ckptdb::testing

#endif  // CKPTDB_TESTS_TOOLS_RUN_TOOL_H_
