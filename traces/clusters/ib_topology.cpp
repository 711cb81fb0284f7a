// Reader of the output of ibnetdiscover: the switches and host channel adapters of an InfiniBand
// network. Only the lines of switches count: each cable is there, at least once.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/clusters/cluster_readers.hpp"

namespace orrery {
namespace {

/// Data rate of a lane in Gbit/s.
constexpr std::array<std::pair<std::string_view, double>, 8> kLanes{{{"SDR", 2},
                                                                     {"DDR", 4},
                                                                     {"QDR", 8},
                                                                     {"FDR", 13.64},
                                                                     {"EDR", 25},
                                                                     {"HDR", 50},
                                                                     {"NDR", 100},
                                                                     {"XDR", 200}}};

/// Returns the rate of a word such as "4xNDR" in bytes per second; nothing for any other word.
std::optional<double> rate_of(std::string_view word) {
  const std::size_t cross = word.find('x');
  if (cross == std::string_view::npos || cross == 0 || cross > 2) return std::nullopt;
  double width = 0;
  for (const char c : word.substr(0, cross)) {
    if (c < '0' || c > '9') return std::nullopt;
    width = 10 * width + (c - '0');
  }
  for (const auto& [name, gbit] : kLanes) {
    if (word.substr(cross + 1) == name) return width * gbit * 1e9 / 8;
  }
  return std::nullopt;
}

/// Returns the text between two quotes from `at` on; nothing if a quote is missing.
std::optional<std::string> quoted(std::string_view line, std::size_t at = 0) {
  const std::size_t begin = line.find('"', at);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t end = line.find('"', begin + 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(begin + 1, end - begin - 1));
}

/// Cables of one switch.
struct Switch {
  std::set<std::string> nodes;           ///< names of hosts
  std::map<std::string, double> cables;  ///< rate of all cables to another switch together
};

/// Reader of the text, line by line.
class IbReader {
 public:
  explicit IbReader(const ConfigText& source) : source_(source) {}

  ClusterFacts read() {
    std::size_t begin = 0;
    for (int line = 1; begin < source_.text.size(); ++line) {
      const std::size_t end = std::min(source_.text.find('\n', begin), source_.text.size());
      read_line(source_.text.substr(begin, end - begin), line);
      begin = end + 1;
    }
    if (adapters_.empty())
      source_.throw_error(1, 1, "expected switches with host adapters, found none");
    return facts();
  }

 private:
  void read_line(std::string_view line, int number) {
    if (line.starts_with("Switch")) {
      const auto id = quoted(line);
      if (!id) source_.throw_error(number, 1, "expected the id of a switch in quotes");
      current_ = &switches_[*id];
    } else if (line.starts_with("Ca") || line.starts_with("Rt")) {
      current_ = nullptr;
    } else if (line.starts_with("[") && current_ != nullptr) {
      read_cable(line, number);
    }
  }

  void read_cable(std::string_view line, int number) {
    const auto peer = quoted(line);
    if (!peer)
      source_.throw_error(number, 1, "expected the id of the other end of a cable in quotes");
    const std::size_t comment = line.find('#');
    const std::string_view about =
        comment == std::string_view::npos ? std::string_view() : line.substr(comment);
    const std::size_t last = about.find_last_not_of(" \t\r");
    const std::string_view trimmed = about.substr(0, last == std::string_view::npos ? 0 : last + 1);
    const std::size_t blank = trimmed.find_last_of(" \t");
    const std::optional<double> rate =
        blank == std::string_view::npos ? std::nullopt : rate_of(trimmed.substr(blank + 1));
    if (!rate) ++without_rate_;
    if (peer->starts_with("S-")) {
      current_->cables[*peer] += rate.value_or(0);
      return;
    }
    const std::string name = quoted(about).value_or("");
    if (name.find("Aggregation Node") != std::string::npos) return;  // SHARP's port of a switch
    const std::string host = name.substr(0, name.find(' '));
    if (host.empty()) {
      source_.throw_error(number, 1, "expected the name of a host in quotes behind '#'");
    }
    current_->nodes.insert(host);
    adapters_[host].insert(*peer);
    if (rate) slowest_ = slowest_ == 0 ? *rate : std::min(slowest_, *rate);
  }

  ClusterFacts facts() const {
    ClusterFacts out;
    out.nodes = static_cast<std::uint32_t>(adapters_.size());
    for (const auto& [host, adapters] : adapters_) {
      out.nics_per_node = std::max(out.nics_per_node, static_cast<std::uint32_t>(adapters.size()));
    }
    out.nic_bandwidth = slowest_;
    std::size_t leaves = 0;
    for (const auto& [id, each] : switches_) {
      if (each.nodes.empty()) continue;
      ++leaves;
      out.nodes_per_leaf =
          std::max(out.nodes_per_leaf, static_cast<std::uint32_t>(each.nodes.size()));
      out.spines = std::max(out.spines, static_cast<std::uint32_t>(each.cables.size()));
      for (const auto& [spine, rate] : each.cables) {
        const bool is_slower = rate > 0 && rate < out.spine_link_bandwidth;
        if (is_slower || out.spine_link_bandwidth == 0) out.spine_link_bandwidth = rate;
      }
    }
    if (without_rate_ > 0) {
      out.assumed.push_back(
          fmt::format("{} cables without a rate as fast as the others", without_rate_));
    }
    if (leaves < switches_.size()) {
      out.assumed.emplace_back("every leaf cabled to its spines as the best one is");
    }
    out.ignored.emplace_back("GUIDs, LIDs, routers, tiers above the second");
    out.read.push_back(fmt::format("ibnetdiscover: {} nodes, {} leaf switches, {} other switches",
                                   out.nodes, leaves, switches_.size() - leaves));
    return out;
  }

  const ConfigText& source_;
  std::map<std::string, Switch> switches_;
  std::map<std::string, std::set<std::string>> adapters_;  ///< adapters of each host
  Switch* current_ = nullptr;
  std::size_t without_rate_ = 0;
  double slowest_ = 0;
};

}  // namespace

ClusterFacts read_ibnetdiscover(const ConfigText& source) { return IbReader(source).read(); }

}  // namespace orrery
