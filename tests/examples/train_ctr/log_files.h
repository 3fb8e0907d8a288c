// SPDX-License-Identifier: Apache-2.0
// Small click logs that tests write themselves.
#ifndef CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_LOG_FILES_H_
#define CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_LOG_FILES_H_

#include <cstdint>
#include <fstream>
#include <string>

#include "train_ctr/random.h"

namespace train_ctr {

inline void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string CriteoHeader() {
  std::string header = "label";
  for (int i = 1; i <= 13; ++i) header += ",I" + std::to_string(i);
  for (int c = 1; c <= 26; ++c) header += ",C" + std::to_string(c);
  return header;
}

// Every seventh column is empty.
inline std::string CriteoLog(int examples, uint64_t seed) {
  Random random(seed);
  std::string text = CriteoHeader() + "\n";
  for (int e = 0; e < examples; ++e) {
    text += random.NextBelow(4) == 0 ? "1" : "0";
    for (int column = 1; column <= 39; ++column) {
      text += ',';
      if (random.NextBelow(7) == 0) continue;
      const std::string value = std::to_string(random.NextBelow(50));
      text += column <= 13 ? value + ".0" : "c" + value;
    }
    text += '\n';
  }
  return text;
}

inline std::string MovieLensLog(int examples, uint64_t seed,
                                const std::string& separator) {
  Random random(seed);
  std::string text;
  for (int e = 0; e < examples; ++e) {
    text += std::to_string(random.NextBelow(60)) + separator;
    text += std::to_string(random.NextBelow(90)) + separator;
    text += std::to_string(1 + random.NextBelow(5)) + separator;
    text += std::to_string(881250949 + random.NextBelow(1000000)) + "\n";
  }
  return text;
}

}  // namespace train_ctr

#endif  // CKPTDB_TESTS_EXAMPLES_TRAIN_CTR_LOG_FILES_H_
