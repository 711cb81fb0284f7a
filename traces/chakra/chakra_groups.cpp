#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "traces/chakra/chakra_wire.hpp"

namespace orrery {

std::vector<NamedGroup> groups_in_json(const std::string& file, std::string_view json) {
  const auto bad = [&](const std::string& what) {
    return Error(SourcePlace{.file = file, .line_text = ""}, "communicator groups: " + what);
  };
  const nlohmann::json parsed = nlohmann::json::parse(json, nullptr, false);
  if (parsed.is_discarded()) throw bad("not JSON");
  if (!parsed.is_array() && !parsed.is_object()) throw bad("neither a list nor an object");
  const auto ranks_of = [&](const nlohmann::json& list, const std::string& name) {
    if (!list.is_array()) throw bad(fmt::format("the ranks of '{}' are no list", name));
    std::vector<std::uint32_t> ranks;
    for (const nlohmann::json& rank : list) {
      if (!rank.is_number_unsigned() || rank.get<std::uint64_t>() >= kMostChakraRanks) {
        throw bad(fmt::format("'{}' has a member that is no rank: {}", name,
                              rank.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
      }
      ranks.push_back(rank.get<std::uint32_t>());
    }
    return ranks;
  };
  std::vector<NamedGroup> groups;
  if (parsed.is_object()) {
    for (const auto& [name, list] : parsed.items()) groups.push_back({name, ranks_of(list, name)});
    return groups;
  }
  for (const nlohmann::json& entry : parsed) {
    if (!entry.is_object() || !entry.contains("pg_name") || !entry["pg_name"].is_string()) continue;
    const auto name = entry["pg_name"].get<std::string>();
    groups.push_back({name, ranks_of(entry.value("ranks", nlohmann::json::array()), name)});
  }
  return groups;
}

}  // namespace orrery
