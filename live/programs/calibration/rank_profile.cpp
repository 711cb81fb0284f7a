#include "live/programs/calibration/rank_profile.hpp"

#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace orrery::live {
namespace {

using Json = nlohmann::json;

ProfiledPart part_of(const Json& row) {
  constexpr std::array<std::pair<std::string_view, ProfiledPart::Kind>, 3> kKinds{
      {{"backward", ProfiledPart::Kind::backward},
       {"input", ProfiledPart::Kind::input},
       {"update", ProfiledPart::Kind::update}}};
  const auto kind = row.at(0).get<std::string>();
  for (const auto& [name, value] : kKinds) {
    if (name == kind) return {value, row.at(1).get<double>(), row.at(2).get<double>()};
  }
  throw Error(ErrorKind::bad_input, "unknown part of a step: " + kind);
}

/// Returns the ranks in the key of a group, for example 0, 1 and 2 of "gloo:0:0-1-2#0".
std::vector<std::uint32_t> members_of(const std::string& key) {
  const std::size_t from = key.rfind(':') + 1;
  std::istringstream ranks(key.substr(from, key.rfind('#') - from));
  std::vector<std::uint32_t> members;
  for (std::string each; std::getline(ranks, each, '-');) {
    members.push_back(static_cast<std::uint32_t>(std::stoul(each)));
  }
  return members;
}

ProfiledOperation operation_of(const Json& row) {
  return {row.at(0).get<std::string>(), members_of(row.at(1).get<std::string>()),
          row.at(2).get<double>(),      row.at(3).get<double>(),
          row.at(4).get<double>(),      row.at(5).get<double>(),
          row.at(6).get<double>()};
}

}  // namespace

RankProfile rank_profile_of(const std::string& text, const std::string& place) {
  try {
    const Json json = Json::parse(text);
    RankProfile profile;
    profile.rank = json.at("rank").get<std::uint32_t>();
    profile.ranks = json.at("ranks").get<std::uint32_t>();
    profile.examples = json.value("examples", 0u);
    for (const Json& row : json.at("parts")) profile.parts.push_back(part_of(row));
    for (const Json& row : json.at("operations")) profile.operations.push_back(operation_of(row));
    const auto status =
        google::protobuf::util::JsonStringToMessage(json.at("state").dump(), &profile.state);
    if (!status.ok()) throw Error(ErrorKind::bad_input, std::string(status.message()));
    return profile;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: expected the profile of a rank, found: {}", place, error.what()));
  }
}

}  // namespace orrery::live
