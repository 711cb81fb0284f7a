// Description of a file for `orrery describe`: its kind by its contents, and its main figures.
// Thread-safe: no state between calls.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace orrery::cli {

/// Description of one file.
struct Description {
  std::string kind;    ///< "model", "scenario", "cluster", "replay", "machine" or "job log"
  std::string format;  ///< for example "Hugging Face config.json"
  /// Labels and texts for people.
  std::vector<std::pair<std::string, std::string>> lines = {};
  nlohmann::ordered_json json = {};       ///< figures for scripts, without the kind
  std::vector<std::string> assumed = {};  ///< differences between the file and its description
};

/// Returns the description of a file. `sequence_length` is the number of tokens of a sequence for
/// the operations of a model; 0: the file's own, else 8192. Throws bad_input with the place for a
/// broken file of a known kind, and for a file of no known kind with the nearest reason.
Description describe_file(const std::string& path, std::uint32_t sequence_length);

}  // namespace orrery::cli
