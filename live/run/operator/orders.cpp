#include "live/run/operator/orders.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64 * 1024;

Order read_order(const std::string& path) {
  Order order{.file = path, .set = {}, .verdict = {}, .fault = {}};
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  try {
    const auto said = nlohmann::json::parse(text);
    if (said.contains("set")) {
      const auto& set = said.at("set");
      order.set = {.policy = set.at("policy").get<std::string>(),
                   .parameter = set.at("parameter").get<std::string>(),
                   .value = set.at("value").get<std::string>()};
    } else {
      const auto& verdict = said.at("verdict");
      order.verdict = {.decision = verdict.at("decision").get<std::uint64_t>(),
                       .accepted = verdict.at("accepted").get<bool>(),
                       .reason = verdict.value("reason", std::string())};
    }
  } catch (const nlohmann::json::exception& error) {
    order.fault = error.what();
  }
  return order;
}

}  // namespace

std::vector<Order> read_orders(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename();
    if (name.starts_with(kOrderPrefix) && name.ends_with(kOrderSuffix)) {
      files.push_back(at->path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Order> orders;
  for (const std::string& file : files) orders.push_back(read_order(file));
  return orders;
}

}  // namespace orrery::live
