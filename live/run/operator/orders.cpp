#include "live/run/operator/orders.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "live/run/files/run_files.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 64 * 1024;
constexpr double kMostSeconds = 1e9;

/// Returns the removal; nothing, and the reason in `fault`, if a value is not permitted.
std::optional<RemovalOrder> read_removal(const nlohmann::json& said, std::string& fault) {
  const auto kind = said.at("part").get<std::string>();
  const auto notice = said.at("in_s").get<double>(), lasts = said.value("for_s", 0.0);
  const bool is_gpu = kind == name_of(PartKind::gpu);
  if (!is_gpu && kind != name_of(PartKind::node)) {
    fault = fmt::format("expected a part of the kind gpu or node, found '{}'", kind);
  } else if (!(notice > 0 && notice <= kMostSeconds && lasts >= 0 && lasts <= kMostSeconds)) {
    fault = fmt::format("expected times above 0 s and at most {} s", kMostSeconds);
  }
  if (!fault.empty()) return {};
  RemovalOrder removal{
      .part = {is_gpu ? PartKind::gpu : PartKind::node, said.at("index").get<std::uint32_t>()},
      .notice = to_nanos(notice),
      .test = said.value("test", false)};
  if (lasts > 0) removal.lasts = to_nanos(lasts);
  return removal;
}

Order read_order(const std::string& path) {
  Order order{.file = path, .set = {}, .verdict = {}, .removal = {}, .fault = {}};
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
    } else if (said.contains("drain")) {
      order.removal = read_removal(said.at("drain"), order.fault);
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
